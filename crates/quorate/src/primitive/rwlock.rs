//! A lock that readers share and a writer holds exclusively.

use std::{sync::Arc, time::Duration};

use super::{inner::Inner, mutex::Mutex, read_guard::ReadGuard, write_guard::WriteGuard};
use crate::{
    error::{LockError, WithError},
    observe::LockKind,
};

/// A lock that any number of readers share, or one writer holds exclusively, across processes and
/// machines.
///
/// Readers and writers wait in one queue. The readers at its head acquire the lock together, up to
/// the first writer. A reader that comes after a waiting writer waits behind it. So a writer waits
/// only for the current holders and for the waiters before it, however many readers come.
///
/// It is the same lock as the [`Client::mutex`](crate::Client::mutex) of this name: a writer holds
/// that mutex, and a reader excludes its holder. A reader cannot become a writer: two readers that
/// tried would wait for each other forever. Release the lock, acquire it as a writer, and read
/// again. For the same reason do not call `read` while you hold the lock as a reader: a writer that
/// is queued in between waits for you, and you wait behind it.
///
/// It promises what a [`Mutex`] promises. Until the [`remaining`](crate::Guard::remaining) time of
/// a writer has passed, no other client reads or writes. Until that of a reader has passed, no
/// client writes. Writers have a [`fence`](WriteGuard::fence). Readers have none: they change
/// nothing that a resource could reject.
///
/// Both guards are renewed for at most [`max_hold`](Self::max_hold), by default one hour.
///
/// [Classic mode](crate::ClientBuilder::classic) has no readers: there `read` is an error.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// let prices = client.rwlock("prices");
/// let one = prices.read().await?;
/// let two = prices.read().await?; // together
/// assert!(prices.try_write().await?.is_none());
/// one.release().await?;
/// two.release().await?;
/// let writer = prices.write().await?; // alone
/// assert!(writer.fence().is_some());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct RwLock {
    mutex: Mutex,
}

impl RwLock {
    pub(crate) fn new(client: Arc<Inner>, name: &str) -> Self {
        Self { mutex: Mutex::new(client, name).named(LockKind::Write) }
    }

    /// The name under which other clients see the holder of this lock, instead of the client's
    /// [`who`](crate::ClientBuilder::who). At most 96 characters. Characters that a log cannot show
    /// are replaced.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let lock = client.rwlock("orders:42").who("invoice 42 (nightly)");
    /// let _guard = lock.read().await?;
    /// let report = client.inspect("orders:42").await?;
    /// assert_eq!(report.holder.expect("the lock is held").who, "invoice 42 (nightly)");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn who(self, who: impl AsRef<str>) -> Self {
        Self { mutex: self.mutex.who(who) }
    }

    /// How long the lock is held after its holder has crashed. See [`Mutex::ttl`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// let guard = client.rwlock("prices").ttl(Duration::from_secs(2)).read().await?;
    /// assert!(guard.remaining() < Duration::from_secs(2)); // until the next renewal
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { mutex: self.mutex.ttl(ttl) }
    }

    /// Acquires fixed leases, which are not renewed. See [`Mutex::no_renew`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// let brief = client.rwlock("prices").ttl(Duration::from_millis(20)).no_renew();
    /// let guard = brief.read().await?;
    /// guard.lost().await; // the ttl has passed, and the lease was not renewed
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn no_renew(self) -> Self {
        Self { mutex: self.mutex.no_renew() }
    }

    /// The longest time for which the lock is held and renewed. See [`Mutex::max_hold`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use {quorate::error::LostReason, std::time::Duration};
    /// let guard = client.rwlock("prices").max_hold(Duration::from_millis(20)).write().await?;
    /// assert_eq!(guard.lost().await.reason, LostReason::MaxHold);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn max_hold(self, max_hold: Duration) -> Self {
        Self { mutex: self.mutex.max_hold(max_hold) }
    }

    /// Acquires the lock as a reader, waiting while a writer holds it or is queued.
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock`].
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`], and [`LockError::NotShared`] in classic mode.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.rwlock("prices").read().await?;
    /// // No client changes the prices now.
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn read(&self) -> Result<ReadGuard, LockError> {
        self.reader().lock().await.map(ReadGuard::new)
    }

    /// Acquires the lock as a reader, waiting up to `wait`.
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock_timeout`].
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock_timeout`], and [`LockError::NotShared`] in classic mode.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// let prices = client.rwlock("prices");
    /// let _writer = prices.write().await?;
    /// let error = prices.read_timeout(Duration::from_millis(20)).await.unwrap_err();
    /// println!("{error}"); // names the holder
    /// # Ok(()) }
    /// ```
    pub async fn read_timeout(&self, wait: Duration) -> Result<ReadGuard, LockError> {
        self.reader().lock_timeout(wait).await.map(ReadGuard::new)
    }

    /// Acquires the lock as a reader; `None` if a writer holds it or is queued.
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::try_lock`].
    ///
    /// # Errors
    ///
    /// As [`Mutex::try_lock`], and [`LockError::NotShared`] in classic mode.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let prices = client.rwlock("prices");
    /// let _one = prices.read().await?;
    /// assert!(prices.try_read().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn try_read(&self) -> Result<Option<ReadGuard>, LockError> {
        Ok(self.reader().try_lock().await?.map(ReadGuard::new))
    }

    /// Acquires the lock as a writer, waiting while other owners hold it.
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock`].
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.rwlock("prices").write().await?;
    /// let fence = guard.fence(); // send it with every write
    /// # assert!(fence.is_some());
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn write(&self) -> Result<WriteGuard, LockError> {
        self.mutex.lock().await.map(WriteGuard::new)
    }

    /// Acquires the lock as a writer, waiting up to `wait`.
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock_timeout`].
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock_timeout`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// let prices = client.rwlock("prices");
    /// let _reader = prices.read().await?;
    /// assert!(prices.write_timeout(Duration::from_millis(20)).await.is_err());
    /// assert!(prices.try_read().await?.is_some(), "a writer that gave up blocks no reader");
    /// # Ok(()) }
    /// ```
    pub async fn write_timeout(&self, wait: Duration) -> Result<WriteGuard, LockError> {
        self.mutex.lock_timeout(wait).await.map(WriteGuard::new)
    }

    /// Acquires the lock as a writer; `None` if another owner holds it.
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::try_lock`].
    ///
    /// # Errors
    ///
    /// As [`Mutex::try_lock`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let prices = client.rwlock("prices");
    /// let _writer = prices.try_write().await?.expect("it is free");
    /// assert!(prices.try_read().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn try_write(&self) -> Result<Option<WriteGuard>, LockError> {
        Ok(self.mutex.try_lock().await?.map(WriteGuard::new))
    }

    /// Acquires the lock as a reader, runs `work`, and releases the lock. If the lock is lost,
    /// `work` is dropped at its next await.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the lock in the background.
    ///
    /// # Errors
    ///
    /// [`WithError::Lock`] if the lock was not acquired: `work` did not run. [`WithError::Lost`] if
    /// the lock was lost before `work` was done.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let total = client.rwlock("prices").with_read(async |_reader| 40 + 2).await?;
    /// assert_eq!(total, 42);
    /// # Ok(()) }
    /// ```
    pub async fn with_read<T>(
        &self,
        work: impl AsyncFnOnce(&ReadGuard) -> T,
    ) -> Result<T, WithError> {
        let guard = self.read().await?;
        let value = guard.run(work(&guard)).await?;
        // The work is done even if the release is not confirmed: it continues in the background.
        let _ = guard.release().await;
        Ok(value)
    }

    /// Acquires the lock as a writer, runs `work`, and releases the lock. If the lock is lost,
    /// `work` is dropped at its next await.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the lock in the background.
    ///
    /// # Errors
    ///
    /// As [`with_read`](Self::with_read).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let prices = client.rwlock("prices");
    /// let fence = prices.with_write(async |writer| writer.fence()).await?;
    /// assert!(fence.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn with_write<T>(
        &self,
        work: impl AsyncFnOnce(&WriteGuard) -> T,
    ) -> Result<T, WithError> {
        let guard = self.write().await?;
        let value = guard.run(work(&guard)).await?;
        // The work is done even if the release is not confirmed: it continues in the background.
        let _ = guard.release().await;
        Ok(value)
    }

    fn reader(&self) -> Mutex {
        self.mutex.clone().shared()
    }
}
