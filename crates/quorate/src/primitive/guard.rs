//! The guard of a held lock.

mod calls;
mod detach;
mod downgrade;
mod extend;

use std::{fmt, sync::Arc, time::Duration};

use quorate_core::{
    fence::Fence,
    lease::LostReason,
    queue::{FencedLease, is_shared},
    round::RoundOutcome,
};

use crate::{
    engine::{
        Call, Ended,
        held::{Held, Hold, Loss},
    },
    error::{Lost, ReleaseError, VerifyError},
    observe::Event,
    owner_id::OwnerId,
    primitive::{acquire::Silence, inner::Inner, signal::LossToken},
};

/// A held lock.
///
/// While the guard exists, the client's watchdog renews the lock in the background, unless the lock
/// was acquired with [`no_renew`](crate::Mutex::no_renew). It renews for at most
/// [`max_hold`](crate::ClientBuilder::max_hold), by default one hour. Then the lock is lost, with
/// [`LostReason::MaxHold`].
///
/// If the lock is lost, [`lost`](Self::lost) completes before another owner can hold the lock.
///
/// Dropping the guard releases the lock in the background. The drop neither blocks nor needs a
/// runtime. [`release`](Self::release) reports whether the release worked.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// let guard = client.mutex("orders:42").lock().await?;
/// guard.check()?; // before each step that must not overlap with another holder's
/// drop(guard); // releases the lock, even after a panic
/// assert!(client.mutex("orders:42").try_lock().await?.is_some());
/// # Ok(()) }
/// ```
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard {
    client: Arc<Inner>,
    held: Arc<Held>,
    /// The call that acquired it.
    call: Call,
    is_over: bool,
}

impl Guard {
    /// The guard of the lock that the call acquired.
    pub(crate) fn new(client: Arc<Inner>, call: Call, hold: Hold) -> Self {
        let held = call.keep(hold).expect("its outcome says so");
        client.engine.notify_observer(&Event::Held { name: held.name.as_str(), kind: held.kind });
        Self { client, held, call, is_over: false }
    }

    /// What the nodes answered to the call that acquired the lock.
    pub(crate) fn silence(&self) -> Silence {
        Silence { lock: self.held.name.clone(), nodes: self.call.reports() }
    }

    /// The name of the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.mutex("orders:42").lock().await?;
    /// assert_eq!(guard.name(), "orders:42");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        self.held.name.as_str()
    }

    /// The fence of this holder, larger than the fence of every earlier holder. Send it with every
    /// request, so that the resource can reject the requests of a stale client.
    ///
    /// It does not change while the lock is held. `None` in classic mode and for a
    /// [reader](crate::RwLock::read), because readers that hold a lock together have no order.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let orders = client.mutex("orders:42");
    /// let first = orders.lock().await?.fence(); // and released
    /// let guard = orders.lock().await?;
    /// assert!(guard.fence() > first);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn fence(&self) -> Option<Fence> {
        let fenced = self.held.fenced.filter(|_| !is_shared(&self.held.owner));
        fenced.map(FencedLease::fence)
    }

    /// The id of this hold, which the nodes store as the value of the lock's key.
    ///
    /// It shows no secret unless [asked](OwnerId::expose_secret) to.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let (one, other) = (client.mutex("one").lock().await?, client.mutex("other").lock().await?);
    /// assert_ne!(one.owner_id(), other.owner_id());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn owner_id(&self) -> OwnerId {
        OwnerId::new(self.engine().client, self.held.owner.clone())
    }

    /// How long the lease is valid if it is not renewed. Zero if the lease has ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use std::time::Duration;
    /// # let (estimate, ttl) = (Duration::from_secs(1), Duration::from_secs(10));
    /// let guard = client.mutex("orders:42").no_renew().ttl(ttl).lock().await?;
    /// if guard.remaining() < estimate {
    ///     guard.extend(ttl).await?; // the next step would not fit
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.held.remaining(self.engine(), self.engine().now())
    }

    /// Checks that the lock is still held, without asking the nodes.
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
    /// let guard = client.mutex("orders:42").lock().await?;
    /// for _step in 0..3 {
    ///     guard.check()?; // stops here if the lock is lost
    ///     // One short step of the work.
    /// }
    /// # Ok(()) }
    /// ```
    pub fn check(&self) -> Result<(), Lost> {
        self.held.check(self.engine(), self.engine().now())
    }

    /// True if the last renewal was not confirmed, or a clock jumped. The lock is still held, and
    /// the watchdog tries again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::{Client, memory::{Behaviour, MemoryNodes}};
    /// # let nodes = MemoryNodes::new(1);
    /// # let settings = Client::builder().memory(&nodes).danger_engine_on_this_runtime();
    /// # let client = settings.build()?;
    /// let guard = client.mutex("orders:42").lock().await?;
    /// nodes.set(0, Behaviour::Fail);
    /// tokio::time::sleep(guard.remaining() / 2).await; // a renewal was due meanwhile
    /// assert!(guard.is_at_risk());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_at_risk(&self) -> bool {
        let shared = self.engine().lock();
        shared.machine.lease(self.held.id).is_some_and(|it| it.lease().is_at_risk())
    }

    /// Completes when the lock is lost: at the deadline of the lease even if no node ever answers,
    /// and before another owner can hold the lock. It may complete later if this machine is too
    /// busy to run a woken task within the drift allowance. After the machine was suspended, it
    /// completes at most one second after the machine resumes. [`check`](Self::check) is exact on
    /// any machine.
    ///
    /// It never completes while the lock is held. It can be awaited after the guard was dropped. A
    /// lock that was released is not lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # let work = async {};
    /// let guard = client.mutex("orders:42").lock().await?;
    /// tokio::select! {
    ///     lost = guard.lost() => eprintln!("{lost}"), // undo what can be undone
    ///     () = work => guard.release().await?,
    /// }
    /// # Ok(()) }
    /// ```
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + Sync + use<> {
        self.loss()
    }

    pub(super) fn loss(&self) -> Loss {
        Loss::of(self.held.clone())
    }

    /// A flag that is raised when the lock is lost, for work that polls it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.mutex("orders:42").lock().await?;
    /// let flag = guard.loss_token();
    /// let work = move || (0..1_000).take_while(|_step| !flag.is_lost()).count();
    /// assert_eq!(std::thread::spawn(work).join().unwrap(), 1_000);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn loss_token(&self) -> LossToken {
        LossToken::of([self])
    }

    /// Runs `work` until it is done, or drops it at its next await when the lock is lost.
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
    /// let guard = client.mutex("orders:42").lock().await?;
    /// let sum = guard.run(async { 40 + 2 }).await?; // an error if the lock is lost meanwhile
    /// guard.release().await?;
    /// assert_eq!(sum, 42);
    /// # Ok(()) }
    /// ```
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        run(work, self.lost(), || self.check()).await
    }

    /// Asks the nodes whether a majority still stores this hold.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Lost`] if the lease has ended or a majority no longer stores it: then the
    /// lock is lost. [`VerifyError::NoQuorum`] if too few nodes answered to decide.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::{Client, memory::MemoryNodes};
    /// # let nodes = MemoryNodes::new(1);
    /// # let client = Client::builder().memory(&nodes).build()?;
    /// let guard = client.mutex("orders:42").lock().await?;
    /// guard.verify().await?;
    /// nodes.forget(0); // as a restart without persistence does
    /// assert!(guard.verify().await.is_err());
    /// # Ok(()) }
    /// ```
    pub async fn verify(&self) -> Result<(), VerifyError> {
        self.check()?;
        let (call, outcome) = self.ask_nodes().await;
        match outcome {
            RoundOutcome::Agreed => Ok(self.check()?),
            RoundOutcome::Refused => Err(self.lost_reason(LostReason::Gone).into()),
            RoundOutcome::Unsure => {
                Err(VerifyError::NoQuorum { lock: self.name().to_owned(), nodes: call.reports() })
            }
        }
    }

    /// Releases the lock on all nodes and reports whether it was still held.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the release: it continues in the background.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] if the lease had ended: another owner may have held the lock while
    /// you worked. [`ReleaseError::NoQuorum`] if too few nodes answered: the release continues in
    /// the background, and the keys expire after their ttl.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// # use quorate::error::ReleaseError;
    /// let guard = client.mutex("orders:42").lock().await?;
    /// match guard.release().await {
    ///     Ok(()) => {} // the lock was held all the time
    ///     Err(ReleaseError::Lost(lost)) => eprintln!("check what was done: {lost}"),
    ///     Err(other) => eprintln!("{other}"), // the release continues in the background
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        let was_held = self.check();
        let call = self.remove_lease();
        let Ended::Round(_, finding) = call.outcome().await else {
            unreachable!("a release ends as one")
        };
        was_held?;
        match finding {
            RoundOutcome::Agreed => Ok(()),
            RoundOutcome::Refused => Err(Lost::new(&self.held.name, LostReason::Gone).into()),
            RoundOutcome::Unsure => {
                Err(ReleaseError::NoQuorum { lock: self.name().to_owned(), nodes: call.reports() })
            }
        }
    }

    /// Gives up the guard without releasing the lock, which is no longer renewed and expires after
    /// its ttl. Use it for work that cannot be stopped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let guard = client.mutex("video:9").lock().await?;
    /// guard.leave_to_expire();
    /// assert!(client.mutex("video:9").try_lock().await?.is_none(), "the lock is still held");
    /// # Ok(()) }
    /// ```
    pub fn leave_to_expire(mut self) {
        self.end(|shared, lease| shared.machine.leave(lease));
    }
}

/// Runs `work` until it is done, or until the loss.
pub(super) async fn run<F: Future>(
    work: F,
    lost: impl Future<Output = Lost>,
    check: impl Fn() -> Result<(), Lost>,
) -> Result<F::Output, Lost> {
    let (mut work, mut lost) = (std::pin::pin!(work), std::pin::pin!(lost));
    std::future::poll_fn(|cx| {
        // The loss comes first: work that ends after it does not count.
        if let std::task::Poll::Ready(lost) = lost.as_mut().poll(cx) {
            return std::task::Poll::Ready(Err(lost));
        }
        check()?;
        let value = std::task::ready!(work.as_mut().poll(cx));
        std::task::Poll::Ready(check().map(|()| value))
    })
    .await
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The release is only queued here: a drop may run anywhere, even in a panic.
        if !self.is_over {
            self.remove_lease();
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.held.name)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Client, memory::MemoryNodes};

    /// The watchdog may be about to renew the lease when the guard is dropped.
    #[tokio::test]
    async fn renewal_after_the_release_stores_nothing() {
        let nodes = MemoryNodes::new(3);
        let client = Client::builder().memory(&nodes).build().unwrap();
        let guard = client.mutex("orders").lock().await.unwrap();
        let (engine, held) = (guard.engine().clone(), guard.held.clone());
        guard.release().await.unwrap();
        engine.renew(&[held.id]);
        assert!((0..3).all(|node| nodes.names(node).is_empty()), "no node stores it");
    }

    /// A lease that was detached and released by another process must not be stored again.
    #[tokio::test]
    async fn renewal_after_a_detach_stores_nothing() {
        let nodes = MemoryNodes::new(3);
        let client = Client::builder().memory(&nodes).build().unwrap();
        let guard = client.mutex("orders").lock().await.unwrap();
        let (engine, held) = (guard.engine().clone(), guard.held.clone());
        let lease = guard.detach().await.unwrap();
        client.adopt(&lease).await.unwrap().release().await.unwrap();
        engine.renew(&[held.id]);
        assert!((0..3).all(|node| nodes.names(node).is_empty()), "no node stores it");
    }
}
