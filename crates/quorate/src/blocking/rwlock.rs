//! A lock that many hold together, or one alone, without async.

use std::{ops::Deref, time::Duration};

use super::{Client, Guard, wait, with};
use crate::error::{DowngradeError, LockError, ReleaseError, WithError};

impl Client {
    /// A lock that any number of readers hold together, or one writer alone.
    /// See [`crate::Client::rwlock`].
    #[must_use]
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock(self.0.rwlock(name))
    }
}

/// A lock that any number of readers hold together, or one writer alone. See [`crate::RwLock`].
///
/// # Examples
///
/// ```
/// # let client = quorate::blocking::Client::memory();
/// let prices = client.rwlock("prices");
/// let reader = prices.read()?;
/// std::thread::spawn(move || drop(reader));
/// let _writer = prices.write()?; // comes when the reader is gone
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RwLock(crate::RwLock);

impl RwLock {
    /// See [`crate::RwLock::ttl`].
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// See [`crate::RwLock::who`].
    #[must_use]
    pub fn who(self, who: impl AsRef<str>) -> Self {
        Self(self.0.who(who))
    }

    /// See [`crate::RwLock::no_renew`].
    #[must_use]
    pub fn no_renew(self) -> Self {
        Self(self.0.no_renew())
    }

    /// See [`crate::RwLock::max_hold`].
    #[must_use]
    pub fn max_hold(self, max_hold: Duration) -> Self {
        Self(self.0.max_hold(max_hold))
    }

    /// Holds the lock together with other readers, waiting for as long as somebody writes, or
    /// waits to.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::read`].
    pub fn read(&self) -> Result<Guard, LockError> {
        wait(self.0.read()).map(Guard)
    }

    /// The same, waiting up to `limit`.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::read_timeout`].
    pub fn read_timeout(&self, limit: Duration) -> Result<Guard, LockError> {
        wait(self.0.read_timeout(limit)).map(Guard)
    }

    /// Holds the lock together with other readers; `None` if somebody writes, or waits to.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::try_read`].
    pub fn try_read(&self) -> Result<Option<Guard>, LockError> {
        Ok(wait(self.0.try_read())?.map(Guard))
    }

    /// Holds the lock alone, waiting for as long as anybody else has it.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::write`].
    pub fn write(&self) -> Result<WriteGuard, LockError> {
        wait(self.0.write()).map(WriteGuard::new)
    }

    /// The same, waiting up to `limit`.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::write_timeout`].
    pub fn write_timeout(&self, limit: Duration) -> Result<WriteGuard, LockError> {
        wait(self.0.write_timeout(limit)).map(WriteGuard::new)
    }

    /// See [`crate::RwLock::try_write`].
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::try_write`].
    pub fn try_write(&self) -> Result<Option<WriteGuard>, LockError> {
        Ok(wait(self.0.try_write())?.map(WriteGuard::new))
    }

    /// Takes the lock as a reader, runs `work`, and releases the lock.
    /// See [`crate::RwLock::with_read`].
    ///
    /// Nothing can interrupt `work`: call [`Guard::check`] in it now and then.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::with_read`]. The lock counts as lost if it is lost when `work` returns.
    pub fn with_read<T>(&self, work: impl FnOnce(&Guard) -> T) -> Result<T, WithError> {
        with(self.read()?, work)
    }

    /// Takes the lock as a writer, runs `work`, and releases the lock.
    /// See [`crate::RwLock::with_write`].
    ///
    /// Nothing can interrupt `work`: call [`Guard::check`] in it now and then.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::with_write`]. The lock counts as lost if it is lost when `work` returns.
    pub fn with_write<T>(&self, work: impl FnOnce(&WriteGuard) -> T) -> Result<T, WithError> {
        let writer = self.write()?;
        let value = work(&writer);
        writer.check()?;
        // The work is done even if the release is not confirmed: it continues in the background.
        let _ = writer.release();
        Ok(value)
    }
}

/// The guard of a writer, which can become a reader's. See [`crate::WriteGuard`].
///
/// # Examples
///
/// ```
/// # let client = quorate::blocking::Client::memory();
/// let prices = client.rwlock("prices");
/// let reader = prices.write()?.downgrade()?;
/// assert!(prices.try_read()?.is_some(), "others read as well");
/// reader.release()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct WriteGuard(Guard);

impl WriteGuard {
    fn new(writer: crate::WriteGuard) -> Self {
        Self(Guard(writer.into_guard()))
    }

    /// The guard of any lock. See [`crate::WriteGuard::into_guard`].
    pub fn into_guard(self) -> Guard {
        self.0
    }

    /// Releases the lock on all nodes and tells whether it was still ours.
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::release`].
    pub fn release(self) -> Result<(), ReleaseError> {
        self.0.release()
    }

    /// Goes on as a reader, and nobody writes in between.
    ///
    /// # Errors
    ///
    /// As [`crate::WriteGuard::downgrade`].
    pub fn downgrade(self) -> Result<Guard, DowngradeError> {
        wait(self.0.0.downgrade()).map(Guard)
    }
}

impl Deref for WriteGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}

impl From<WriteGuard> for Guard {
    fn from(writer: WriteGuard) -> Self {
        writer.into_guard()
    }
}
