//! Lists of locks in pages, for nodes with more locks than fit into one list.

use std::{fmt, str::FromStr};

use quorate_core::inspect::Cursor;
use thiserror::Error;

use super::LockReport;

/// One page of a list of locks.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// let _guards = [client.mutex("a").lock().await?, client.mutex("b").lock().await?];
/// let mut names = Vec::new();
/// let mut cursor = None;
/// loop {
///     let page = client.locks_page("", cursor.as_ref(), 1).await?;
///     names.extend(page.locks.into_iter().map(|lock| lock.name));
///     cursor = page.next;
///     if cursor.is_none() {
///         break;
///     }
/// }
/// assert_eq!(names, ["a", "b"]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LockPage {
    /// The locks, in no particular order.
    pub locks: Vec<LockReport>,
    /// Continues the list. `None` after the last page.
    pub next: Option<LockCursor>,
    /// False if so few nodes answered, up to this page, that locks that are held may be missing.
    pub is_complete: bool,
}

/// Where a list of locks continues. It is a text for a URL or a file (`to_string`, `parse`).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// use quorate::inspect::LockCursor;
///
/// let _guard = client.mutex("a").lock().await?;
/// let page = client.locks_page("", None, 100).await?;
/// let text = page.next.unwrap_or_default().to_string(); // for a URL, say
/// let cursor: LockCursor = text.parse()?;
/// assert_eq!(client.locks_page("", Some(&cursor), 100).await?.locks.len(), 1);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LockCursor {
    /// The node whose locks are listed.
    pub(crate) node: usize,
    /// The nodes before it that could not list all of theirs, one bit for each.
    pub(crate) failed: u32,
    /// Where its list continues.
    pub(crate) place: Option<Cursor>,
}

impl fmt::Display for LockCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, failed, place } = self;
        let place = place.as_ref().map_or("", Cursor::as_str);
        write!(f, "{node}:{failed:x}:{place}")
    }
}

impl FromStr for LockCursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let mut parts = text.splitn(3, ':');
        let mut part = || parts.next().ok_or(CursorError);
        let node = part()?.parse().map_err(|_| CursorError)?;
        let failed = u32::from_str_radix(part()?, 16).map_err(|_| CursorError)?;
        let place = Some(part()?).filter(|place| !place.is_empty()).map(Cursor::new);
        Ok(Self { node, failed, place })
    }
}

/// A text is not a cursor.
///
/// # Examples
///
/// ```
/// use quorate::inspect::{CursorError, LockCursor};
///
/// assert_eq!("orders:42".parse::<LockCursor>(), Err(CursorError));
/// ```
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("this is not a cursor of a list of locks")]
pub struct CursorError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_survives_its_way_as_text() {
        for place in [None, Some("17"), Some("a:b c")] {
            let cursor = LockCursor { node: 3, failed: 5, place: place.map(Cursor::new) };
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
    }

    #[test]
    fn other_texts_are_rejected() {
        for text in ["", "1", "1:2", "x:0:", "1:zz:", "-1:0:", "99999999999999999999:0:"] {
            assert_eq!(text.parse::<LockCursor>(), Err(CursorError), "{text}");
        }
    }
}
