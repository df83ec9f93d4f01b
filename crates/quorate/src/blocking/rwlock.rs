//! A lock that many hold together, or one alone, without async.

use std::time::Duration;

use super::{Client, Guard, wait};
use crate::error::LockError;

impl Client {
    /// A lock that any number of readers hold together, or one writer alone.
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = quorate::blocking::Client::memory();
    /// let prices = client.rwlock("prices");
    /// let _one = prices.read()?;
    /// let _two = prices.read()?; // together
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = quorate::blocking::Client::memory();
    /// # use std::time::Duration;
    /// let guard = client.rwlock("prices").ttl(Duration::from_secs(2)).read()?;
    /// assert!(guard.remaining() < Duration::from_secs(2)); // until the next renewal
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// See [`crate::RwLock::who`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = quorate::blocking::Client::memory();
    /// let _guard = client.rwlock("prices").who("nightly invoices").read()?;
    /// assert!(client.inspect("prices")?.to_string().contains("nightly invoices"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn who(self, who: impl AsRef<str>) -> Self {
        Self(self.0.who(who))
    }

    /// See [`crate::RwLock::no_renew`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = quorate::blocking::Client::memory();
    /// # use std::time::Duration;
    /// let brief = client.rwlock("prices").ttl(Duration::from_millis(20)).no_renew();
    /// let _lost = brief.read()?.wait_until_lost(); // its ttl is over
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn no_renew(self) -> Self {
        Self(self.0.no_renew())
    }

    /// See [`crate::RwLock::max_hold`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = quorate::blocking::Client::memory();
    /// # use {quorate::error::LostReason, std::time::Duration};
    /// let guard = client.rwlock("prices").max_hold(Duration::from_millis(20)).read()?;
    /// assert_eq!(guard.wait_until_lost().reason, LostReason::MaxHold);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = quorate::blocking::Client::memory();
    /// let guard = client.rwlock("prices").read()?;
    /// // Nobody changes the prices now.
    /// guard.release()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(&self) -> Result<Guard, LockError> {
        wait(self.0.read()).map(Guard)
    }

    /// The same, waiting up to `limit`.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::read_timeout`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = quorate::blocking::Client::memory();
    /// # use std::time::Duration;
    /// let prices = client.rwlock("prices");
    /// let _writer = prices.write()?;
    /// assert!(prices.read_timeout(Duration::from_millis(20)).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_timeout(&self, limit: Duration) -> Result<Guard, LockError> {
        wait(self.0.read_timeout(limit)).map(Guard)
    }

    /// Holds the lock together with other readers; `None` if somebody writes, or waits to.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::try_read`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = quorate::blocking::Client::memory();
    /// let prices = client.rwlock("prices");
    /// let _one = prices.read()?;
    /// assert!(prices.try_read()?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_read(&self) -> Result<Option<Guard>, LockError> {
        Ok(wait(self.0.try_read())?.map(Guard))
    }

    /// Holds the lock alone, waiting for as long as anybody else has it.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::write`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = quorate::blocking::Client::memory();
    /// let guard = client.rwlock("prices").write()?;
    /// assert!(guard.fence().is_some()); // send it along with every write
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write(&self) -> Result<Guard, LockError> {
        wait(self.0.write()).map(Guard)
    }

    /// The same, waiting up to `limit`.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::write_timeout`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = quorate::blocking::Client::memory();
    /// # use std::time::Duration;
    /// let prices = client.rwlock("prices");
    /// let _reader = prices.read()?;
    /// assert!(prices.write_timeout(Duration::from_millis(20)).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_timeout(&self, limit: Duration) -> Result<Guard, LockError> {
        wait(self.0.write_timeout(limit)).map(Guard)
    }

    /// Holds the lock alone, if nobody has it; `None` if somebody does.
    ///
    /// # Errors
    ///
    /// As [`crate::RwLock::try_write`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = quorate::blocking::Client::memory();
    /// let prices = client.rwlock("prices");
    /// let _writer = prices.try_write()?.expect("nobody has it");
    /// assert!(prices.try_read()?.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_write(&self) -> Result<Option<Guard>, LockError> {
        Ok(wait(self.0.try_write())?.map(Guard))
    }
}
