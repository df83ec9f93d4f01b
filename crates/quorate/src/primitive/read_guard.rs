//! A lock that is held together with other readers.

use super::{
    delegate::{delegate_hold, delegate_lock},
    guard::Guard,
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
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct ReadGuard(Guard);

impl ReadGuard {
    pub(super) const fn new(guard: Guard) -> Self {
        Self(guard)
    }
}

delegate_hold!(ReadGuard(Guard): r#"client.rwlock("prices")"#, "read()");
delegate_lock!(ReadGuard(Guard): r#"client.rwlock("prices")"#, "read()");

/// ```compile_fail,E0599
/// # async fn example(reader: quorate::ReadGuard) {
/// let fence = reader.fence();
/// # }
/// ```
#[cfg(doctest)]
struct ReadersHaveNoFence;
