//! A lock that is held together with other readers.

use std::{fmt, time::Duration};

use super::{guard::Guard, signal::LossToken};
use crate::{
    DetachedLease, OwnerId,
    error::{ExtendError, LeaseError, Lost, ReleaseError, VerifyError},
};

/// The guard of a [reader](crate::RwLock::read), which shares the lock with other readers.
///
/// It works as a [`Guard`] does, but has no fence: readers that hold a lock together have no order,
/// and change nothing that a resource could reject.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// let prices = client.rwlock("prices");
/// let reader = prices.read().await?;
/// reader.check()?; // before each step that relies on the prices
/// drop(reader); // releases the lock, even after a panic
/// assert!(prices.try_write().await?.is_some());
/// # Ok(()) }
/// ```
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct ReadGuard(Guard);

impl ReadGuard {
    pub(super) const fn new(guard: Guard) -> Self {
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
    /// let guard = client.rwlock("prices").read().await?.into_guard();
    /// assert_eq!(guard.fence(), None);
    /// # Ok(()) }
    /// ```
    pub fn into_guard(self) -> Guard {
        self.0
    }

    /// The name of the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// assert_eq!(client.rwlock("prices").read().await?.name(), "prices");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// The id of this hold. See [`Guard::owner_id`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let prices = client.rwlock("prices");
    /// let (one, other) = (prices.read().await?, prices.read().await?);
    /// assert_ne!(one.owner_id(), other.owner_id());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn owner_id(&self) -> OwnerId {
        self.0.owner_id()
    }

    /// How long the lease is valid if it is not renewed. See [`Guard::remaining`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// assert!(!client.rwlock("prices").read().await?.remaining().is_zero());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Checks that the reader still holds the lock, without asking the nodes. See [`Guard::check`].
    ///
    /// # Errors
    ///
    /// [`Lost`] if the lease has ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let reader = client.rwlock("prices").read().await?;
    /// reader.check()?;
    /// # Ok(()) }
    /// ```
    pub fn check(&self) -> Result<(), Lost> {
        self.0.check()
    }

    /// True if the last renewal was not confirmed, or a clock jumped. See [`Guard::is_at_risk`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// assert!(!client.rwlock("prices").read().await?.is_at_risk());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_at_risk(&self) -> bool {
        self.0.is_at_risk()
    }

    /// Completes when the lock is lost. See [`Guard::lost`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// let prices = client.rwlock("prices").max_hold(Duration::from_millis(20));
    /// let reader = prices.read().await?;
    /// eprintln!("{}", reader.lost().await);
    /// assert!(reader.check().is_err());
    /// # Ok(()) }
    /// ```
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + Sync + use<> {
        self.0.lost()
    }

    /// A flag that is raised when the lock is lost. See [`Guard::loss_token`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let reader = client.rwlock("prices").read().await?;
    /// assert!(!reader.loss_token().is_cancelled());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn loss_token(&self) -> LossToken {
        self.0.loss_token()
    }

    /// Runs `work`, or drops it at its next await when the lock is lost. See [`Guard::run`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`. The guard still holds the lock.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the lock was lost before `work` was done.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let reader = client.rwlock("prices").read().await?;
    /// assert_eq!(reader.run(async { 40 + 2 }).await?, 42);
    /// # Ok(()) }
    /// ```
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        self.0.run(work).await
    }

    /// Asks the nodes whether a majority still has this hold. See [`Guard::verify`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// As [`Guard::verify`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// client.rwlock("prices").read().await?.verify().await?;
    /// # Ok(()) }
    /// ```
    pub async fn verify(&self) -> Result<(), VerifyError> {
        self.0.verify().await
    }

    /// Extends the lease to `ttl` from now. See [`Guard::extend`].
    ///
    /// # Cancel safety
    ///
    /// As [`Guard::extend`].
    ///
    /// # Errors
    ///
    /// As [`Guard::extend`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// let reader = client.rwlock("prices").no_renew().read().await?;
    /// reader.extend(Duration::from_secs(20)).await?;
    /// assert!(reader.remaining() > Duration::from_secs(15));
    /// # Ok(()) }
    /// ```
    pub async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        self.0.extend(ttl).await
    }

    /// Releases the lock on all nodes and reports whether the reader still held it. See
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
    /// client.rwlock("prices").read().await?.release().await?;
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
    /// prices.read().await?.leave_to_expire();
    /// assert!(prices.try_write().await?.is_none(), "the lock is held until the ttl is over");
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
    /// let lease = client.rwlock("prices").read().await?.detach().await?;
    /// client.adopt(&lease).await?.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn detach(self) -> Result<DetachedLease, LeaseError> {
        self.0.detach().await
    }
}

impl From<ReadGuard> for Guard {
    fn from(reader: ReadGuard) -> Self {
        reader.into_guard()
    }
}

impl fmt::Debug for ReadGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadGuard").field(&self.0).finish()
    }
}

/// ```compile_fail,E0599
/// # async fn example(reader: quorate::ReadGuard) {
/// let fence = reader.fence();
/// # }
/// ```
#[cfg(doctest)]
struct ReadersHaveNoFence;
