//! A lock that a writer holds exclusively, and can share from now on.

use std::ops::Deref;

use super::{guard::Guard, read_guard::ReadGuard};
use crate::{
    DetachedLease,
    error::{DowngradeError, LeaseError, ReleaseError},
    fence::Fence,
};

/// The guard of a [writer](crate::RwLock::write): a [`Guard`] that can be downgraded to a
/// [`ReadGuard`].
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// let prices = client.rwlock("prices");
/// let writer = prices.write().await?;
/// writer.check()?; // all methods of a guard
/// let reader = writer.downgrade().await?;
/// assert!(prices.try_read().await?.is_some(), "other readers share it");
/// assert!(prices.try_write().await?.is_none(), "no writer holds it in between");
/// reader.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct WriteGuard(Guard);

impl WriteGuard {
    pub(crate) const fn new(guard: Guard) -> Self {
        Self(guard)
    }

    /// The same hold as a [`Guard`], for code that accepts the guard of any lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.rwlock("prices").write().await?.into_guard();
    /// assert_eq!(guard.name(), "prices");
    /// # Ok(()) }
    /// ```
    pub fn into_guard(self) -> Guard {
        self.0
    }

    /// The fence of this writer. `None` in classic mode. See [`Guard::fence`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let prices = client.rwlock("prices");
    /// let first = prices.write().await?.fence(); // and released
    /// assert!(prices.write().await?.fence() > first);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn fence(&self) -> Option<Fence> {
        self.0.fence()
    }

    /// Releases the lock on all nodes and reports whether the writer still held it. See
    /// [`Guard::release`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the release: it continues in the background.
    ///
    /// # Errors
    ///
    /// As [`Guard::release`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let writer = client.rwlock("prices").write().await?;
    /// writer.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.0.release().await
    }

    /// Gives up the guard and lets the lease expire. See [`Guard::leave_to_expire`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let prices = client.rwlock("prices");
    /// prices.write().await?.leave_to_expire();
    /// assert!(prices.try_read().await?.is_none(), "the lock is held until the ttl is over");
    /// # Ok(()) }
    /// ```
    pub fn leave_to_expire(self) {
        self.0.leave_to_expire();
    }

    /// Leaves the lock to another process. See [`Guard::detach`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock.
    ///
    /// # Errors
    ///
    /// As [`Guard::detach`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let lease = client.rwlock("prices").write().await?.detach().await?;
    /// client.adopt(&lease).await?.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn detach(self) -> Result<DetachedLease, LeaseError> {
        self.0.detach().await
    }

    /// Replaces the writer by a reader: other readers share the lock from now on, and no other
    /// writer holds it in between. Use it when the rest of the work only reads what the writer
    /// changed.
    ///
    /// Readers that wait before the first writer in the queue acquire the lock at once. The reader
    /// is a new holder: it has no fence, another [`owner_id`](ReadGuard::owner_id) and another
    /// deadline. What [`lost`](Guard::lost) or [`loss_token`](Guard::loss_token) returned for the
    /// writer does not report the loss of the reader. The watchdog renews the reader if it renewed
    /// the writer. The [`max_hold`](crate::RwLock::max_hold) of the writer limits the reader too.
    ///
    /// It costs one round trip to a majority of the nodes. If no majority can be reached, the call
    /// waits for the nodes until the lease of the writer ends.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock.
    ///
    /// # Errors
    ///
    /// After every error the lock is released on all nodes in the background.
    /// [`DowngradeError::Lost`] if the lease of the writer had ended: another writer may have held
    /// the lock since. [`DowngradeError::NoQuorum`] if no majority confirmed the reader in time:
    /// the writer held the lock until then. [`DowngradeError::NotShared`] in classic mode.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # let (import, report) = (async || {}, async || {});
    /// let writer = client.rwlock("prices").write().await?;
    /// import().await; // alone
    /// let reader = writer.downgrade().await?;
    /// report().await; // about what was imported, while others read it
    /// reader.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn downgrade(self) -> Result<ReadGuard, DowngradeError> {
        self.0.downgrade().await.map(ReadGuard::new)
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
