//! The same client without async: for threads, scripts and programs that have no runtime.
//!
//! Every call blocks its thread until it is done. The work itself is done by the same code as for
//! async callers, on the client's own thread, so this also works on a thread that runs an async
//! runtime; only that runtime's other tasks have to wait meanwhile. A client whose engine runs on
//! the user's runtime could wait for ever, so it cannot be made a blocking one.
//!
//! # Examples
//!
//! ```
//! use quorate::blocking::Client;
//!
//! let client = Client::memory();
//! let guard = client.mutex("orders:42").lock()?;
//! guard.check()?;
//! guard.release()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod builder;
mod mutex_all;
mod rwlock;
mod semaphore;

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

pub use self::{
    builder::ClientBuilder,
    mutex_all::{GuardAll, MutexAll},
    rwlock::{RwLock, WriteGuard},
    semaphore::Semaphore,
};
use crate::{
    DetachedLease, DowngradedLease, IntoAddresses, LossToken, NodesChanged, OwnerId, Shutdown,
    Warning,
    error::{
        AdmitError, ChangeError, ConnectError, ExtendError, InspectError, LeaseError, LockError,
        Lost, NodeReport, ReleaseError, VerifyError, WithError, WouldDeadlock,
    },
    fence::Fence,
    inspect::{LockReport, Locks},
};

/// A connection to a set of nodes. Clones share it. See [`crate::Client`].
///
/// # Examples
///
/// ```
/// use quorate::blocking::Client;
///
/// let client = Client::memory(); // for servers: Client::connect("redis://127.0.0.1:6379")?
/// let guard = client.mutex("orders:42").try_lock()?;
/// assert!(guard.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client(crate::Client);

impl Client {
    /// See [`crate::Client::connect`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::connect`].
    pub fn connect(nodes: impl IntoAddresses) -> Result<Self, ConnectError> {
        wait(crate::Client::connect(nodes)).map(Self)
    }

    /// A client with one node inside this process, for tests and examples.
    /// See [`crate::Client::memory`].
    #[must_use]
    pub fn memory() -> Self {
        Self(crate::Client::memory())
    }

    /// See [`crate::Client::local`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::local`].
    #[cfg(feature = "local")]
    pub fn local() -> Result<Self, crate::error::ConfigError> {
        crate::Client::local().map(Self)
    }

    /// A lock that at most one owner holds. See [`crate::Client::mutex`].
    #[must_use]
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex(self.0.mutex(name))
    }

    /// Lets the nodes of this client vote at once, if all of them are new and empty. See
    /// [`crate::Client::admit`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::admit`].
    pub fn admit(&self) -> Result<(), AdmitError> {
        wait(self.0.admit())
    }

    /// Whether nodes that may have forgotten locks are kept from voting. See
    /// [`crate::Client::has_quarantine`].
    #[must_use]
    pub fn has_quarantine(&self) -> bool {
        self.0.has_quarantine()
    }

    /// Makes the nodes of this client the set that all clients go by. See
    /// [`crate::Client::change_nodes`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::change_nodes`].
    pub fn change_nodes(&self) -> Result<NodesChanged, ChangeError> {
        wait(self.0.change_nodes())
    }

    /// Vouches for the list of nodes. See [`crate::Client::vouch_for_nodes`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::vouch_for_nodes`].
    pub fn vouch_for_nodes(&self) -> Result<(), AdmitError> {
        wait(self.0.vouch_for_nodes())
    }

    /// Takes over a lease that another process left.
    ///
    /// # Errors
    ///
    /// As [`crate::Client::adopt`].
    pub fn adopt(&self, lease: &DetachedLease) -> Result<Guard, LeaseError> {
        wait(self.0.adopt(lease)).map(Guard)
    }

    /// Asks all nodes what they know about a lock. See [`crate::Client::inspect`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::inspect`].
    pub fn inspect(&self, name: impl AsRef<str>) -> Result<LockReport, InspectError> {
        wait(self.0.inspect(name))
    }

    /// All locks whose names begin with `prefix`. See [`crate::Client::locks`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::locks`].
    pub fn locks(&self, prefix: impl AsRef<str>) -> Result<Locks, InspectError> {
        wait(self.0.locks(prefix))
    }

    /// As [`crate::Client::renew_lease`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn renew_lease(&self, lease: &DetachedLease) -> Result<Duration, LeaseError> {
        wait(self.0.renew_lease(lease))
    }

    /// As [`crate::Client::release_lease`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn release_lease(&self, lease: &DetachedLease) -> Result<(), LeaseError> {
        wait(self.0.release_lease(lease))
    }

    /// As [`crate::Client::downgrade_lease`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn downgrade_lease(&self, lease: &DetachedLease) -> Result<DowngradedLease, LeaseError> {
        wait(self.0.downgrade_lease(lease))
    }

    /// As whom this client holds reentrant locks. See [`crate::Client::identity`].
    #[must_use]
    pub fn identity(&self) -> &str {
        self.0.identity()
    }

    /// See [`crate::Client::owner_prefix`].
    #[must_use]
    pub fn owner_prefix(&self) -> String {
        self.0.owner_prefix()
    }

    /// What each node is up to right now. See [`crate::Client::node_status`].
    #[must_use]
    pub fn node_status(&self) -> Box<[NodeReport]> {
        self.0.node_status()
    }

    /// What is allowed in the settings but probably not meant. See [`crate::Client::warnings`].
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        self.0.warnings()
    }

    /// Ends the client and all its clones. See [`crate::Client::shutdown`].
    pub fn shutdown(self, grace: Duration) -> Shutdown {
        wait(self.0.shutdown(grace))
    }
}

/// Makes an async client a blocking one.
impl TryFrom<crate::Client> for Client {
    type Error = WouldDeadlock;

    fn try_from(client: crate::Client) -> Result<Self, WouldDeadlock> {
        if client.is_driven_by_user() { Err(WouldDeadlock) } else { Ok(Self(client)) }
    }
}

/// A lock that at most one owner holds. See [`crate::Mutex`] for what it promises.
///
/// # Examples
///
/// ```
/// # let client = quorate::blocking::Client::memory();
/// let orders = client.mutex("orders:42");
/// let guard = orders.lock()?;
/// assert!(orders.try_lock()?.is_none(), "not even we ourselves get it twice");
/// guard.release()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mutex(crate::Mutex);

impl Mutex {
    /// See [`crate::Mutex::ttl`].
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// The same lock, which its holder can acquire again. See [`crate::Mutex::reentrant`].
    #[must_use]
    pub fn reentrant(self, identity: impl AsRef<str>) -> Self {
        Self(self.0.reentrant(identity))
    }

    /// See [`crate::Mutex::who`].
    #[must_use]
    pub fn who(self, who: impl AsRef<str>) -> Self {
        Self(self.0.who(who))
    }

    /// See [`crate::Mutex::no_renew`].
    #[must_use]
    pub fn no_renew(self) -> Self {
        Self(self.0.no_renew())
    }

    /// See [`crate::Mutex::max_hold`].
    #[must_use]
    pub fn max_hold(self, max_hold: Duration) -> Self {
        Self(self.0.max_hold(max_hold))
    }

    /// Takes the lock if nobody has it; `None` if someone has.
    ///
    /// # Errors
    ///
    /// As [`crate::Mutex::try_lock`].
    pub fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        Ok(wait(self.0.try_lock())?.map(Guard))
    }

    /// Takes the lock, waiting for as long as someone else has it.
    ///
    /// # Errors
    ///
    /// As [`crate::Mutex::lock`].
    pub fn lock(&self) -> Result<Guard, LockError> {
        wait(self.0.lock()).map(Guard)
    }

    /// Takes the lock, waiting up to `wait`.
    ///
    /// # Errors
    ///
    /// As [`crate::Mutex::lock_timeout`].
    pub fn lock_timeout(&self, limit: Duration) -> Result<Guard, LockError> {
        wait(self.0.lock_timeout(limit)).map(Guard)
    }

    /// Takes the lock, runs `work`, and releases the lock.
    ///
    /// Nothing can stop `work` from outside: let it look at [`Guard::check`] now and then.
    ///
    /// # Errors
    ///
    /// As [`crate::Mutex::with`]; the lock counts as lost if it was when `work` was done.
    pub fn with<T>(&self, work: impl FnOnce(&Guard) -> T) -> Result<T, WithError> {
        with(self.lock()?, work)
    }
}

/// A held lock. Dropping it releases the lock in the background. See [`crate::Guard`].
///
/// # Examples
///
/// ```
/// # let client = quorate::blocking::Client::memory();
/// let guard = client.mutex("orders:42").lock()?;
/// guard.check()?; // right before each step that must not overlap with another's
/// drop(guard); // on every way out of the scope, a panic included
/// assert!(client.mutex("orders:42").try_lock()?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard(crate::Guard);

impl Guard {
    /// The name of the lock. See [`crate::Guard::name`].
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

    /// The safe time that is left if nothing is renewed; zero when the lease has ended.
    /// See [`crate::Guard::remaining`].
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Says whether the holder may act right now. It asks nobody. See [`crate::Guard::check`].
    ///
    /// # Errors
    ///
    /// [`Lost`] if the lease has ended.
    pub fn check(&self) -> Result<(), Lost> {
        self.0.check()
    }

    /// A flag that is raised when the lock is lost. See [`crate::Guard::loss_token`].
    #[must_use]
    pub fn loss_token(&self) -> LossToken {
        self.0.loss_token()
    }

    /// True if the lock is held, but may not last. See [`crate::Guard::is_at_risk`].
    #[must_use]
    pub fn is_at_risk(&self) -> bool {
        self.0.is_at_risk()
    }

    /// Blocks until the lock is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # let client = quorate::blocking::Client::memory();
    /// # use std::time::Duration;
    /// let guard = client.mutex("orders:42").max_hold(Duration::from_millis(20)).lock()?;
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| eprintln!("{}", guard.wait_until_lost())); // watches while others work
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn wait_until_lost(&self) -> Lost {
        wait(self.0.lost())
    }

    /// Asks the nodes whether a majority still has this lock for us.
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::verify`].
    pub fn verify(&self) -> Result<(), VerifyError> {
        wait(self.0.verify())
    }

    /// Lets the lock live for `ttl` from now.
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::extend`].
    pub fn extend(&self, ttl: Duration) -> Result<(), ExtendError> {
        wait(self.0.extend(ttl))
    }

    /// Releases the lock on all nodes and tells whether it was still ours.
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::release`].
    pub fn release(self) -> Result<(), ReleaseError> {
        wait(self.0.release())
    }

    /// Gives up the guard without releasing the lock, which ends with its ttl.
    /// See [`crate::Guard::leave_to_expire`].
    pub fn leave_to_expire(self) {
        self.0.leave_to_expire();
    }

    /// Leaves the lock to another process.
    ///
    /// # Errors
    ///
    /// As [`crate::Guard::detach`].
    pub fn detach(self) -> Result<DetachedLease, LeaseError> {
        wait(self.0.detach())
    }
}

fn with<T>(guard: Guard, work: impl FnOnce(&Guard) -> T) -> Result<T, WithError> {
    let value = work(&guard);
    guard.check()?;
    // Too few answers do not make the work undone: the release goes on in the background.
    let _ = guard.release();
    Ok(value)
}

/// Runs a future to its end on this thread. The client's own thread does the work and wakes us.
fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        thread::park();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
