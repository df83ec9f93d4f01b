//! How a lock is held, which decides which others may hold it at the same time.
//!
//! Responsible for the sequential model of each primitive, as a relation between two holders, and
//! for its text in a line. Not for time.

/// How a lock is held.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum How {
    /// Exclusively: a mutex, or the writer of a lock that has readers.
    #[default]
    Alone,
    /// Together with other readers.
    Reader,
    /// Together with the other entries of this identity.
    Entry(String),
    /// As one of the permits of a semaphore. Each of them is a lock of its own that is held alone.
    Permit {
        /// Which semaphore.
        semaphore: String,
        /// How many permits it has, as this holder names it.
        of: u32,
    },
}

impl How {
    /// Whether one lock can be held in both ways at a time.
    #[must_use]
    pub fn goes_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Reader, Self::Reader) => true,
            (Self::Entry(one), Self::Entry(other)) => one == other,
            (Self::Alone | Self::Reader | Self::Entry(_) | Self::Permit { .. }, _) => false,
        }
    }

    /// As a field of a line.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Alone => "alone".to_owned(),
            Self::Reader => "reader".to_owned(),
            Self::Entry(identity) => format!("entry {identity}"),
            Self::Permit { semaphore, of } => format!("permit {of} {semaphore}"),
        }
    }

    /// `None` for any other text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text.split_once(' ') {
            None if text == "alone" => Self::Alone,
            None if text == "reader" => Self::Reader,
            Some(("entry", identity)) => Self::Entry(identity.to_owned()),
            Some(("permit", rest)) => {
                let (of, semaphore) = rest.split_once(' ')?;
                Self::Permit { semaphore: semaphore.to_owned(), of: of.parse().ok()? }
            }
            None | Some(_) => return None,
        })
    }
}

/// Several locks that one holder holds together: all of them, or none.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Set {
    /// The same for all its members, and for no other set.
    pub id: String,
    /// The number of requested members.
    pub size: usize,
}
