//! A lock that is held alone and can be shared from now on.

use std::ops::Deref;

use super::guard::Guard;
use crate::error::{DowngradeError, ReleaseError};

/// The guard of a [writer](crate::RwLock::write): a [`Guard`] that can become a reader's.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// let prices = client.rwlock("prices");
/// let writer = prices.write().await?;
/// writer.check()?; // all that a guard can do
/// let reader = writer.downgrade().await?;
/// assert!(prices.try_read().await?.is_some(), "others read as well");
/// assert!(prices.try_write().await?.is_none(), "nobody has written in between, nor does now");
/// reader.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct WriteGuard(Guard);

impl WriteGuard {
    pub(super) const fn new(guard: Guard) -> Self {
        Self(guard)
    }

    /// The guard of any lock, for code that does not care which: it can be left to another process,
    /// or to expire.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let writer = client.rwlock("prices").write().await?;
    /// let lease = writer.into_guard().detach().await?;
    /// assert_eq!(lease.name(), "prices");
    /// # Ok(()) }
    /// ```
    pub fn into_guard(self) -> Guard {
        self.0
    }

    /// As [`Guard::release`].
    ///
    /// # Cancel safety
    ///
    /// As there.
    ///
    /// # Errors
    ///
    /// As there.
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

    /// Goes on as a reader: others read as well from now on, and nobody writes in between. For work
    /// that changes something first and then only has to rely on it: other readers need not wait
    /// for the rest.
    ///
    /// Readers that wait, up to the first writer in the queue, come in at once. The reader is a new
    /// holder: it has no [`fence`](Guard::fence), another [`owner_id`](Guard::owner_id) and another
    /// end. What was taken from the writer, as by [`lost`](Guard::lost) or
    /// [`loss_token`](Guard::loss_token), says nothing about the reader. It is
    /// renewed if the writer was, and the [`max_hold`](crate::RwLock::max_hold) of the writer ends
    /// it as well.
    ///
    /// It costs one round trip to a majority of the nodes. If a majority cannot be reached, it
    /// waits for the nodes for as long as the lease of the writer lasts.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock.
    ///
    /// # Errors
    ///
    /// After every error the lock is given up: it is released on all nodes in the background.
    /// [`DowngradeError::Lost`] if the lease of the writer ended before: another may have written
    /// since. [`DowngradeError::NoQuorum`] if no majority has confirmed the reader in time: the
    /// writer held the lock until it was given up. [`DowngradeError::NotShared`] in classic mode.
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
    pub async fn downgrade(self) -> Result<Guard, DowngradeError> {
        self.0.downgrade().await
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
