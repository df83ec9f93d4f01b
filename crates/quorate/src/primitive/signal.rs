//! A flag that is raised when a lock is lost.

use std::sync::Arc;

use crate::{
    engine::{
        Engine,
        held::{Held, Loss},
    },
    error::Lost,
    primitive::{guard::Guard, join::first},
};

/// A flag that is raised when a lock is lost. Clones share the flag.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// # use std::time::Duration;
/// let guard = client.mutex("orders:42").max_hold(Duration::from_millis(20)).lock().await?;
/// let flag = guard.loss_token();
/// let work = std::thread::spawn(move || {
///     while !flag.is_lost() { /* one short step of work that cannot be dropped */ }
/// });
/// work.join().unwrap();
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct LossToken {
    /// One lock, or all of a set.
    held: Arc<[(Arc<Held>, Arc<Engine>)]>,
}

impl LossToken {
    pub(super) fn of<'a>(guards: impl IntoIterator<Item = &'a Guard>) -> Self {
        Self { held: guards.into_iter().map(Guard::shared).collect() }
    }

    /// True once the lock is lost, even if it only expired.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.mutex("orders:42").lock().await?;
    /// let flag = guard.loss_token();
    /// assert!(!flag.is_lost());
    /// client.shutdown(std::time::Duration::from_secs(1)).await;
    /// assert!(flag.is_lost());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.held.iter().any(|(held, engine)| held.check(engine, engine.now()).is_err())
    }

    /// Completes when the lock is lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// let guard = client.mutex("orders:42").max_hold(Duration::from_millis(20)).lock().await?;
    /// let flag = guard.loss_token();
    /// let watch = tokio::spawn(async move { flag.lost().await });
    /// assert_eq!(watch.await?.reason.as_str(), "max_hold");
    /// # Ok(()) }
    /// ```
    pub async fn lost(&self) -> Lost {
        first(self.held.iter().map(|(held, _)| Loss::of(held.clone())).collect::<Vec<_>>()).await
    }
}
