//! One or several permits of a semaphore, held.

use std::ops::Deref;

use super::{guard::Guard, guard_all::GuardAll};
use crate::{
    DetachedLease,
    error::{LeaseError, ReleaseError},
};

/// A permit of a [`Semaphore`](crate::Semaphore), held: a [`Guard`] with a number.
///
/// Dropping it releases the permit in the background.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// let gpus = client.semaphore("gpus", 4);
/// let permit = gpus.acquire().await?;
/// permit.check()?; // all methods of a guard
/// println!("use GPU {}", permit.number() - 1);
/// permit.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "the permit is released as soon as the guard is dropped"]
pub struct Permit(Guard);

impl Permit {
    pub(super) const fn new(guard: Guard) -> Self {
        Self(guard)
    }

    /// The number of the permit, from 1 to the number of permits. No other holder has the same one
    /// at the same time, so it can choose one of several devices or ports.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let ports = client.semaphore("ports", 2);
    /// let (one, other) = (ports.acquire().await?, ports.acquire().await?);
    /// assert_eq!(one.number() + other.number(), 1 + 2);
    /// assert_eq!(one.name(), format!("ports#{}", one.number()));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn number(&self) -> u32 {
        number(&self.0)
    }

    /// The same hold as a [`Guard`], for code that accepts the guard of any lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let mut guards = vec![client.mutex("orders:42").lock().await?];
    /// guards.push(client.semaphore("uploads", 1).acquire().await?.into_guard());
    /// assert_eq!(guards[1].name(), "uploads#1");
    /// # Ok(()) }
    /// ```
    pub fn into_guard(self) -> Guard {
        self.0
    }

    /// Releases the permit on all nodes and reports whether it was still held. See
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
    /// client.semaphore("uploads", 2).acquire().await?.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.0.release().await
    }

    /// Gives up the guard and lets the permit expire. See [`Guard::leave_to_expire`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// let calls = client.semaphore("calls", 1).ttl(Duration::from_secs(60));
    /// calls.acquire().await?.leave_to_expire(); // one call a minute
    /// assert!(calls.try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn leave_to_expire(self) {
        self.0.leave_to_expire();
    }

    /// Leaves the permit to another process. See [`Guard::detach`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the permit.
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
    /// let lease = client.semaphore("uploads", 1).acquire().await?.detach().await?;
    /// assert_eq!(client.adopt(&lease).await?.name(), "uploads#1");
    /// # Ok(()) }
    /// ```
    pub async fn detach(self) -> Result<DetachedLease, LeaseError> {
        self.0.detach().await
    }
}

impl Deref for Permit {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}

impl From<Permit> for Guard {
    fn from(permit: Permit) -> Self {
        permit.into_guard()
    }
}

/// [Several permits](crate::Semaphore::acquire_many) of a semaphore, held: a [`GuardAll`] with
/// numbers.
///
/// Dropping it releases all of them in the background.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// let permits = client.semaphore("gpus", 4).acquire_many(3).await?;
/// permits.check()?; // all methods of the guard of several locks
/// for number in permits.numbers() {
///     println!("use GPU {}", number - 1);
/// }
/// permits.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "the permits are released as soon as the guard is dropped"]
pub struct Permits(GuardAll);

impl Permits {
    pub(super) const fn new(guards: Vec<Guard>) -> Self {
        Self(GuardAll::new(guards))
    }

    /// The number of each permit, the smallest first. See [`Permit::number`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let permits = client.semaphore("gpus", 2).acquire_many(2).await?;
    /// assert_eq!(permits.numbers().collect::<Vec<_>>(), [1, 2]);
    /// # Ok(()) }
    /// ```
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.0.guards().iter().map(number)
    }

    /// The permits as separate guards, each of which is released and lost on its own.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let gpus = client.semaphore("gpus", 2);
    /// let mut permits = gpus.acquire_many(2).await?.into_permits();
    /// permits.remove(0).release().await?;
    /// assert_eq!(permits[0].number(), 2);
    /// assert_eq!(gpus.acquire().await?.number(), 1);
    /// # Ok(()) }
    /// ```
    pub fn into_permits(self) -> Vec<Permit> {
        self.0.into_guards().into_iter().map(Permit).collect()
    }

    /// The same holds as a [`GuardAll`], for code that accepts the guard of any set of locks.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.semaphore("gpus", 2).acquire_many(2).await?.into_guard();
    /// assert_eq!(guard.guards().len(), 2);
    /// # Ok(()) }
    /// ```
    pub fn into_guard(self) -> GuardAll {
        self.0
    }

    /// Releases all permits on all nodes and reports whether they were still held. See
    /// [`GuardAll::release`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the release: it continues in the background.
    ///
    /// # Errors
    ///
    /// As [`GuardAll::release`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// client.semaphore("gpus", 4).acquire_many(3).await?.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.0.release().await
    }
}

impl Deref for Permits {
    type Target = GuardAll;

    fn deref(&self) -> &GuardAll {
        &self.0
    }
}

impl From<Permits> for GuardAll {
    fn from(permits: Permits) -> Self {
        permits.into_guard()
    }
}

/// The locks of a semaphore `jobs` are `jobs#1`, `jobs#2` and so on.
fn number(guard: &Guard) -> u32 {
    let suffix = guard.name().rsplit('#').next();
    suffix
        .and_then(|number| number.parse().ok())
        .expect("the name of a permit ends with its number")
}
