//! A number of permits, without async.

use std::time::Duration;

use super::{Client, Guard, GuardAll, mutex_all::with_all, wait, with};
use crate::error::{LockError, WithError};

impl Client {
    /// A number of permits, each of which at most one owner holds.
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

impl Semaphore {
    /// See [`crate::Semaphore::ttl`].
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// See [`crate::Semaphore::who`].
    #[must_use]
    pub fn who(self, who: impl AsRef<str>) -> Self {
        Self(self.0.who(who))
    }

    /// See [`crate::Semaphore::no_renew`].
    #[must_use]
    pub fn no_renew(self) -> Self {
        Self(self.0.no_renew())
    }

    /// See [`crate::Semaphore::max_hold`].
    #[must_use]
    pub fn max_hold(self, max_hold: Duration) -> Self {
        Self(self.0.max_hold(max_hold))
    }

    /// Takes a permit if there is one; `None` if all are taken.
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::try_acquire`].
    pub fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        Ok(wait(self.0.try_acquire())?.map(Guard))
    }

    /// Takes a permit, waiting for as long as others have all of them.
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::acquire`].
    pub fn acquire(&self) -> Result<Guard, LockError> {
        wait(self.0.acquire()).map(Guard)
    }

    /// Takes a permit, waiting up to `limit`.
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::acquire_timeout`].
    pub fn acquire_timeout(&self, limit: Duration) -> Result<Guard, LockError> {
        wait(self.0.acquire_timeout(limit)).map(Guard)
    }

    /// Takes a permit, runs `work`, and releases the permit.
    ///
    /// Nothing can stop `work` from outside: let it look at [`Guard::check`] now and then.
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::with`]; the permit counts as lost if it was when `work` was done.
    pub fn with<T>(&self, work: impl FnOnce(&Guard) -> T) -> Result<T, WithError> {
        with(self.acquire()?, work)
    }

    /// Acquires `count` permits if so many are free; `None` if not. All or nothing.
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
    pub fn try_acquire_many(&self, count: u32) -> Result<Option<GuardAll>, LockError> {
        Ok(wait(self.0.try_acquire_many(count))?.map(GuardAll))
    }

    /// Acquires `count` permits, waiting until so many are free. All or nothing.
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::acquire_many`].
    pub fn acquire_many(&self, count: u32) -> Result<GuardAll, LockError> {
        wait(self.0.acquire_many(count)).map(GuardAll)
    }

    /// Acquires `count` permits, waiting up to `limit`. All or nothing.
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::acquire_many_timeout`].
    pub fn acquire_many_timeout(&self, count: u32, limit: Duration) -> Result<GuardAll, LockError> {
        wait(self.0.acquire_many_timeout(count, limit)).map(GuardAll)
    }

    /// Acquires `count` permits, runs `work`, and releases them.
    ///
    /// Nothing can stop `work` from outside: call [`GuardAll::check`] in it now and then.
    ///
    /// # Errors
    ///
    /// As [`crate::Semaphore::with_many`]; the permits count as lost if one was when `work` was
    /// done.
    pub fn with_many<T>(
        &self,
        count: u32,
        work: impl FnOnce(&GuardAll) -> T,
    ) -> Result<T, WithError> {
        with_all(self.acquire_many(count)?, work)
    }
}
