//! Names of locks: validated once on input, so that inner code needs no checks.

use std::{borrow::Borrow, error, fmt, sync::Arc};

/// The name of a lock. It is the key on the nodes, unchanged.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Name(Arc<str>);

impl Name {
    /// Validates `text` as a name.
    ///
    /// # Errors
    ///
    /// [`NameError`] if it is empty, is longer than [`NAME_LEN_MAX`] bytes, contains control
    /// characters, or begins with `reserved`, the prefix of Quorate's own keys.
    pub fn parse(text: &str, reserved: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > NAME_LEN_MAX {
            return Err(NameError::TooLong { len: text.len() });
        }
        if let Some((at, found)) = text.char_indices().find(|(_, c)| c.is_control()) {
            return Err(NameError::Control { at, found });
        }
        if !reserved.is_empty() && text.starts_with(reserved) {
            return Err(NameError::Reserved { prefix: reserved.into() });
        }
        Ok(Self(text.into()))
    }

    /// The name as a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as bytes of the key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Names are ordered like their texts.
impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Why a text is not a valid lock name.
///
/// # Examples
///
/// ```
/// use quorate_core::name::{Name, NameError};
///
/// assert_eq!(Name::parse("", "quorate:"), Err(NameError::Empty));
/// let error = Name::parse("quorate:mine", "quorate:").unwrap_err();
/// assert_eq!(error.to_string(), r#"names under "quorate:" are reserved, choose another"#);
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NameError {
    /// The text is empty.
    Empty,
    /// It has more than [`NAME_LEN_MAX`] bytes.
    TooLong {
        /// How many bytes it has.
        len: usize,
    },
    /// It contains a control character, which would garble logs and terminals.
    Control {
        /// Its byte offset.
        at: usize,
        /// The character.
        found: char,
    },
    /// It begins with the prefix of Quorate's own keys.
    Reserved {
        /// The reserved prefix.
        prefix: Box<str>,
    },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a lock's name must not be empty"),
            Self::TooLong { len } => {
                write!(f, "a lock's name has at most {NAME_LEN_MAX} bytes, but this one has {len}")
            }
            Self::Control { at, found } => write!(
                f,
                "a lock's name must not contain control characters: found {found:?} at byte {at}"
            ),
            Self::Reserved { prefix } => {
                write!(f, "names under {prefix:?} are reserved, choose another")
            }
        }
    }
}

impl error::Error for NameError {}

/// The longest name, in bytes.
pub const NAME_LEN_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_are_unchanged() {
        let longest = "x".repeat(NAME_LEN_MAX);
        for text in ["a", "orders:42", "with space", "größe/鎖/🔒", "{tag}x}", "\"'\\", &longest]
        {
            assert_eq!(Name::parse(text, "quorate:").expect("valid").as_str(), text);
        }
    }

    #[test]
    fn invalid_names_are_explained() {
        let parse = |text: &str| Name::parse(text, "quorate:").expect_err("bad").to_string();
        assert_eq!(parse(""), "a lock's name must not be empty");
        assert!(parse(&"é".repeat(513)).contains("this one has 1026"));
        assert!(parse("a\nb").contains(r"'\n' at byte 1"));
        assert!(parse("a\u{7f}").contains("control"));
        assert!(parse("quorate:x").contains("reserved"));
        assert!(Name::parse("quorate", "quorate:").is_ok());
    }
}
