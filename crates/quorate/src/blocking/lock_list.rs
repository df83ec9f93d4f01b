//! Lists of locks for a blocking client.

use super::wait;
use crate::{
    error::InspectError,
    inspect::{LockCursor, LockPage},
};

/// The locks whose names begin with a prefix, a page at a time. See [`crate::LockList`].
///
/// It is also an iterator over the pages.
///
/// # Examples
///
/// ```
/// # let client = quorate::blocking::Client::memory();
/// let _guards = [client.mutex("a").lock()?, client.mutex("b").lock()?];
/// for page in client.locks("").page_size(1) {
///     for lock in page?.locks {
///         println!("{lock}");
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a list asks no node until a page is read"]
pub struct LockList(pub(super) crate::LockList);

impl LockList {
    /// See [`crate::LockList::page_size`].
    pub fn page_size(self, locks: usize) -> Self {
        Self(self.0.page_size(locks))
    }

    /// See [`crate::LockList::starting_at`].
    pub fn starting_at(self, cursor: LockCursor) -> Self {
        Self(self.0.starting_at(cursor))
    }

    /// See [`crate::LockList::next_page`].
    ///
    /// # Errors
    ///
    /// As [`crate::LockList::next_page`].
    pub fn next_page(&mut self) -> Result<Option<LockPage>, InspectError> {
        wait(self.0.next_page())
    }

    /// See [`crate::LockList::all`].
    ///
    /// # Errors
    ///
    /// As [`crate::LockList::all`].
    pub fn all(self) -> Result<LockPage, InspectError> {
        wait(self.0.all())
    }
}

/// The iterator ends after the first error.
impl Iterator for LockList {
    type Item = Result<LockPage, InspectError>;

    fn next(&mut self) -> Option<Self::Item> {
        let page = self.next_page();
        if page.is_err() {
            self.0.end();
        }
        page.transpose()
    }
}
