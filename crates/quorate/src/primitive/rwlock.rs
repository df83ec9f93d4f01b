//! A lock that many hold together, or one alone.

use std::{sync::Arc, time::Duration};

use super::{inner::Inner, mutex::Mutex, read_guard::ReadGuard, write_guard::WriteGuard};
use crate::{
    error::{LockError, WithError},
    observe::LockKind,
};

/// A lock that any number of readers hold together, or one writer alone, across processes and
/// machines.
///
/// Readers and writers stand in one line. Those who read come in together, up to the first in line
/// who writes; and those who come after a writer that waits, wait behind it. So writers wait for no
/// longer than those who read already, and for those before them in line, however many readers
/// come.
///
/// It is the lock that [`Client::mutex`](crate::Client::mutex) has under the same name: to write is
/// to hold that alone, and a reader is in the way of it. A reader cannot become a writer: two who
/// try would wait for each other for ever. Release first, and look again at what was read. For the
/// same reason do not `read` again while you read: a writer that waits in between waits for you,
/// and you wait behind it.
///
/// What is promised of a [`Mutex`] is promised here: until the [`remaining`](Guard::remaining) time
/// of a writer's guard is over nobody else reads or writes, and until that of a reader's is over
/// nobody writes. Writers have a [`fence`](Guard::fence). Readers have none: they change nothing
/// that a resource could turn away.
///
/// [Classic mode](crate::ClientBuilder::classic) knows no readers: there `read` is an error.
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

    /// How the holder is shown to others who look at the lock or fail to get it, instead of the
    /// client's [`who`](crate::ClientBuilder::who). At most 96 characters; those that would garble
    /// a log are replaced.
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
    /// assert_eq!(report.holder.expect("it is held").who, "invoice 42 (nightly)");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn who(self, who: impl AsRef<str>) -> Self {
        Self { mutex: self.mutex.who(who) }
    }

    /// As [`Mutex::ttl`].
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

    /// As [`Mutex::no_renew`].
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
    /// guard.lost().await; // its ttl is over, and nobody has renewed it
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn no_renew(self) -> Self {
        Self { mutex: self.mutex.no_renew() }
    }

    /// As [`Mutex::max_hold`].
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

    /// Holds the lock together with other readers, waiting for as long as somebody writes, or waits
    /// to.
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
    /// // Nobody changes the prices now.
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn read(&self) -> Result<ReadGuard, LockError> {
        self.reader().lock().await.map(ReadGuard::new)
    }

    /// The same, waiting up to `wait`.
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
    /// println!("{error}"); // says who has it
    /// # Ok(()) }
    /// ```
    pub async fn read_timeout(&self, wait: Duration) -> Result<ReadGuard, LockError> {
        self.reader().lock_timeout(wait).await.map(ReadGuard::new)
    }

    /// Holds the lock together with other readers, if nobody writes or waits to; `None` if somebody
    /// does.
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

    /// Holds the lock alone, waiting for as long as anybody else has it.
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
    /// let fence = guard.fence(); // send it along with every write
    /// # assert!(fence.is_some());
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn write(&self) -> Result<WriteGuard, LockError> {
        self.mutex.lock().await.map(WriteGuard::new)
    }

    /// The same, waiting up to `wait`.
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
    /// assert!(prices.try_read().await?.is_some(), "who gave up is in nobody's way");
    /// # Ok(()) }
    /// ```
    pub async fn write_timeout(&self, wait: Duration) -> Result<WriteGuard, LockError> {
        self.mutex.lock_timeout(wait).await.map(WriteGuard::new)
    }

    /// Holds the lock alone, if nobody has it; `None` if somebody does.
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
    /// let _writer = prices.try_write().await?.expect("nobody has it");
    /// assert!(prices.try_read().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn try_write(&self) -> Result<Option<WriteGuard>, LockError> {
        Ok(self.mutex.try_lock().await?.map(WriteGuard::new))
    }

    /// Takes the lock as a reader, runs `work`, and releases the lock. If the lock is lost, `work`
    /// is dropped at its next await.
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

    /// Takes the lock as a writer, runs `work`, and releases the lock. If the lock is lost, `work`
    /// is dropped at its next await.
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
