//! Guards of a blocking client.

use std::{ops::Deref, time::Duration};

use super::wait;
use crate::{
    DetachedLease, LossToken, OwnerId,
    error::{DowngradeError, ExtendError, LeaseError, Lost, ReleaseError, VerifyError},
    fence::Fence,
};

/// A held lock. Dropping it releases the lock in the background. See [`crate::Guard`].
///
/// # Examples
///
/// ```
/// # let client = quorate::blocking::Client::memory();
/// let guard = client.mutex("orders:42").lock()?;
/// guard.check()?; // before each step that must not overlap with another holder's
/// drop(guard); // releases the lock, even after a panic
/// assert!(client.mutex("orders:42").try_lock()?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard(pub(super) crate::Guard);

impl Guard {
    /// See [`crate::Guard::name`].
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// See [`crate::Guard::fence`].
    #[must_use]
    pub fn fence(&self) -> Option<Fence> {
        self.0.fence()
    }

    /// See [`crate::Guard::owner_id`].
    #[must_use]
    pub fn owner_id(&self) -> OwnerId {
        self.0.owner_id()
    }

    /// See [`crate::Guard::remaining`].
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// See [`crate::Guard::check`].
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::check`].
    pub fn check(&self) -> Result<(), Lost> {
        self.0.check()
    }

    /// See [`crate::Guard::is_at_risk`].
    #[must_use]
    pub fn is_at_risk(&self) -> bool {
        self.0.is_at_risk()
    }

    /// See [`crate::Guard::loss_token`].
    #[must_use]
    pub fn loss_token(&self) -> LossToken {
        self.0.loss_token()
    }

    /// Blocks until the lock is lost. See [`crate::Guard::lost`].
    #[must_use]
    pub fn wait_until_lost(&self) -> Lost {
        wait(self.0.lost())
    }

    /// See [`crate::Guard::verify`].
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::verify`].
    pub fn verify(&self) -> Result<(), VerifyError> {
        wait(self.0.verify())
    }

    /// See [`crate::Guard::extend`].
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::extend`].
    pub fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        wait(self.0.extend(ttl))
    }

    /// See [`crate::Guard::release`].
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::release`].
    pub fn release(self) -> Result<(), ReleaseError> {
        wait(self.0.release())
    }

    /// See [`crate::Guard::leave_to_expire`].
    pub fn leave_to_expire(self) {
        self.0.leave_to_expire();
    }

    /// See [`crate::Guard::detach`].
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::detach`].
    pub fn detach(self) -> Result<DetachedLease, LeaseError> {
        wait(self.0.detach())
    }
}

/// The guard of a reader, which shares the lock with other readers. See [`crate::ReadGuard`].
///
/// # Examples
///
/// ```
/// # let client = quorate::blocking::Client::memory();
/// let prices = client.rwlock("prices");
/// let reader = prices.read()?;
/// reader.check()?;
/// drop(reader);
/// assert!(prices.try_write()?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct ReadGuard(pub(super) crate::ReadGuard);

impl ReadGuard {
    /// See [`crate::ReadGuard::into_guard`].
    pub fn into_guard(self) -> Guard {
        Guard(self.0.into_guard())
    }

    /// See [`crate::ReadGuard::name`].
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// See [`crate::ReadGuard::owner_id`].
    #[must_use]
    pub fn owner_id(&self) -> OwnerId {
        self.0.owner_id()
    }

    /// See [`crate::ReadGuard::remaining`].
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// See [`crate::ReadGuard::check`].
    ///
    /// # Errors
    ///
    /// As [`crate::ReadGuard::check`].
    pub fn check(&self) -> Result<(), Lost> {
        self.0.check()
    }

    /// See [`crate::ReadGuard::is_at_risk`].
    #[must_use]
    pub fn is_at_risk(&self) -> bool {
        self.0.is_at_risk()
    }

    /// See [`crate::ReadGuard::loss_token`].
    #[must_use]
    pub fn loss_token(&self) -> LossToken {
        self.0.loss_token()
    }

    /// Blocks until the lock is lost. See [`crate::ReadGuard::lost`].
    #[must_use]
    pub fn wait_until_lost(&self) -> Lost {
        wait(self.0.lost())
    }

    /// See [`crate::ReadGuard::verify`].
    ///
    /// # Errors
    ///
    /// As [`crate::ReadGuard::verify`].
    pub fn verify(&self) -> Result<(), VerifyError> {
        wait(self.0.verify())
    }

    /// See [`crate::ReadGuard::extend`].
    ///
    /// # Errors
    ///
    /// As [`crate::ReadGuard::extend`].
    pub fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        wait(self.0.extend(ttl))
    }

    /// See [`crate::ReadGuard::release`].
    ///
    /// # Errors
    ///
    /// As [`crate::ReadGuard::release`].
    pub fn release(self) -> Result<(), ReleaseError> {
        wait(self.0.release())
    }

    /// See [`crate::ReadGuard::leave_to_expire`].
    pub fn leave_to_expire(self) {
        self.0.leave_to_expire();
    }

    /// See [`crate::ReadGuard::detach`].
    ///
    /// # Errors
    ///
    /// As [`crate::ReadGuard::detach`].
    pub fn detach(self) -> Result<DetachedLease, LeaseError> {
        wait(self.0.detach())
    }
}

impl From<ReadGuard> for Guard {
    fn from(reader: ReadGuard) -> Self {
        reader.into_guard()
    }
}

/// The guard of a writer, which can be downgraded to a [`ReadGuard`]. See [`crate::WriteGuard`].
///
/// # Examples
///
/// ```
/// # let client = quorate::blocking::Client::memory();
/// let prices = client.rwlock("prices");
/// let reader = prices.write()?.downgrade()?;
/// assert!(prices.try_read()?.is_some(), "other readers share it");
/// reader.release()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct WriteGuard(Guard);

impl WriteGuard {
    pub(super) fn new(writer: crate::WriteGuard) -> Self {
        Self(Guard(writer.into_guard()))
    }

    /// See [`crate::WriteGuard::into_guard`].
    pub fn into_guard(self) -> Guard {
        self.0
    }

    /// See [`crate::WriteGuard::fence`].
    #[must_use]
    pub fn fence(&self) -> Option<Fence> {
        self.0.fence()
    }

    /// See [`crate::WriteGuard::downgrade`].
    ///
    /// # Errors
    ///
    /// As [`crate::WriteGuard::downgrade`].
    pub fn downgrade(self) -> Result<ReadGuard, DowngradeError> {
        wait(crate::WriteGuard::new(self.0.0).downgrade()).map(ReadGuard)
    }

    /// See [`crate::WriteGuard::release`].
    ///
    /// # Errors
    ///
    /// As [`crate::WriteGuard::release`].
    pub fn release(self) -> Result<(), ReleaseError> {
        self.0.release()
    }

    /// See [`crate::WriteGuard::leave_to_expire`].
    pub fn leave_to_expire(self) {
        self.0.leave_to_expire();
    }

    /// See [`crate::WriteGuard::detach`].
    ///
    /// # Errors
    ///
    /// As [`crate::WriteGuard::detach`].
    pub fn detach(self) -> Result<DetachedLease, LeaseError> {
        self.0.detach()
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

/// A permit of a semaphore, held: a [`Guard`] with a number. See [`crate::Permit`].
///
/// # Examples
///
/// ```
/// # let client = quorate::blocking::Client::memory();
/// let permit = client.semaphore("gpus", 4).acquire()?;
/// println!("use GPU {}", permit.number() - 1);
/// permit.release()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the permit is released as soon as the guard is dropped"]
pub struct Permit {
    guard: Guard,
    number: u32,
}

impl Permit {
    pub(super) fn new(permit: crate::Permit) -> Self {
        let number = permit.number();
        Self::of(Guard(permit.into_guard()), number)
    }

    pub(super) const fn of(guard: Guard, number: u32) -> Self {
        Self { guard, number }
    }

    /// See [`crate::Permit::number`].
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// See [`crate::Permit::into_guard`].
    pub fn into_guard(self) -> Guard {
        self.guard
    }

    /// See [`crate::Permit::release`].
    ///
    /// # Errors
    ///
    /// As [`crate::Permit::release`].
    pub fn release(self) -> Result<(), ReleaseError> {
        self.guard.release()
    }

    /// See [`crate::Permit::leave_to_expire`].
    pub fn leave_to_expire(self) {
        self.guard.leave_to_expire();
    }

    /// See [`crate::Permit::detach`].
    ///
    /// # Errors
    ///
    /// As [`crate::Permit::detach`].
    pub fn detach(self) -> Result<DetachedLease, LeaseError> {
        self.guard.detach()
    }
}

impl Deref for Permit {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl From<Permit> for Guard {
    fn from(permit: Permit) -> Self {
        permit.into_guard()
    }
}
