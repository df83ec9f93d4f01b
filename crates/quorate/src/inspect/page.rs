//! Pages of a list of locks, and where the list continues.

use std::{fmt, str::FromStr};

use quorate_core::inspect::Cursor;
use thiserror::Error;

use super::LockReport;
use crate::error::NodeReport;

/// One page of a [list of locks](crate::Client::locks).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// let mut list = client.locks("orders:");
/// while let Some(page) = list.next_page().await? {
///     if !page.is_complete {
///         eprintln!("some locks may be missing");
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct LockPage {
    /// The locks, in any order.
    pub locks: Vec<LockReport>,
    /// Continues the list. `None` after the last page.
    pub next: Option<LockCursor>,
    /// False if too few nodes answered on the pages so far: then held locks may be missing.
    pub is_complete: bool,
    /// Whether each node listed its locks on the pages so far, in the order in which the nodes were
    /// configured.
    pub nodes: Box<[NodeReport]>,
}

/// Where a [list of locks](crate::Client::locks) continues. It converts to and from text, for a
/// URL or a file (`to_string`, `parse`).
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
/// let cursor: LockCursor = LockCursor::default().to_string().parse()?; // the beginning
/// let page = client.locks("").starting_at(cursor).next_page().await?.expect("a page");
/// assert_eq!(page.locks.len(), 1);
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

/// A text that is not a cursor.
///
/// # Examples
///
/// ```
/// use quorate::inspect::{CursorError, LockCursor};
///
/// let refused: Result<LockCursor, CursorError> = "orders:42".parse();
/// assert!(refused.is_err());
/// ```
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("invalid cursor of a list of locks: use the text of LockPage::next, unchanged")]
#[non_exhaustive]
pub struct CursorError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_converts_to_text_and_back() {
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
