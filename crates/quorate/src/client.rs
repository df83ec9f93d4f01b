//! The client: a cheap handle to one engine and its nodes.

pub(crate) mod addresses;
pub(crate) mod builder;
pub(crate) mod downgrade;
mod inspect;
mod leases;
pub(crate) mod lock_list;
pub(crate) mod operator;
pub(crate) mod tags;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use quorate_core::{client::watchdog::Renewal, queue::FencedLease, quorum::majority};

use self::leases::others_within;
#[cfg(feature = "local")]
use crate::error::ConfigError;
use crate::{
    ClientBuilder, IntoAddresses, Mutex, MutexAll, RwLock, Semaphore,
    clock::Clock,
    detached_lease::DetachedLease,
    engine::{OwnerKind, held::Hold},
    error::{ConnectError, LeaseError, Lost, LostReason, NodeAnswer, NodeError, NodeReport},
    memory::MemoryNodes,
    observe::LockKind,
    owner_id::owner_prefix,
    primitive::{
        acquire::{Got, Want, adopt},
        guard::Guard,
        inner::{FIRST_CONTACT_MAX, Inner},
    },
};

/// A connection to a set of nodes. Clones share it.
///
/// Dropping the last clone and the last guard waits up to 100 milliseconds for pending releases.
/// [`shutdown`](Self::shutdown) waits for a given time.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = quorate::Client::memory();
/// let clone = client.clone(); // shares the connections
/// let _guard = client.mutex("orders:42").lock().await?;
/// assert!(clone.mutex("orders:42").try_lock().await?.is_none());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

impl Client {
    /// Connects to one Redis or Valkey server, or to several independent ones.
    ///
    /// It returns when a majority of the nodes is attached. An address is `redis://HOST:PORT`,
    /// `HOST:PORT`, `rediss://…` for TLS, or `unix:///PATH`.
    ///
    /// Three or more new servers look like servers that have lost their locks. They do not vote for
    /// the time of a [quarantine](ClientBuilder::quarantine), 73 s by default. The error states how
    /// much is left. `quorate nodes admit`, or [`admit`](Self::admit), ends it: run it once, when
    /// the servers are new. A single server, for tests, needs no admission.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the client, which holds no lock yet. The nodes keep its session
    /// for a few seconds.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] if an address is invalid, or if no majority is attached in time. It
    /// contains the answer of each node.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let one = quorate::Client::connect("redis://127.0.0.1:6379").await?;
    ///
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let client = quorate::Client::connect(nodes).await?;
    /// # Ok(()) }
    /// ```
    pub async fn connect(nodes: impl IntoAddresses) -> Result<Self, ConnectError> {
        Self::builder().nodes(nodes.into_addresses()).connect().await
    }

    /// A client with one node inside this process, for tests and examples.
    ///
    /// # Panics
    ///
    /// If the system refuses to start a thread.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = quorate::Client::memory(); // no other client has this node
    /// let guard = client.mutex("orders:42").try_lock().await?;
    /// assert!(guard.is_some());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn memory() -> Self {
        let built = Self::builder().memory(&MemoryNodes::new(1)).build();
        built.expect("the defaults are valid, and the system starts a thread")
    }

    /// A client whose node is a folder of this machine: all processes of the same user exclude each
    /// other, without any server. For root the folder is `/var/lib/quorate`, for other users
    /// `quorate` in `$XDG_STATE_HOME` or else `~/.local/state`. [`ClientBuilder::local`] uses
    /// another folder.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Local`] if the folder cannot be used, with the reason and what to do.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = quorate::Client::local()?;
    /// let guard = client.mutex("nightly-backup").lock().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "local")]
    pub fn local() -> Result<Self, ConfigError> {
        Self::builder().local(Self::local_folder()?).build()
    }

    /// The folder that [`local`](Self::local) uses.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Local`] if this user has no home directory.
    ///
    /// # Examples
    ///
    /// ```
    /// # use quorate::Client;
    /// let folder = Client::local_folder()?;
    /// let settings = Client::builder().local(&folder).who("backup"); // with further settings
    /// # Ok::<(), quorate::error::ConfigError>(())
    /// ```
    #[cfg(feature = "local")]
    pub fn local_folder() -> Result<std::path::PathBuf, ConfigError> {
        crate::node::local::default_folder()
    }

    /// All settings.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use quorate::{Client, memory::MemoryNodes};
    ///
    /// let settings = Client::builder().memory(&MemoryNodes::new(3)).ttl(Duration::from_secs(30));
    /// let client = settings.build()?;
    /// assert_eq!(client.node_status().len(), 3);
    /// # Ok::<(), quorate::error::ConfigError>(())
    /// ```
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A lock that at most one owner holds. Nothing is sent until it is used. An invalid name is
    /// reported then.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let order = 42;
    /// let mutex = client.mutex(format!("orders:{order}"));
    /// mutex.with(async |_guard| { /* no other client works on this order */ }).await?;
    /// assert!(client.mutex("").lock().await.is_err()); // an invalid name
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(self.inner.clone(), name.as_ref())
    }

    /// Several locks that are acquired together or not at all. Nothing is sent until they are used.
    /// An invalid name is reported then.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let accounts = client.mutex_all(["account:7", "account:9"]);
    /// accounts.with(async |_guard| { /* no other client changes either account */ }).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn mutex_all(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> MutexAll {
        MutexAll::new(self.inner.clone(), names)
    }

    /// A lock that any number of readers share, or one writer holds exclusively. Nothing is sent
    /// until it is used. An invalid name is reported then.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let prices = client.rwlock("prices");
    /// let _reader = prices.read().await?;
    /// assert!(client.mutex("prices").try_lock().await?.is_none(), "it is the same lock");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.inner.clone(), name.as_ref())
    }

    /// A number of permits, each held by at most one owner.
    ///
    /// Nothing is sent until it is used. An invalid name is reported then. So is a number of
    /// permits other than 1 to [`Semaphore::MAX_PERMITS`], as
    /// [`LockError::InvalidPermits`](crate::error::LockError::InvalidPermits).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let reports = client.semaphore("reports", 4);
    /// reports.with(async |_permit| { /* at most three others make reports now */ }).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore::new(self.inner.clone(), name.as_ref(), permits)
    }

    /// The identity with which this client holds [reentrant](Mutex::reentrant) locks: the
    /// [setting](ClientBuilder::identity), or a text that no other client has. Give it to each task
    /// or process that shall enter the same locks.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let orders = client.mutex("orders").reentrant(client.identity());
    /// let _outer = orders.lock().await?;
    /// let _inner = orders.lock().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.inner.defaults.identity
    }

    /// A short id of this client, which identifies it but gives no right to act for it. The
    /// [`Holder`](crate::inspect::Holder) of each of its locks shows the same one.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let _guard = client.mutex("orders:42").lock().await?;
    /// let holder = client.inspect("orders:42").await?.holder.expect("the lock is held");
    /// assert_eq!(holder.owner_prefix, Some(client.owner_prefix()));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn owner_prefix(&self) -> String {
        owner_prefix(self.inner.engine.client)
    }

    /// The state of each node now, in the order in which the nodes were configured.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::{Client, memory::{Behaviour, MemoryNodes}};
    ///
    /// let nodes = MemoryNodes::new(2);
    /// let client = Client::builder().memory(&nodes).build()?;
    /// nodes.set(1, Behaviour::Fail);
    /// let lines: Vec<String> = client.node_status().iter().map(ToString::to_string).collect();
    /// assert_eq!(lines, ["memory:0: attached", "memory:1: connection refused"]);
    /// # Ok::<(), quorate::error::ConfigError>(())
    /// ```
    #[must_use]
    pub fn node_status(&self) -> Box<[NodeReport]> {
        self.inner.engine.reports()
    }

    /// Settings that are valid but probably not intended.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::{Client, Warning, memory::MemoryNodes};
    ///
    /// let client = Client::builder().memory(&MemoryNodes::new(4)).build()?;
    /// assert_eq!(client.warnings(), [Warning::EvenNodes { nodes: 4 }]);
    /// # Ok::<(), quorate::error::ConfigError>(())
    /// ```
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let nodes = self.inner.engine.nodes.len();
        if nodes.is_multiple_of(2) { vec![Warning::EvenNodes { nodes }] } else { Vec::new() }
    }

    /// Adopts a lease that another process [detached](Guard::detach). From now on this client
    /// renews and releases it. If several clients try to adopt the same lease, at most one
    /// succeeds.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases what was adopted already, so the lease may end.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Lost`] if a majority of the nodes no longer stores it. A failed adoption
    /// releases what it adopted: the lease may end.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = quorate::Client::memory();
    /// let lease = client.mutex("video:9").lock().await?.detach().await?;
    /// let guard = client.adopt(&lease).await?; // usually in another process
    /// assert!(client.adopt(&lease).await.is_err(), "it is adopted already");
    /// # Ok(()) }
    /// ```
    pub async fn adopt(&self, lease: &DetachedLease) -> Result<Guard, LeaseError> {
        let client = &self.inner;
        let terms = client.terms(lease.ttl())?;
        if lease.dialect() != client.engine.dialect {
            return Err(LeaseError::OtherMode);
        }
        let fenced = lease.stored_fence().map(FencedLease::adopted);
        self.settle(others_within(lease.ttl())).await;
        let (name, from) = lease.parts();
        let hold = Hold { renewal: Renewal::On, max: client.defaults.max_hold };
        let (name, kind, lock_kind) = (name.clone(), OwnerKind::of(from), LockKind::of(from));
        let want = Want { name, terms, hold, kind, lock_kind };
        match adopt(client, want, from.clone(), fenced).await? {
            Got::Held(guard) => Ok(guard),
            Got::Contended => Err(Lost::new(lease.parts().0, LostReason::Gone).into()),
            Got::Silence(silence) => Err(silence.into()),
        }
    }

    /// Shuts down the client and all its clones. They acquire no more locks. Held locks are lost
    /// and released. The call waits for the releases, up to `grace`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the shutdown: it continues in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use {quorate::error::LostReason, std::time::Duration};
    /// # let client = quorate::Client::memory();
    /// let guard = client.mutex("orders:42").lock().await?;
    /// let end = client.shutdown(Duration::from_secs(1)).await;
    /// assert!(end.is_clean);
    /// assert_eq!(guard.check().unwrap_err().reason, LostReason::ShutDown);
    /// # Ok(()) }
    /// ```
    pub async fn shutdown(self, grace: Duration) -> Shutdown {
        let engine = &self.inner.engine;
        engine.is_closed.store(true, Ordering::SeqCst);
        engine.work(|shared, now| {
            shared.machine.close(now);
            shared.machine.release_all(&|ttl| engine.vote_timeout(ttl), now);
        });
        self.inner.running.order_end(grace);
        Shutdown { is_clean: self.inner.running.ended().await }
    }

    /// True if the engine runs on an async runtime of the caller.
    pub(crate) fn is_driven_by_user(&self) -> bool {
        matches!(self.inner.engine.clock, Clock::Runtime { .. })
    }

    pub(crate) fn from_inner(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Waits until a majority is attached, until waiting cannot help, or for `patience`.
    pub(crate) async fn wait_for_majority(&self, patience: Duration) -> Result<(), ConnectError> {
        let attached = self.watch_nodes(patience, |nodes| {
            let quorum = majority(nodes.len());
            let node_errors = || {
                nodes.iter().filter_map(|report| match &report.answer {
                    NodeAnswer::NodeError(node_error) => Some(node_error),
                    NodeAnswer::Attached
                    | NodeAnswer::Granted
                    | NodeAnswer::Refused
                    | NodeAnswer::NotAwaited
                    | NodeAnswer::Ready(_) => None,
                })
            };
            let is_doubled =
                node_errors().any(|node_error| matches!(node_error, NodeError::SameServer(_)));
            let lasting = node_errors().filter(|node_error| node_error.is_lasting()).count();
            let is_hopeless = is_doubled || nodes.len() - lasting < quorum;
            let attached = nodes.len() - node_errors().count();
            (attached >= quorum || is_hopeless).then_some(!is_hopeless)
        });
        match attached.await {
            Some(true) => Ok(()),
            Some(false) | None => Err(ConnectError::NoQuorum { nodes: self.node_status() }),
        }
    }

    /// The same as [`Inner::watch_nodes`].
    pub(crate) async fn watch_nodes<T>(
        &self,
        patience: Duration,
        check: impl FnMut(&[NodeReport]) -> Option<T>,
    ) -> Option<T> {
        self.inner.watch_nodes(patience, check).await
    }
}

/// A setting that is valid but probably not intended.
///
/// # Examples
///
/// ```
/// use quorate::{Client, memory::MemoryNodes};
///
/// let client = Client::builder().memory(&MemoryNodes::new(2)).build()?;
/// let text = client.warnings()[0].to_string();
/// assert_eq!(text, "2 nodes tolerate 0 failures, no more than 1 would");
/// # Ok::<(), quorate::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// An even number of nodes tolerates no more failures than the odd number below it, and two
    /// callers can split the votes.
    EvenNodes {
        /// The number of nodes.
        nodes: usize,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self::EvenNodes { nodes } = self;
        let tolerated = nodes - majority(*nodes);
        write!(f, "{nodes} nodes tolerate {tolerated} failures, no more than {} would", nodes - 1)
    }
}

/// Whether a shutdown released everything.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = quorate::Client::memory();
/// let end = client.shutdown(std::time::Duration::from_secs(1)).await;
/// if !end.is_clean {
///     eprintln!("a node has not confirmed a release: its key expires after its ttl");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use = "check `is_clean`: a key that was not released stays until it expires"]
#[non_exhaustive]
pub struct Shutdown {
    /// True if every release was confirmed before the end of the grace time. If it is false, a node
    /// has not confirmed a release, and the key there expires after its ttl.
    pub is_clean: bool,
}
