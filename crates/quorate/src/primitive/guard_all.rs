//! Several held locks that are lost together.

use std::time::Duration;

use super::{
    guard::Guard,
    join::{first, join},
    signal::LossToken,
};
use crate::{
    error::{ExtendError, Lost, ReleaseError, VerifyError},
    fence::Fence,
};

/// All locks of a [`MutexAll`](crate::MutexAll), held; or
/// [several permits](crate::Semaphore::acquire_many) of a semaphore, each of which is a lock.
///
/// The watchdog renews all of them, for at most [`max_hold`](crate::ClientBuilder::max_hold). If
/// one is lost, [`lost`](Self::lost) completes and [`check`](Self::check) fails; the others stay
/// held until the guard is dropped, which releases them in the background.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// let guard = client.mutex_all(["account:7", "account:9"]).lock().await?;
/// for one in guard.guards() {
///     println!("{} with fence {:?}", one.name(), one.fence());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "the locks are released as soon as the guard is dropped"]
pub struct GuardAll(Guards<Guard>);

impl GuardAll {
    pub(super) const fn new(guards: Vec<Guard>) -> Self {
        Self(Guards(guards))
    }

    /// The guard of each lock, in the order of their names; permits in the order of their numbers.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.mutex_all(["b", "a", "b"]).lock().await?;
    /// let names: Vec<&str> = guard.guards().iter().map(quorate::Guard::name).collect();
    /// assert_eq!(names, ["a", "b"], "a name that is listed twice counts once");
    /// # Ok(()) }
    /// ```
    pub fn guards(&self) -> &[Guard] {
        &self.0.0
    }

    /// The locks as separate guards, each of which is released and lost by itself from now on.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let mut guards = client.mutex_all(["a", "b"]).lock().await?.into_guards();
    /// guards.remove(0).release().await?; // `a` is free, `b` is still held
    /// assert!(client.mutex("a").try_lock().await?.is_some());
    /// assert!(client.mutex("b").try_lock().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn into_guards(self) -> Vec<Guard> {
        self.0.0
    }

    /// The fence of one of the locks; `None` if it is not in the set, and in classic mode. See
    /// [`Guard::fence`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let first = client.mutex("a").lock().await?.fence(); // and released
    /// let guard = client.mutex_all(["a", "b"]).lock().await?;
    /// assert!(guard.fence("a") > first);
    /// assert_eq!(guard.fence("c"), None);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn fence(&self, name: &str) -> Option<Fence> {
        self.0.fence(name)
    }

    /// How long the lease that ends first is valid if it is not renewed. Zero if one has ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.mutex_all(["a", "b"]).lock().await?;
    /// assert!(!guard.remaining().is_zero());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Checks that every lock is still held, without asking the nodes.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the lease of one of the locks has ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.mutex_all(["a", "b"]).lock().await?;
    /// guard.check()?; // before each step that must not overlap with another holder's
    /// # Ok(()) }
    /// ```
    pub fn check(&self) -> Result<(), Lost> {
        self.0.check()
    }

    /// True if the last renewal of a lock was not confirmed, or a clock jumped. See
    /// [`Guard::is_at_risk`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// assert!(!client.mutex_all(["a", "b"]).lock().await?.is_at_risk());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_at_risk(&self) -> bool {
        self.0.is_at_risk()
    }

    /// Completes when one of the locks is lost. See [`Guard::lost`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// let pair = client.mutex_all(["a", "b"]).max_hold(Duration::from_millis(20)).lock().await?;
    /// eprintln!("{}", pair.lost().await);
    /// assert!(pair.check().is_err());
    /// # Ok(()) }
    /// ```
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + Sync + use<> {
        self.0.lost()
    }

    /// A flag that is raised when one of the locks is lost. See [`Guard::loss_token`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.mutex_all(["a", "b"]).lock().await?;
    /// assert!(!guard.loss_token().is_lost());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn loss_token(&self) -> LossToken {
        self.0.loss_token()
    }

    /// Runs `work` until it is done, or drops it at its next await when one of the locks is lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`. The guard still holds the locks.
    ///
    /// # Errors
    ///
    /// [`Lost`] if one of the locks was lost before `work` was done.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.mutex_all(["a", "b"]).lock().await?;
    /// assert_eq!(guard.run(async { 40 + 2 }).await?, 42);
    /// # Ok(()) }
    /// ```
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        super::guard::run(work, self.lost(), || self.check()).await
    }

    /// Asks the nodes whether a majority still stores each of these holds.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Lost`] if a lease has ended or a majority no longer stores its lock.
    /// [`VerifyError::NoQuorum`] if too few nodes answered.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// client.mutex_all(["a", "b"]).lock().await?.verify().await?;
    /// # Ok(()) }
    /// ```
    pub async fn verify(&self) -> Result<(), VerifyError> {
        self.0.verify().await
    }

    /// Extends all leases to `ttl` from now. See [`Guard::extend`].
    ///
    /// # Cancel safety
    ///
    /// As [`Guard::extend`], for each of the locks.
    ///
    /// # Errors
    ///
    /// [`ExtendError::Lost`] if a lease has ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// let guard = client.mutex_all(["a", "b"]).no_renew().lock().await?;
    /// guard.extend(Duration::from_secs(20)).await?;
    /// assert!(guard.remaining() > Duration::from_secs(15));
    /// # Ok(()) }
    /// ```
    pub async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        self.0.extend(ttl).await
    }

    /// Releases all locks on all nodes and reports whether they were still held.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the release: it continues in the background.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] if one of the leases had ended before. [`ReleaseError::NoQuorum`] if
    /// too few nodes answered; the release continues in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// client.mutex_all(["a", "b"]).lock().await?.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.0.release().await
    }
}

/// A guard of one lock, async or blocking.
pub(crate) trait AnyGuard {
    fn as_guard(&self) -> &Guard;
    fn into_guard(self) -> Guard;
}

impl AnyGuard for Guard {
    fn as_guard(&self) -> &Guard {
        self
    }

    fn into_guard(self) -> Guard {
        self
    }
}

/// The guards of a set, async or blocking.
#[derive(Debug)]
pub(crate) struct Guards<G>(pub(crate) Vec<G>);

impl<G: AnyGuard> Guards<G> {
    fn iter(&self) -> impl Iterator<Item = &Guard> {
        self.0.iter().map(AnyGuard::as_guard)
    }

    pub(crate) fn fence(&self, name: &str) -> Option<Fence> {
        self.iter().find(|guard| guard.name() == name)?.fence()
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    pub(crate) fn check(&self) -> Result<(), Lost> {
        self.iter().try_for_each(Guard::check)
    }

    pub(crate) fn is_at_risk(&self) -> bool {
        self.iter().any(Guard::is_at_risk)
    }

    pub(crate) fn lost(&self) -> impl Future<Output = Lost> + Send + Sync + use<G> {
        first(self.iter().map(Guard::loss).collect::<Vec<_>>())
    }

    pub(crate) fn loss_token(&self) -> LossToken {
        LossToken::of(self.iter())
    }

    pub(crate) async fn verify(&self) -> Result<(), VerifyError> {
        join(self.iter().map(Guard::verify)).await.into_iter().collect()
    }

    pub(crate) async fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        join(self.iter().map(|guard| guard.extend(ttl))).await.into_iter().collect()
    }

    pub(crate) async fn release(self) -> Result<(), ReleaseError> {
        let guards = self.0.into_iter().map(AnyGuard::into_guard);
        join(guards.map(Guard::release)).await.into_iter().collect()
    }
}
