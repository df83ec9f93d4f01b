//! A lock that many hold together, or one alone, without async.

use std::time::Duration;

use super::{Client, ReadGuard, WriteGuard, delegate::delegate_settings, wait, with};
use crate::error::{LockError, WithError};

impl Client {
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

delegate_settings!(RwLock, "crate::RwLock");

impl RwLock {
    /// See [`crate::RwLock::read`].
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::read`].
    pub fn read(&self) -> Result<ReadGuard, LockError> {
        wait(self.0.read()).map(ReadGuard::new)
    }

    /// See [`crate::RwLock::read_timeout`].
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::read_timeout`].
    pub fn read_timeout(&self, limit: Duration) -> Result<ReadGuard, LockError> {
        wait(self.0.read_timeout(limit)).map(ReadGuard::new)
    }

    /// See [`crate::RwLock::try_read`].
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::try_read`].
    pub fn try_read(&self) -> Result<Option<ReadGuard>, LockError> {
        Ok(wait(self.0.try_read())?.map(ReadGuard::new))
    }

    /// See [`crate::RwLock::write`].
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::write`].
    pub fn write(&self) -> Result<WriteGuard, LockError> {
        wait(self.0.write()).map(WriteGuard::new)
    }

    /// See [`crate::RwLock::write_timeout`].
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

    /// See [`crate::RwLock::with_read`].
    ///
    /// Nothing interrupts `work`: call `check` in it now and then.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::with_read`]. [`WithError::Lost`] if the lock is lost when `work`
    /// returns.
    pub fn with_read<T>(&self, work: impl FnOnce(&ReadGuard) -> T) -> Result<T, WithError> {
        with(self.read()?, work, ReadGuard::check, ReadGuard::release)
    }

    /// See [`crate::RwLock::with_write`].
    ///
    /// Nothing interrupts `work`: call `check` in it now and then.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::with_write`]. [`WithError::Lost`] if the lock is lost when `work`
    /// returns.
    pub fn with_write<T>(&self, work: impl FnOnce(&WriteGuard) -> T) -> Result<T, WithError> {
        with(self.write()?, work, WriteGuard::check, WriteGuard::release)
    }
}
