//! Several permits of a semaphore, held by a blocking client.

use std::ops::Deref;

use super::{GuardAll, Permit};
use crate::error::ReleaseError;

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
pub struct Permits {
    guard: GuardAll,
    numbers: Vec<u32>,
}

impl Permits {
    pub(super) fn new(permits: crate::Permits) -> Self {
        let numbers = permits.numbers().collect();
        Self { guard: GuardAll(permits.into_guard()), numbers }
    }

    /// See [`crate::Permits::numbers`].
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.numbers.iter().copied()
    }

    /// See [`crate::Permits::into_permits`].
    pub fn into_permits(self) -> Vec<Permit> {
        let guards = self.guard.into_guards().into_iter();
        guards.zip(self.numbers).map(|(guard, number)| Permit::of(guard, number)).collect()
    }

    /// See [`crate::Permits::into_guard`].
    pub fn into_guard(self) -> GuardAll {
        self.guard
    }

    /// See [`crate::Permits::release`].
    ///
    /// # Errors
    ///
    /// As [`crate::Permits::release`].
    pub fn release(self) -> Result<(), ReleaseError> {
        self.guard.release()
    }
}

impl Deref for Permits {
    type Target = GuardAll;

    fn deref(&self) -> &GuardAll {
        &self.guard
    }
}

impl From<Permits> for GuardAll {
    fn from(permits: Permits) -> Self {
        permits.into_guard()
    }
}
