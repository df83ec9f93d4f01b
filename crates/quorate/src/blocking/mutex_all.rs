//! Several locks that are acquired together, without async.

use std::time::Duration;

use super::{Client, Guard, wait};
use crate::{
    LossToken,
    error::{ExtendError, LockError, Lost, ReleaseError, VerifyError, WithError},
    fence::Fence,
};

impl Client {
    /// See [`crate::Client::mutex_all`].
    #[must_use]
    pub fn mutex_all(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> MutexAll {
        MutexAll(self.0.mutex_all(names))
    }
}

/// Several locks that are acquired together: all of them, or none. See [`crate::MutexAll`] for what
/// it promises.
///
/// # Examples
///
/// ```
/// # let client = quorate::blocking::Client::memory();
/// let accounts = client.mutex_all(["account:7", "account:9"]);
/// let guard = accounts.lock()?;
/// assert!(client.mutex("account:9").try_lock()?.is_none());
/// guard.check()?; // are both still ours?
/// guard.release()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MutexAll(crate::MutexAll);

impl MutexAll {
    /// The most names of one set. See [`crate::MutexAll::MAX_NAMES`].
    pub const MAX_NAMES: usize = crate::MutexAll::MAX_NAMES;

    /// See [`crate::MutexAll::ttl`].
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// See [`crate::MutexAll::who`].
    #[must_use]
    pub fn who(self, who: impl AsRef<str>) -> Self {
        Self(self.0.who(who))
    }

    /// See [`crate::MutexAll::no_renew`].
    #[must_use]
    pub fn no_renew(self) -> Self {
        Self(self.0.no_renew())
    }

    /// See [`crate::MutexAll::max_hold`].
    #[must_use]
    pub fn max_hold(self, max_hold: Duration) -> Self {
        Self(self.0.max_hold(max_hold))
    }

    /// See [`crate::MutexAll::try_lock`].
    ///
    /// # Errors
    ///
    /// As [`crate::MutexAll::try_lock`].
    pub fn try_lock(&self) -> Result<Option<GuardAll>, LockError> {
        Ok(wait(self.0.try_lock())?.map(GuardAll))
    }

    /// See [`crate::MutexAll::lock`].
    ///
    /// # Errors
    ///
    /// As [`crate::MutexAll::lock`].
    pub fn lock(&self) -> Result<GuardAll, LockError> {
        wait(self.0.lock()).map(GuardAll)
    }

    /// See [`crate::MutexAll::lock_timeout`].
    ///
    /// # Errors
    ///
    /// As [`crate::MutexAll::lock_timeout`].
    pub fn lock_timeout(&self, limit: Duration) -> Result<GuardAll, LockError> {
        wait(self.0.lock_timeout(limit)).map(GuardAll)
    }

    /// See [`crate::MutexAll::with`].
    ///
    /// Nothing interrupts `work`: call `check` in it now and then.
    ///
    /// # Errors
    ///
    /// As [`crate::MutexAll::with`]. [`WithError::Lost`] if the lock is lost when `work`
    /// returns.
    pub fn with<T>(&self, work: impl FnOnce(&GuardAll) -> T) -> Result<T, WithError> {
        let guard = self.lock()?;
        let value = work(&guard);
        guard.check()?;
        // The work is done even if the release is not confirmed: it continues in the background.
        let _ = guard.release();
        Ok(value)
    }
}

/// All locks of a [`MutexAll`], or several permits of a [`Semaphore`](super::Semaphore), held.
/// Dropping it releases them in the background. See [`crate::GuardAll`].
///
/// # Examples
///
/// ```
/// # let client = quorate::blocking::Client::memory();
/// let guard = client.mutex_all(["account:7", "account:9"]).lock()?;
/// guard.check()?; // right before each step that must not overlap with another's
/// drop(guard); // on every way out of the scope, a panic included
/// assert!(client.mutex("account:7").try_lock()?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the locks are released as soon as the guard is dropped"]
pub struct GuardAll(pub(super) crate::GuardAll);

impl GuardAll {
    /// See [`crate::GuardAll::into_guards`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = quorate::blocking::Client::memory();
    /// let mut guards = client.mutex_all(["a", "b"]).lock()?.into_guards();
    /// guards.remove(0).release()?; // `a` is free, `b` is still held
    /// assert_eq!(guards[0].name(), "b");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_guards(self) -> Vec<Guard> {
        self.0.into_guards().into_iter().map(Guard).collect()
    }

    /// See [`crate::GuardAll::fence`].
    #[must_use]
    pub fn fence(&self, name: &str) -> Option<Fence> {
        self.0.fence(name)
    }

    /// See [`crate::GuardAll::remaining`].
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// See [`crate::GuardAll::check`].
    ///
    /// # Errors
    ///
    /// [`Lost`] if the lease of one of the locks has ended.
    pub fn check(&self) -> Result<(), Lost> {
        self.0.check()
    }

    /// See [`crate::GuardAll::is_at_risk`].
    #[must_use]
    pub fn is_at_risk(&self) -> bool {
        self.0.is_at_risk()
    }

    /// See [`crate::GuardAll::loss_token`].
    #[must_use]
    pub fn loss_token(&self) -> LossToken {
        self.0.loss_token()
    }

    /// Blocks until one of the locks is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = quorate::blocking::Client::memory();
    /// # use std::time::Duration;
    /// let pair = client.mutex_all(["a", "b"]).max_hold(Duration::from_millis(20)).lock()?;
    /// eprintln!("{}", pair.wait_until_lost());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn wait_until_lost(&self) -> Lost {
        wait(self.0.lost())
    }

    /// See [`crate::GuardAll::verify`].
    ///
    /// # Errors
    ///
    /// As [`crate::GuardAll::verify`].
    pub fn verify(&self) -> Result<(), VerifyError> {
        wait(self.0.verify())
    }

    /// See [`crate::GuardAll::extend`].
    ///
    /// # Errors
    ///
    /// As [`crate::GuardAll::extend`].
    pub fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        wait(self.0.extend(ttl))
    }

    /// See [`crate::GuardAll::release`].
    ///
    /// # Errors
    ///
    /// As [`crate::GuardAll::release`].
    pub fn release(self) -> Result<(), ReleaseError> {
        wait(self.0.release())
    }
}
