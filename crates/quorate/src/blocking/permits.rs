//! Several permits of a semaphore, held by a blocking client.

use super::{
    Guard, GuardAll, Permit,
    delegate::{delegate_hold, delegate_into_guard},
};
use crate::{fence::Fence, primitive::permit};

/// Several permits of a semaphore, held: a [`GuardAll`] with numbers. See [`crate::Permits`].
///
/// # Examples
///
/// ```
/// # let client = quorate::blocking::Client::memory();
/// let permits = client.semaphore("gpus", 4).acquire_many(4)?;
/// assert_eq!(permits.numbers().collect::<Vec<_>>(), [1, 2, 3, 4]);
/// permits.release()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the permits are released as soon as the guard is dropped"]
pub struct Permits(GuardAll);

impl Permits {
    pub(super) fn new(permits: crate::Permits) -> Self {
        Self(GuardAll::new(permits.into_guard()))
    }

    /// See [`crate::Permits::numbers`].
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.guards().iter().map(|guard| permit::number(&guard.0))
    }

    /// See [`crate::Permits::guards`].
    pub fn guards(&self) -> &[Guard] {
        self.0.guards()
    }

    /// See [`crate::Permits::into_permits`].
    pub fn into_permits(self) -> Vec<Permit> {
        self.0.into_guards().into_iter().map(Permit).collect()
    }

    /// See [`crate::Permits::fence`].
    #[must_use]
    pub fn fence(&self, name: &str) -> Option<Fence> {
        self.0.fence(name)
    }
}

delegate_hold!(Permits, "crate::Permits", |it| it.0.0);
delegate_into_guard!(Permits(GuardAll), "crate::Permits");

impl AsRef<GuardAll> for Permits {
    fn as_ref(&self) -> &GuardAll {
        &self.0
    }
}
