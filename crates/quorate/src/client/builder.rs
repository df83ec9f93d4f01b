//! Settings of a client, checked in one place before anything is sent.

mod build;
mod diagnose;
mod identity;
mod quarantine;
#[cfg(feature = "__simulation")]
pub mod simulation;
#[cfg(test)]
mod tests;
mod times;

use std::{sync::Arc, time::Duration};

use quorate_core::{dialect::Dialect, terms::Drift};

#[cfg(feature = "tls")]
use crate::Tls;
use crate::{
    Client,
    engine::Where,
    error::{ConfigError, ConnectError},
    memory::MemoryNodes,
    node::redis::masked_address,
    nonces::Nonces,
    observe::Observer,
};

/// Settings of a [`Client`]. [`build`](Self::build) checks them. Nothing is sent before.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use quorate::{Client, memory::MemoryNodes};
///
/// let client = Client::builder()
///     .memory(&MemoryNodes::new(5)) // or `nodes`, with the addresses of servers
///     .ttl(Duration::from_secs(5))
///     .who("billing")
///     .build()?;
/// # Ok::<(), quorate::error::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` or `connect` is called"]
pub struct ClientBuilder {
    source: Source,
    ttl: Duration,
    max_ttl: Duration,
    drift: Drift,
    vote_timeout: Option<Duration>,
    connect_timeout: Duration,
    max_hold: Option<Duration>,
    observers: Vec<Arc<dyn Observer>>,
    #[cfg(feature = "tls")]
    tls: Tls,
    prefix: String,
    who: Option<String>,
    identity: Option<String>,
    place: Where,
    dialect: Dialect,
    quarantine: Option<bool>,
    is_durable: bool,
    is_read_only: bool,
    #[cfg(feature = "__simulation")]
    simulation: simulation::Settings,
}

#[derive(Clone, Debug)]
enum Source {
    Urls(Vec<SecretUrl>),
    Memory(MemoryNodes),
    #[cfg(feature = "local")]
    Local(std::path::PathBuf),
}

/// An address that may hold a password.
#[derive(Clone)]
struct SecretUrl(String);

impl std::fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", masked_address(&self.0))
    }
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            source: Source::Urls(Vec::new()),
            ttl: TTL_DEFAULT,
            max_ttl: MAX_TTL_DEFAULT,
            drift: Drift::default(),
            vote_timeout: None,
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            max_hold: Some(MAX_HOLD_DEFAULT),
            observers: Vec::new(),
            #[cfg(feature = "tls")]
            tls: Tls::new(),
            prefix: PREFIX_DEFAULT.into(),
            who: None,
            identity: None,
            place: Where::OwnThread,
            dialect: Dialect::Queue,
            quarantine: None,
            is_durable: false,
            is_read_only: false,
            #[cfg(feature = "__simulation")]
            simulation: simulation::Settings::default(),
        }
    }
}

impl ClientBuilder {
    /// The addresses of the nodes: `redis://[USER:PASSWORD@]HOST[:PORT][/DB]`, the same with
    /// `rediss://` for TLS, or `unix:///path/to/socket[?db=DB&user=USER&pass=PASSWORD]`.
    ///
    /// The nodes must be independent servers, without replication between them. Every client of the
    /// same locks must have the same nodes. Five is a good number; an even number tolerates no more
    /// failures than the odd number below it.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::{Client, error::ConfigError};
    ///
    /// let nodes = ["redis://10.0.0.1", "redis://me:secret@10.0.0.2:6380/1", "redis://10.0.0.1/0"];
    /// let error = Client::builder().nodes(nodes).build().unwrap_err();
    /// assert!(matches!(error, ConfigError::SameServer { first: 0, second: 2, .. }));
    /// ```
    pub fn nodes(mut self, urls: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let urls = urls.into_iter().map(|url| SecretUrl(url.as_ref().to_owned()));
        self.source = Source::Urls(urls.collect());
        self
    }

    /// Adds the address of one node. See [`nodes`](Self::nodes).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = quorate::Client::builder().node("redis://127.0.0.1:6379").connect().await?;
    /// # Ok(()) }
    /// ```
    pub fn node(mut self, url: impl AsRef<str>) -> Self {
        let url = SecretUrl(url.as_ref().to_owned());
        if let Source::Urls(urls) = &mut self.source {
            urls.push(url);
        } else {
            self.source = Source::Urls(vec![url]);
        }
        self
    }

    /// Uses nodes inside this process instead of servers.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use quorate::{Client, memory::MemoryNodes};
    ///
    /// let nodes = MemoryNodes::new(3);
    /// let alice = Client::builder().memory(&nodes).build()?;
    /// let bob = Client::builder().memory(&nodes).build()?;
    /// let _guard = alice.mutex("orders:42").lock().await?;
    /// assert!(bob.mutex("orders:42").try_lock().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn memory(mut self, nodes: &MemoryNodes) -> Self {
        self.source = Source::Memory(nodes.clone());
        self
    }

    /// Uses a folder of this machine instead of servers: all processes that use the same folder
    /// exclude each other. The folder is created if it does not exist.
    ///
    /// It must be on a local disk. Only one user can use it, unless it exists already and its group
    /// may write to it. A reboot ends all locks, but fences continue to grow.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::Client;
    /// # let temporary = tempfile::tempdir()?;
    /// # let folder = temporary.path().join("locks");
    /// let backup = Client::builder().local(&folder).who("backup").build()?;
    /// let report = Client::builder().local(&folder).build()?; // usually in another process
    /// let _guard = backup.mutex("disk").lock().await?;
    /// assert!(report.mutex("disk").try_lock().await?.is_none());
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "local")]
    pub fn local(mut self, folder: impl AsRef<std::path::Path>) -> Self {
        self.source = Source::Local(folder.as_ref().to_owned());
        self
    }

    /// Uses classic mode: the Redlock algorithm as published, with only `SET NX PX` and the
    /// compare-and-delete script. Waiters retry, in no order, and [`fence`](crate::Guard::fence) is
    /// `None`. With [quarantine](Self::quarantine) the `SET` is in a script that first checks
    /// whether the node has forgotten anything.
    ///
    /// It is for servers without support for the default mode, such as Redis before 6.2. It is
    /// never chosen automatically. Clients in both modes exclude each other. Waiters of the default
    /// mode treat classic holders like another library's: they check at intervals whether the lock
    /// is free.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let nodes = quorate::memory::MemoryNodes::new(3);
    /// let client = quorate::Client::builder().memory(&nodes).classic().build()?;
    /// let guard = client.mutex("orders:42").lock().await?;
    /// assert_eq!(guard.fence(), None);
    /// # Ok(()) }
    /// ```
    pub const fn classic(mut self) -> Self {
        self.dialect = Dialect::Classic;
        self
    }

    /// Runs the client's engine on the tokio runtime on which [`build`](Self::build) is called, and
    /// takes the time from it.
    ///
    /// This is for tests with a paused clock, and for simulations. The danger: code that blocks the
    /// runtime also blocks the engine, and held locks are lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use {quorate::{Client, memory::MemoryNodes}, std::time::Duration};
    /// # let nodes = MemoryNodes::new(1);
    /// // In a test with `start_paused = true`:
    /// let client = Client::builder().memory(&nodes).danger_engine_on_this_runtime().build()?;
    /// let guard = client.mutex("orders:42").no_renew().lock().await?;
    /// tokio::time::advance(Duration::from_secs(10)).await; // takes no time
    /// assert!(guard.check().is_err());
    /// # Ok(()) }
    /// ```
    pub const fn danger_engine_on_this_runtime(mut self) -> Self {
        self.place = Where::ThisRuntime;
        self
    }

    /// Checks the settings and starts the client. It connects in the background, and the call does
    /// not wait.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the setting, its value and the reason.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use quorate::{Client, memory::MemoryNodes};
    ///
    /// let nodes = MemoryNodes::new(1);
    /// let error = Client::builder().memory(&nodes).ttl(Duration::ZERO).build().unwrap_err();
    /// assert!(error.to_string().starts_with("invalid ttl 0ns: use more than"));
    /// ```
    pub fn build(self) -> Result<Client, ConfigError> {
        self.check()?;
        let parts = self.parts(Nonces::of_the_system())?;
        self.build_of(parts)
    }

    /// Builds the client and waits until a majority of its nodes is attached.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the client, which holds no lock yet. The nodes keep its session
    /// for a few seconds.
    ///
    /// # Errors
    ///
    /// [`ConnectError`], with the answer of each node, if no majority is attached in time. It fails
    /// at once if waiting cannot help, for example with a wrong password or the same server twice.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let client = quorate::Client::builder().nodes(nodes).who("billing").connect().await?;
    /// for report in client.node_status() {
    ///     println!("{report}"); // at least two of them are attached
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let patience = self.connect_timeout;
        let client = self.build()?;
        client.wait_for_majority(patience).await?;
        Ok(client)
    }
}

const TTL_DEFAULT: Duration = Duration::from_secs(10);
const MAX_TTL_DEFAULT: Duration = Duration::from_secs(60);
const MAX_HOLD_DEFAULT: Duration = Duration::from_secs(60 * 60);
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
const PREFIX_DEFAULT: &str = "quorate:";
