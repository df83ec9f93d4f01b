//! A lock that a writer holds exclusively, and can share from now on.

use super::{
    delegate::{delegate_fence, delegate_hold, delegate_lock},
    guard::Guard,
    read_guard::ReadGuard,
};
use crate::error::DowngradeError;

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

    /// Replaces the writer by a reader: other readers share the lock from now on, and no other
    /// writer holds it in between. Use it when the rest of the work only reads what the writer
    /// changed.
    ///
    /// **When not to use it.** If the rest of the work need not see exactly this state, release the
    /// lock instead: a reader keeps waiting writers out. If the work must write again later, keep
    /// the writer: a reader cannot become a writer.
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

delegate_hold!(WriteGuard(Guard): r#"client.rwlock("prices")"#, "write()");
delegate_lock!(WriteGuard(Guard): r#"client.rwlock("prices")"#, "write()");
delegate_fence!(WriteGuard(Guard): r#"client.rwlock("prices")"#, "write()");
