//! Guards of a blocking client.

use super::{
    delegate::{delegate_fence, delegate_hold, delegate_into_guard, delegate_lock},
    wait,
};
use crate::{
    error::DowngradeError,
    primitive::{guard_all::AnyGuard, permit},
};

/// A held lock. Dropping it releases the lock in the background. See [`crate::Guard`].
///
/// # Examples
///
/// ```
/// # let client = quorate::blocking::Client::memory();
/// let guard = client.mutex("orders:42").lock()?;
/// guard.check()?; // before each step that must not overlap with another holder's
/// drop(guard); // releases the lock, even after a panic
/// assert!(client.mutex("orders:42").try_lock()?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard(pub(super) crate::Guard);

impl AnyGuard for Guard {
    fn as_guard(&self) -> &crate::Guard {
        &self.0
    }

    fn into_guard(self) -> crate::Guard {
        self.0
    }
}

delegate_hold!(Guard, "crate::Guard", |it| it.0);
delegate_lock!(Guard, "crate::Guard", |it| it.0);
delegate_fence!(Guard, "crate::Guard", |it| it.0);

/// The guard of a reader, which shares the lock with other readers. See [`crate::ReadGuard`].
///
/// # Examples
///
/// ```
/// # let client = quorate::blocking::Client::memory();
/// let prices = client.rwlock("prices");
/// let reader = prices.read()?;
/// reader.check()?;
/// drop(reader);
/// assert!(prices.try_write()?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct ReadGuard(Guard);

impl ReadGuard {
    pub(super) fn new(reader: crate::ReadGuard) -> Self {
        Self(Guard(reader.into_guard()))
    }
}

delegate_hold!(ReadGuard, "crate::ReadGuard", |it| it.0.0);
delegate_lock!(ReadGuard, "crate::ReadGuard", |it| it.0.0);
delegate_into_guard!(ReadGuard(Guard), "crate::ReadGuard");

/// The guard of a writer, which can be downgraded to a [`ReadGuard`]. See [`crate::WriteGuard`].
///
/// # Examples
///
/// ```
/// # let client = quorate::blocking::Client::memory();
/// let prices = client.rwlock("prices");
/// let reader = prices.write()?.downgrade()?;
/// assert!(prices.try_read()?.is_some(), "other readers share it");
/// reader.release()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct WriteGuard(Guard);

impl WriteGuard {
    pub(super) fn new(writer: crate::WriteGuard) -> Self {
        Self(Guard(writer.into_guard()))
    }

    /// See [`crate::WriteGuard::downgrade`].
    ///
    /// # Errors
    ///
    /// As [`crate::WriteGuard::downgrade`].
    pub fn downgrade(self) -> Result<ReadGuard, DowngradeError> {
        wait(crate::WriteGuard::new(self.0.0).downgrade()).map(ReadGuard::new)
    }
}

delegate_hold!(WriteGuard, "crate::WriteGuard", |it| it.0.0);
delegate_lock!(WriteGuard, "crate::WriteGuard", |it| it.0.0);
delegate_fence!(WriteGuard, "crate::WriteGuard", |it| it.0.0);
delegate_into_guard!(WriteGuard(Guard), "crate::WriteGuard");

impl AsRef<Guard> for WriteGuard {
    fn as_ref(&self) -> &Guard {
        &self.0
    }
}

/// A permit of a semaphore, held: a [`Guard`] with a number. See [`crate::Permit`].
///
/// # Examples
///
/// ```
/// # let client = quorate::blocking::Client::memory();
/// let permit = client.semaphore("gpus", 4).acquire()?;
/// println!("use GPU {}", permit.number() - 1);
/// permit.release()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the permit is released as soon as the guard is dropped"]
pub struct Permit(pub(super) Guard);

impl Permit {
    pub(super) fn new(permit: crate::Permit) -> Self {
        Self(Guard(permit.into_guard()))
    }

    /// See [`crate::Permit::number`].
    #[must_use]
    pub fn number(&self) -> u32 {
        permit::number(&self.0.0)
    }
}

delegate_hold!(Permit, "crate::Permit", |it| it.0.0);
delegate_lock!(Permit, "crate::Permit", |it| it.0.0);
delegate_fence!(Permit, "crate::Permit", |it| it.0.0);
delegate_into_guard!(Permit(Guard), "crate::Permit");

impl AsRef<Guard> for Permit {
    fn as_ref(&self) -> &Guard {
        &self.0
    }
}
