//! A number of permits, without async.

use std::time::Duration;

use super::{Client, Permit, Permits, delegate::delegate_settings, wait, with};
use crate::error::{LockError, WithError};

impl Client {
    /// See [`crate::Client::semaphore`].
    #[must_use]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore(self.0.semaphore(name, permits))
    }
}

/// A number of permits, each of which at most one owner holds. See [`crate::Semaphore`] for how it
/// works.
///
/// # Examples
///
/// ```
/// # let client = quorate::blocking::Client::memory();
/// let uploads = client.semaphore("uploads", 2);
/// let (first, _second) = (uploads.acquire()?, uploads.acquire()?);
/// assert!(uploads.try_acquire()?.is_none(), "both permits are in use");
/// first.release()?;
/// assert!(uploads.try_acquire()?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore(crate::Semaphore);

delegate_settings!(Semaphore, "crate::Semaphore");

impl Semaphore {
    /// The most permits of one semaphore. See [`crate::Semaphore::MAX_PERMITS`].
    pub const MAX_PERMITS: u32 = crate::Semaphore::MAX_PERMITS;

    /// See [`crate::Semaphore::try_acquire`].
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::try_acquire`].
    pub fn try_acquire(&self) -> Result<Option<Permit>, LockError> {
        Ok(wait(self.0.try_acquire())?.map(Permit::new))
    }

    /// See [`crate::Semaphore::acquire`].
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::acquire`].
    pub fn acquire(&self) -> Result<Permit, LockError> {
        wait(self.0.acquire()).map(Permit::new)
    }

    /// See [`crate::Semaphore::acquire_timeout`].
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::acquire_timeout`].
    pub fn acquire_timeout(&self, limit: Duration) -> Result<Permit, LockError> {
        wait(self.0.acquire_timeout(limit)).map(Permit::new)
    }

    /// See [`crate::Semaphore::with`].
    ///
    /// Nothing interrupts `work`: call `check` in it now and then.
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::with`]. [`WithError::Lost`] if the lock is lost when `work`
    /// returns.
    pub fn with<T>(&self, work: impl FnOnce(&Permit) -> T) -> Result<T, WithError> {
        with(self.acquire()?, work, Permit::check, Permit::release)
    }

    /// See [`crate::Semaphore::try_acquire_many`].
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::try_acquire_many`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = quorate::blocking::Client::memory();
    /// let gpus = client.semaphore("gpus", 4);
    /// let three = gpus.try_acquire_many(3)?.expect("all are free");
    /// assert!(gpus.try_acquire_many(2)?.is_none(), "one is free");
    /// three.release()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_acquire_many(&self, count: u32) -> Result<Option<Permits>, LockError> {
        Ok(wait(self.0.try_acquire_many(count))?.map(Permits::new))
    }

    /// See [`crate::Semaphore::acquire_many`].
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::acquire_many`].
    pub fn acquire_many(&self, count: u32) -> Result<Permits, LockError> {
        wait(self.0.acquire_many(count)).map(Permits::new)
    }

    /// See [`crate::Semaphore::acquire_many_timeout`].
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::acquire_many_timeout`].
    pub fn acquire_many_timeout(&self, count: u32, limit: Duration) -> Result<Permits, LockError> {
        wait(self.0.acquire_many_timeout(count, limit)).map(Permits::new)
    }

    /// See [`crate::Semaphore::with_many`].
    ///
    /// Nothing interrupts `work`: call `check` in it now and then.
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::with_many`]. [`WithError::Lost`] if a permit is lost when `work`
    /// returns.
    pub fn with_many<T>(
        &self,
        count: u32,
        work: impl FnOnce(&Permits) -> T,
    ) -> Result<T, WithError> {
        with(self.acquire_many(count)?, work, Permits::check, Permits::release)
    }
}
