//! The same client without async: for threads, scripts and programs that have no runtime.
//!
//! Each method blocks its thread until it is done, and links to its async counterpart, which
//! documents it. The client's own thread does the work, so these methods also work on a thread of
//! an async runtime, but they block its other tasks. A client whose engine runs on the caller's
//! runtime could block forever, so it cannot become a blocking client.
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
mod delegate;
mod guard;
mod lock_list;
mod mutex_all;
mod permits;
mod rwlock;
mod semaphore;

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use self::delegate::delegate_settings;
pub use self::{
    builder::ClientBuilder,
    guard::{Guard, Permit, ReadGuard, WriteGuard},
    lock_list::LockList,
    mutex_all::{GuardAll, MutexAll},
    permits::Permits,
    rwlock::RwLock,
    semaphore::Semaphore,
};
use crate::{
    DetachedLease, DowngradedLease, IntoAddresses, LeaseTag, NodesChanged, Shutdown, TaggedLease,
    Warning,
    error::{
        AdmitError, ChangeError, ConnectError, InspectError, LeaseError, LockError, Lost,
        NodeReport, ReleaseError, WithError, WouldDeadlock,
    },
    inspect::LockReport,
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

    /// See [`crate::Client::local_folder`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::local_folder`].
    #[cfg(feature = "local")]
    pub fn local_folder() -> Result<std::path::PathBuf, crate::error::ConfigError> {
        crate::Client::local_folder()
    }

    /// See [`crate::Client::mutex`].
    #[must_use]
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex(self.0.mutex(name))
    }

    /// See [`crate::Client::admit`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::admit`].
    pub fn admit(&self) -> Result<(), AdmitError> {
        wait(self.0.admit())
    }

    /// See [`crate::Client::has_quarantine`].
    #[must_use]
    pub fn has_quarantine(&self) -> bool {
        self.0.has_quarantine()
    }

    /// See [`crate::Client::change_nodes`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::change_nodes`].
    pub fn change_nodes(&self) -> Result<NodesChanged, ChangeError> {
        wait(self.0.change_nodes())
    }

    /// See [`crate::Client::vouch_for_nodes`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::vouch_for_nodes`].
    pub fn vouch_for_nodes(&self) -> Result<(), AdmitError> {
        wait(self.0.vouch_for_nodes())
    }

    /// See [`crate::Client::adopt`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::adopt`].
    pub fn adopt(&self, lease: &DetachedLease) -> Result<Guard, LeaseError> {
        wait(self.0.adopt(lease)).map(Guard)
    }

    /// See [`crate::Client::inspect`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::inspect`].
    pub fn inspect(&self, name: impl AsRef<str>) -> Result<LockReport, InspectError> {
        wait(self.0.inspect(name))
    }

    /// See [`crate::Client::locks`].
    pub fn locks(&self, prefix: impl AsRef<str>) -> LockList {
        LockList(self.0.locks(prefix))
    }

    /// See [`crate::Client::renew_lease`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::renew_lease`].
    pub fn renew_lease(&self, lease: &DetachedLease) -> Result<Duration, LeaseError> {
        wait(self.0.renew_lease(lease))
    }

    /// See [`crate::Client::release_lease`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::release_lease`].
    pub fn release_lease(&self, lease: &DetachedLease) -> Result<(), LeaseError> {
        wait(self.0.release_lease(lease))
    }

    /// See [`crate::Client::downgrade_lease`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::downgrade_lease`].
    pub fn downgrade_lease(&self, lease: &DetachedLease) -> Result<DowngradedLease, LeaseError> {
        wait(self.0.downgrade_lease(lease))
    }

    /// See [`crate::Client::tag_lease`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::tag_lease`].
    pub fn tag_lease(
        &self,
        lease: &DetachedLease,
        tag: LeaseTag,
    ) -> Result<DetachedLease, LeaseError> {
        wait(self.0.tag_lease(lease, tag))
    }

    /// See [`crate::Client::tagged_leases`].
    ///
    /// # Errors
    ///
    /// As [`crate::Client::tagged_leases`].
    pub fn tagged_leases(
        &self,
        names: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Vec<TaggedLease>, InspectError> {
        wait(self.0.tagged_leases(names))
    }

    /// See [`crate::Client::identity`].
    #[must_use]
    pub fn identity(&self) -> &str {
        self.0.identity()
    }

    /// See [`crate::Client::owner_prefix`].
    #[must_use]
    pub fn owner_prefix(&self) -> String {
        self.0.owner_prefix()
    }

    /// See [`crate::Client::node_status`].
    #[must_use]
    pub fn node_status(&self) -> Box<[NodeReport]> {
        self.0.node_status()
    }

    /// See [`crate::Client::warnings`].
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        self.0.warnings()
    }

    /// See [`crate::Client::shutdown`].
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

delegate_settings!(Mutex, "crate::Mutex");

impl Mutex {
    /// See [`crate::Mutex::reentrant`].
    #[must_use]
    pub fn reentrant(self, identity: impl AsRef<str>) -> Self {
        Self(self.0.reentrant(identity))
    }

    /// See [`crate::Mutex::try_lock`].
    ///
    /// # Errors
    ///
    /// As [`crate::Mutex::try_lock`].
    pub fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        Ok(wait(self.0.try_lock())?.map(Guard))
    }

    /// See [`crate::Mutex::lock`].
    ///
    /// # Errors
    ///
    /// As [`crate::Mutex::lock`].
    pub fn lock(&self) -> Result<Guard, LockError> {
        wait(self.0.lock()).map(Guard)
    }

    /// See [`crate::Mutex::lock_timeout`].
    ///
    /// # Errors
    ///
    /// As [`crate::Mutex::lock_timeout`].
    pub fn lock_timeout(&self, limit: Duration) -> Result<Guard, LockError> {
        wait(self.0.lock_timeout(limit)).map(Guard)
    }

    /// See [`crate::Mutex::with`].
    ///
    /// Nothing interrupts `work`: call `check` in it now and then.
    ///
    /// # Errors
    ///
    /// As [`crate::Mutex::with`]. [`WithError::Lost`] if the lock is lost when `work`
    /// returns.
    pub fn with<T>(&self, work: impl FnOnce(&Guard) -> T) -> Result<T, WithError> {
        with(self.lock()?, work, Guard::check, Guard::release)
    }
}

/// Runs `work` with a guard, and then releases it.
fn with<G, T>(
    guard: G,
    work: impl FnOnce(&G) -> T,
    check: fn(&G) -> Result<(), Lost>,
    release: fn(G) -> Result<(), ReleaseError>,
) -> Result<T, WithError> {
    let value = work(&guard);
    check(&guard)?;
    // The work is done even if the release is not confirmed: it continues in the background.
    let _ = release(guard);
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
