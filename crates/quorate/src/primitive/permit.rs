//! One or several permits of a semaphore, held.

use super::{
    delegate::{delegate_fence, delegate_hold, delegate_lock},
    guard::Guard,
    guard_all::GuardAll,
};
use crate::fence::Fence;

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
}

delegate_hold!(Permit(Guard): r#"client.semaphore("uploads", 1)"#, "acquire()");
delegate_lock!(Permit(Guard): r#"client.semaphore("uploads", 1)"#, "acquire()");
delegate_fence!(Permit(Guard): r#"client.semaphore("uploads", 1)"#, "acquire()");

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
        self.guards().iter().map(number)
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

    /// The guard of each permit, in the order of their numbers.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let permits = client.semaphore("gpus", 2).acquire_many(2).await?;
    /// assert_eq!(permits.guards()[0].name(), "gpus#1");
    /// # Ok(()) }
    /// ```
    pub fn guards(&self) -> &[Guard] {
        self.0.guards()
    }

    /// The fence of the permit whose lock has this name. See [`GuardAll::fence`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let permits = client.semaphore("gpus", 2).acquire_many(2).await?;
    /// assert_eq!(permits.fence("gpus#2"), permits.guards()[1].fence());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn fence(&self, name: &str) -> Option<Fence> {
        self.0.fence(name)
    }
}

delegate_hold!(Permits(GuardAll): r#"client.semaphore("gpus", 4)"#, "acquire_many(2)");

impl AsRef<GuardAll> for Permits {
    fn as_ref(&self) -> &GuardAll {
        &self.0
    }
}

/// The locks of a semaphore `jobs` are `jobs#1`, `jobs#2` and so on.
pub(crate) fn number(guard: &Guard) -> u32 {
    let suffix = guard.name().rsplit('#').next();
    suffix
        .and_then(|number| number.parse().ok())
        .expect("the name of a permit ends with its number")
}
