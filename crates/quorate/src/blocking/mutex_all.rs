//! Several locks that are acquired together, without async.

use std::time::Duration;

use super::{
    Client, Guard,
    delegate::{delegate_hold, delegate_settings},
    wait, with,
};
use crate::{
    error::{LockError, WithError},
    fence::Fence,
    primitive::guard_all::Guards,
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

delegate_settings!(MutexAll, "crate::MutexAll");

impl MutexAll {
    /// The most names of one set. See [`crate::MutexAll::MAX_NAMES`].
    pub const MAX_NAMES: usize = crate::MutexAll::MAX_NAMES;

    /// See [`crate::MutexAll::try_lock`].
    ///
    /// # Errors
    ///
    /// As [`crate::MutexAll::try_lock`].
    pub fn try_lock(&self) -> Result<Option<GuardAll>, LockError> {
        Ok(wait(self.0.try_lock())?.map(GuardAll::new))
    }

    /// See [`crate::MutexAll::lock`].
    ///
    /// # Errors
    ///
    /// As [`crate::MutexAll::lock`].
    pub fn lock(&self) -> Result<GuardAll, LockError> {
        wait(self.0.lock()).map(GuardAll::new)
    }

    /// See [`crate::MutexAll::lock_timeout`].
    ///
    /// # Errors
    ///
    /// As [`crate::MutexAll::lock_timeout`].
    pub fn lock_timeout(&self, limit: Duration) -> Result<GuardAll, LockError> {
        wait(self.0.lock_timeout(limit)).map(GuardAll::new)
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
        with(self.lock()?, work, GuardAll::check, GuardAll::release)
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
pub struct GuardAll(pub(super) Guards<Guard>);

impl GuardAll {
    pub(super) fn new(guard: crate::GuardAll) -> Self {
        Self(Guards(guard.into_guards().into_iter().map(Guard).collect()))
    }

    /// See [`crate::GuardAll::guards`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = quorate::blocking::Client::memory();
    /// let guard = client.mutex_all(["b", "a"]).lock()?;
    /// let names: Vec<&str> = guard.guards().iter().map(|it| it.name()).collect();
    /// assert_eq!(names, ["a", "b"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn guards(&self) -> &[Guard] {
        &self.0.0
    }

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
        self.0.0
    }

    /// See [`crate::GuardAll::fence`].
    #[must_use]
    pub fn fence(&self, name: &str) -> Option<Fence> {
        self.0.fence(name)
    }
}

delegate_hold!(GuardAll, "crate::GuardAll", |it| it.0);
