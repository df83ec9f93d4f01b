//! Settings of a client, checked in one place before anything is sent.

#[cfg(feature = "simulation")]
pub mod simulation;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use quorate_core::{
    command::ClientId,
    dialect::Dialect,
    moment::Moment,
    quorum::NODES_MAX,
    terms::{Drift, Terms},
};
use tokio::sync::Notify;

#[cfg(feature = "tls")]
use crate::Tls;
#[cfg(feature = "local")]
use crate::node::local;
use crate::{
    Client,
    clock::{Clock, node_time},
    engine::{Engine, Running, Settings, Where},
    error::{ConfigError, ConnectError, TtlError},
    membership::{self, SharedMembership},
    memory::MemoryNodes,
    node::{
        Driver, Ears, Node, Quiet,
        memory::View,
        redis::{Identities, Link, Security, Surroundings, Target, blot, drive},
    },
    nonces::{Nonces, OwnerKey},
    observe::Observer,
    primitive::inner::{Defaults, Inner},
    who,
};

/// Settings of a [`Client`]. Nothing is checked and nothing is sent before [`build`](Self::build).
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
    observer: Option<Arc<dyn Observer>>,
    #[cfg(feature = "tls")]
    tls: Tls,
    prefix: String,
    who: Option<String>,
    place: Where,
    dialect: Dialect,
    restart_guard: Option<bool>,
    is_durable: bool,
    only_looks: bool,
    #[cfg(feature = "simulation")]
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
        write!(f, "{:?}", blot(&self.0))
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
            observer: None,
            #[cfg(feature = "tls")]
            tls: Tls::new(),
            prefix: PREFIX_DEFAULT.into(),
            who: None,
            place: Where::OwnThread,
            dialect: Dialect::Queue,
            restart_guard: None,
            is_durable: false,
            only_looks: false,
            #[cfg(feature = "simulation")]
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

    /// Uses a folder of this machine instead of servers: all processes that name the same folder
    /// exclude each other. The folder is made if it is not there.
    ///
    /// It must be on a local disk. It is for one user, unless it exists already and its group may
    /// write there. Locks end with a reboot; fences go on.
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
    /// let report = Client::builder().local(&folder).build()?; // in another process, as a rule
    /// let _guard = backup.mutex("disk").lock().await?;
    /// assert!(report.mutex("disk").try_lock().await?.is_none());
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "local")]
    pub fn local(mut self, folder: impl AsRef<std::path::Path>) -> Self {
        self.source = Source::Local(folder.as_ref().to_owned());
        self
    }

    /// How long a lock outlives a holder that crashed. Default: 10 seconds.
    ///
    /// A longer ttl survives longer pauses; a shorter one frees a crashed holder's lock sooner.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use {quorate::{Client, memory::MemoryNodes}, std::time::Duration};
    /// # let nodes = MemoryNodes::new(1);
    /// let client = Client::builder().memory(&nodes).ttl(Duration::from_secs(3)).build()?;
    /// let guard = client.mutex("orders:42").lock().await?;
    /// assert!(guard.remaining() < Duration::from_secs(3)); // less the allowance for clock drift
    /// # Ok(()) }
    /// ```
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// The longest ttl that any lock of this client may have. Default: 60 seconds.
    ///
    /// All clients of the same nodes should agree about it: it is how long a node that has lost its
    /// data must stay out.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use {quorate::{Client, error::LockError, memory::MemoryNodes}, std::time::Duration};
    /// # let nodes = MemoryNodes::new(1);
    /// let client = Client::builder().memory(&nodes).max_ttl(Duration::from_secs(20)).build()?;
    /// let long = client.mutex("orders:42").ttl(Duration::from_secs(30)).try_lock().await;
    /// assert!(matches!(long, Err(LockError::InvalidTtl(_))));
    /// # Ok(()) }
    /// ```
    pub const fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.max_ttl = max_ttl;
        self
    }

    /// How long any lock is held at the most, however often it is renewed: a holder that hangs for
    /// ever must not keep its lock for ever. `None` sets no limit. Default: one hour.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use {quorate::{Client, error::LostReason, memory::MemoryNodes}, std::time::Duration};
    /// # let nodes = MemoryNodes::new(1);
    /// let limit = Some(Duration::from_millis(20));
    /// let client = Client::builder().memory(&nodes).max_hold(limit).build()?;
    /// let guard = client.mutex("orders:42").lock().await?;
    /// assert_eq!(guard.lost().await.reason, LostReason::MaxHold);
    /// # Ok(()) }
    /// ```
    pub const fn max_hold(mut self, max_hold: Option<Duration>) -> Self {
        self.max_hold = max_hold;
        self
    }

    /// Tells `observer` what happens inside. It replaces an earlier one.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::{Client, memory::MemoryNodes, observe::Event};
    ///
    /// let warn = |event: &Event<'_>| {
    ///     if let Event::Lost { name, reason } = event {
    ///         eprintln!("{name} is lost: {reason}");
    ///     }
    /// };
    /// let client = Client::builder().memory(&MemoryNodes::new(1)).observer(warn).build()?;
    /// # Ok::<(), quorate::error::ConfigError>(())
    /// ```
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Which servers with a `rediss://` address are trusted, and who we are to them. Default: what
    /// the operating system trusts, and no certificate of our own.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::{Client, Tls, error::ConfigError};
    ///
    /// let tls = Tls::new().ca_pem("this is no certificate");
    /// let error = Client::builder().nodes(["rediss://10.0.0.1"]).tls(tls).build().unwrap_err();
    /// assert!(matches!(error, ConfigError::InvalidTls { .. }));
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// How far two clocks may disagree about the length of a ttl. Default: one per cent, in parts
    /// per million, and two milliseconds. A larger allowance is safer and leaves less time to work.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use {quorate::{Client, memory::MemoryNodes}, std::time::Duration};
    /// # let nodes = MemoryNodes::new(1);
    /// let fixed = Duration::from_millis(5);
    /// let client = Client::builder().memory(&nodes).drift(20_000, fixed).build()?; // two per cent
    /// let guard = client.mutex("orders:42").ttl(Duration::from_secs(10)).lock().await?;
    /// assert!(guard.remaining() <= Duration::from_millis(10_000 - 200 - 5));
    /// # Ok(()) }
    /// ```
    pub const fn drift(mut self, ppm: u32, fixed: Duration) -> Self {
        self.drift = Drift { ppm, fixed };
        self
    }

    /// How long a silent node is waited for. Default: a twentieth of the ttl, from 5 to 50
    /// milliseconds, and at least three round trips.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::{Client, error::LockError, memory::{Behaviour, MemoryNodes}};
    /// # use std::time::Duration;
    /// # let nodes = MemoryNodes::new(1);
    /// let patience = Duration::from_millis(5);
    /// let client = Client::builder().memory(&nodes).vote_timeout(patience).build()?;
    /// nodes.set(0, Behaviour::Hang);
    /// let silence = client.mutex("orders:42").try_lock().await; // takes no longer than that
    /// assert!(matches!(silence, Err(LockError::NoQuorum { .. })));
    /// # Ok(()) }
    /// ```
    pub const fn vote_timeout(mut self, vote_timeout: Duration) -> Self {
        self.vote_timeout = Some(vote_timeout);
        self
    }

    /// How long [`connect`](Self::connect) waits for a majority. Default: 5 seconds.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use {quorate::{Client, memory::{Behaviour, MemoryNodes}}, std::time::Duration};
    /// # let nodes = MemoryNodes::new(1);
    /// nodes.set(0, Behaviour::Fail);
    /// let patience = Duration::from_millis(10);
    /// let connected = Client::builder().memory(&nodes).connect_timeout(patience).connect().await;
    /// assert_eq!(connected.unwrap_err().to_string(), "no quorum: memory:0: connection refused");
    /// # Ok(()) }
    /// ```
    pub const fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Where Quorate keeps keys of its own. Locks cannot have names under it. Default: `quorate:`.
    ///
    /// All clients of a lock must have the same: with different ones they exclude each other, but
    /// stand in different lines, and their fences are counted apart.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::{Client, error::LockError, memory::MemoryNodes};
    /// # let nodes = MemoryNodes::new(1);
    /// let client = Client::builder().memory(&nodes).prefix("locks:own:").build()?;
    /// let taken = client.mutex("locks:own:x").try_lock().await;
    /// assert!(matches!(taken, Err(LockError::InvalidName(_))));
    /// # Ok(()) }
    /// ```
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How this client is shown to others who wait for its locks. Default: program, host and
    /// process id.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use {quorate::{Client, memory::MemoryNodes}, std::time::Duration};
    /// # let nodes = MemoryNodes::new(1);
    /// # let other = Client::builder().memory(&nodes).build()?;
    /// let client = Client::builder().memory(&nodes).who("billing").build()?;
    /// let _guard = client.mutex("orders:42").lock().await?;
    /// let error = other.mutex("orders:42").lock_timeout(Duration::ZERO).await.unwrap_err();
    /// assert!(error.to_string().contains("billing"));
    /// # Ok(()) }
    /// ```
    pub fn who(mut self, who: impl Into<String>) -> Self {
        self.who = Some(who.into());
        self
    }

    /// Uses classic mode: the Redlock algorithm as it was published, with nothing but `SET NX PX`
    /// and the compare-and-delete script. Those who wait ask again and again, anyone may be next,
    /// and [`fence`](crate::Guard::fence) is `None`. Under the
    /// [restart guard](Self::restart_guard) the same `SET` is in a script, which looks first
    /// whether the node has forgotten anything.
    ///
    /// It is for servers that cannot carry the default mode, such as Redis before 6.2, and is never
    /// chosen by itself. Clients in both modes exclude each other, but those in line see the others
    /// as another library's: they look every now and then whether the lock is free.
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

    /// Whether a node that may have forgotten locks is kept from voting until they would be over.
    /// Default: on with three nodes or more, off with fewer, and for nodes in memory.
    ///
    /// It covers restarts, flushed data, promoted replicas, other servers behind the same address,
    /// copied and rolled-back data, and clocks that were set forward by 5 s or more. The nodes keep
    /// a record of what all clients have agreed upon: which nodes there are, and
    /// [`max_ttl`](Self::max_ttl). A client that differs is refused with
    /// [`Disagreement`](crate::error::Trouble::Disagreement).
    ///
    /// Nodes that were never used wait, too; [`Client::admit`] lets them in at once.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::Client;
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// // For locks whose loss costs no more than work that is done twice:
    /// let client = Client::builder().nodes(nodes).restart_guard(false).connect().await?;
    /// # Ok(()) }
    /// ```
    pub const fn restart_guard(mut self, is_on: bool) -> Self {
        self.restart_guard = Some(is_on);
        self
    }

    /// Lets a restarted server vote at once if it writes every lock to disk before it grants it.
    /// Default: off.
    ///
    /// That is so only if `appendonly yes`, `appendfsync always` and `no-appendfsync-on-rewrite no`
    /// were found when a client attached before the restart, are found again, the last write was
    /// well, and the server has and had no replica: each is checked, for which the user needs the
    /// right to `CONFIG GET`. A server that fails any of it is guarded as the others are. What
    /// cannot be checked is the disk: one that lies about what it has written forgets locks.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::Client;
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let client = Client::builder().nodes(nodes).durable_nodes(true).connect().await?;
    /// # Ok(()) }
    /// ```
    pub const fn durable_nodes(mut self, are_durable: bool) -> Self {
        self.is_durable = are_durable;
        self
    }

    /// Only looks at servers: the client writes nothing, begins no session, and takes no locks. For
    /// tools that show [`nodes`](Client::nodes) or [locks](Client::inspect), and for operators:
    /// [`admit`](Client::admit), [`change_nodes`](Client::change_nodes) and
    /// [`vouch_for_nodes`](Client::vouch_for_nodes) write only when they have seen that they can
    /// do what they are told. It does nothing for nodes in memory or in a folder.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::Client;
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let client = Client::builder().nodes(nodes).look_only().build()?;
    /// # Ok(()) }
    /// ```
    pub const fn look_only(mut self) -> Self {
        self.only_looks = true;
        self
    }

    /// Runs the client's engine on the tokio runtime on which [`build`](Self::build) is called, and
    /// takes the time from it.
    ///
    /// This is for tests with a paused clock, and for simulations. The danger: user code that
    /// blocks the runtime then blocks the engine as well.
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

    /// Checks the settings and starts the client. Links are made in the background; nothing is
    /// waited for.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the setting, the value and what is wrong with it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use quorate::{Client, memory::MemoryNodes};
    ///
    /// let nodes = MemoryNodes::new(1);
    /// let error = Client::builder().memory(&nodes).ttl(Duration::ZERO).build().unwrap_err();
    /// assert!(error.to_string().starts_with("a ttl of 0ns leaves no time to work"));
    /// ```
    pub fn build(self) -> Result<Client, ConfigError> {
        self.check()?;
        let parts = self.parts(Nonces::of_the_system())?;
        self.build_of(parts)
    }

    fn build_of(self, parts: Parts) -> Result<Client, ConfigError> {
        let Opened { nodes, drivers, membership, node_time } = self.open(&parts)?;
        let Parts { clock, client, owner_key, who, ears, status, quiet, .. } = parts;
        let (jitter_seed, first_round) = (parts.jitter_seed, parts.first_round);
        let settings = Settings {
            clock,
            status,
            quiet: quiet.clone(),
            client,
            owner_key,
            who,
            dialect: self.dialect,
            has_sessions: self.dialect.has_queue() || membership.is_some(),
            max_ttl: self.max_ttl,
            node_time,
            jitter_seed,
            first_round,
            vote_timeout: self.vote_timeout,
            observer: self.observer.clone(),
        };
        let engine = Arc::new(Engine::new(settings, nodes));
        engine.hear(&ears);
        let running = Running::start(&engine, drivers, self.place, quiet)?;
        let defaults = Defaults {
            ttl: self.ttl,
            max_ttl: self.max_ttl,
            drift: self.drift,
            max_hold: self.max_hold,
            prefix: self.prefix,
        };
        Ok(Client::from_inner(Inner::new(engine, running, defaults, membership)))
    }

    /// Builds the client and waits until a majority of its nodes is attached.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the client; no lock was taken. The nodes know its session for a
    /// few seconds.
    ///
    /// # Errors
    ///
    /// [`ConnectError`], with what each node said, if there is no majority in time. It comes at
    /// once if waiting cannot help, such as with a wrong password or the same server twice.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let client = quorate::Client::builder().nodes(nodes).who("billing").connect().await?;
    /// for report in client.nodes() {
    ///     println!("{report}"); // two of them are attached, at the least
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let patience = self.connect_timeout;
        let client = self.build()?;
        client.wait_for_majority(patience).await?;
        Ok(client)
    }

    fn parts(&self, nonces: Nonces) -> Result<Parts, ConfigError> {
        let clock = match self.place {
            Where::OwnThread => Clock::Boot,
            Where::ThisRuntime => Clock::of_runtime(),
        };
        #[cfg(feature = "simulation")]
        let (clock, nonces) = self.simulated(clock, nonces);
        Ok(Parts {
            clock,
            client: nonces.client()?,
            owner_key: nonces.owner_key()?,
            who: self.who.as_deref().map_or_else(who::this_process, who::printable).into(),
            ears: Arc::default(),
            status: Arc::default(),
            quiet: Arc::default(),
            jitter_seed: nonces.number()?,
            first_round: nonces.number()?,
            nonces,
        })
    }

    fn open(&self, parts: &Parts) -> Result<Opened, ConfigError> {
        let Parts { clock, client, who, ears, status, quiet, jitter_seed, nonces, .. } =
            parts.clone();
        let dialect = self.dialect;
        match &self.source {
            Source::Memory(nodes) => {
                let mixed = || ConfigError::InvalidSetting {
                    setting: "memory",
                    value: "shared nodes".into(),
                    reason: "clients whose engine runs on a runtime, and clients with a thread of \
                             their own, have different clocks and cannot share nodes in memory",
                };
                let view = View { clock, client, who, dialect, quiet, ears, nonces };
                let nodes = nodes.nodes(&view).ok_or_else(mixed)?;
                let now = clock.now();
                let node_time = Some((node_time(now).as_micros(), now));
                Ok(Opened { nodes, drivers: Vec::new(), membership: None, node_time })
            }
            #[cfg(feature = "local")]
            Source::Local(folder) => {
                let (max_ttl, observer) = (self.max_ttl, self.observer.clone());
                let around = local::Surroundings {
                    clock,
                    client,
                    who,
                    dialect,
                    max_ttl,
                    ears,
                    status,
                    quiet,
                    jitter_seed,
                    nonces,
                    observer,
                };
                let local::Opened { node, driver, ahead_us } = local::open(folder, around)?;
                let now = clock.now();
                let time_us = |ahead| node_time(now).as_micros().saturating_add_signed(ahead);
                let node_time = ahead_us.map(|ahead| (time_us(ahead), now));
                let (nodes, drivers) = (vec![node], vec![driver]);
                Ok(Opened { nodes, drivers, membership: None, node_time })
            }
            Source::Urls(urls) => {
                let targets = targets(urls)?;
                let membership = self.membership(&targets, parts);
                let surroundings = Surroundings {
                    clock,
                    client_name: format!("quorate-{:.8}", client.to_string()).into(),
                    client,
                    who,
                    dialect,
                    prefix: self.prefix.as_str().into(),
                    max_ttl: self.max_ttl,
                    ears,
                    identities: Arc::new(Identities::new(urls.len())),
                    membership: membership.clone(),
                    only_looks: self.only_looks,
                    status,
                    quiet,
                    jitter_seed,
                    nonces,
                    observer: self.observer.clone(),
                    security: self.security(&targets)?,
                    #[cfg(feature = "simulation")]
                    network: self.simulation.network.clone(),
                };
                let (nodes, drivers) = links(targets, &surroundings);
                Ok(Opened { nodes, drivers, membership, node_time: None })
            }
        }
    }

    /// What is known of the set of nodes, if they are members of one.
    fn membership(&self, targets: &[Target], parts: &Parts) -> Option<Arc<SharedMembership>> {
        let is_on = self.restart_guard.unwrap_or(targets.len() >= GUARDED_FROM);
        is_on.then(|| {
            let labels = targets.iter().map(|target| target.label.as_str().into());
            let settings = membership::Settings {
                max_ttl: self.max_ttl,
                is_durable: self.is_durable,
                only_looks: self.only_looks,
                clock: parts.clock,
                nonces: parts.nonces.clone(),
            };
            Arc::new(SharedMembership::new(labels, settings))
        })
    }

    /// Certificates are read only if an address asks for TLS.
    #[cfg(feature = "tls")]
    fn security(&self, targets: &[Target]) -> Result<Security, ConfigError> {
        if !targets.iter().any(|target| target.is_tls) {
            return Ok(Security::default());
        }
        let made = self.tls.connector().map_err(|reason| ConfigError::InvalidTls { reason })?;
        Ok(Security { connector: Some(made) })
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with TLS")]
    fn security(&self, _targets: &[Target]) -> Result<Security, ConfigError> {
        Ok(Security::default())
    }

    fn check(&self) -> Result<(), ConfigError> {
        let nodes = match &self.source {
            Source::Urls(urls) => urls.len(),
            Source::Memory(nodes) => nodes.len(),
            #[cfg(feature = "local")]
            Source::Local(_) => 1,
        };
        match nodes {
            0 => return Err(ConfigError::NoNodes),
            1..=NODES_MAX => {}
            _ => {
                return Err(ConfigError::TooManyNodes { nodes, max: NODES_MAX });
            }
        }
        let invalid = |setting, value: String, reason| {
            Err(ConfigError::InvalidSetting { setting, value, reason })
        };
        if self.restart_guard == Some(true) && matches!(self.source, Source::Memory(_)) {
            let reason = "nodes in memory end with their process, and are not guarded";
            return invalid("restart_guard", "true".into(), reason);
        }
        #[cfg(feature = "local")]
        if matches!(self.source, Source::Local(_)) {
            if self.restart_guard == Some(true) {
                let reason =
                    "one local node forgets nothing while its machine runs, and is not guarded";
                return invalid("restart_guard", "true".into(), reason);
            }
            if self.place == Where::ThisRuntime {
                let reason = "a local node has the machine's clock, which cannot be paused";
                return invalid("danger_engine_on_this_runtime", "local".into(), reason);
            }
        }
        if self.vote_timeout.is_some_and(|timeout| timeout.is_zero()) {
            return invalid("vote_timeout", "0".into(), "no node could answer in time");
        }
        if self.drift.ppm >= 1_000_000 {
            let reason = "it must be less than 1000000 parts per million";
            return invalid("drift", self.drift.ppm.to_string(), reason);
        }
        if self.prefix.is_empty() || self.prefix.chars().any(char::is_control) {
            let reason = "it must not be empty or have control characters";
            return invalid("prefix", self.prefix.clone(), reason);
        }
        if self.max_hold.is_some_and(|max_hold| max_hold.is_zero()) {
            return invalid("max_hold", "0".into(), "no lock could be held at all");
        }
        let defaults = |ttl| Terms::new(ttl, Duration::ZERO, self.drift).map_err(TtlError::from);
        defaults(self.max_ttl)?;
        defaults(self.ttl)?;
        if self.ttl > self.max_ttl {
            return Err(TtlError::AboveMax { ttl: self.ttl, max: self.max_ttl }.into());
        }
        Ok(())
    }
}

/// Understands all addresses, and notices those that mean the same server.
fn targets(urls: &[SecretUrl]) -> Result<Vec<Target>, ConfigError> {
    let mut targets: Vec<Target> = Vec::new();
    for (node, SecretUrl(url)) in urls.iter().enumerate() {
        let target = Target::parse(url).map_err(|reason| ConfigError::InvalidUrl {
            node,
            url: blot(url),
            reason,
        })?;
        if let Some(first) = targets.iter().position(|other| other.place == target.place) {
            return Err(ConfigError::SameServer { first, second: node, label: target.label });
        }
        targets.push(target);
    }
    Ok(targets)
}

fn links(targets: Vec<Target>, surroundings: &Surroundings) -> (Vec<Box<dyn Node>>, Vec<Driver>) {
    let link = |(number, target)| {
        let link = Arc::new(Link::new(number, target, surroundings.clone()));
        (Box::new(link.clone()) as Box<dyn Node>, Box::pin(drive(link)) as Driver)
    };
    targets.into_iter().enumerate().map(link).unzip()
}

/// The nodes, and what keeps their links alive.
struct Opened {
    nodes: Vec<Box<dyn Node>>,
    drivers: Vec<Driver>,
    membership: Option<Arc<SharedMembership>>,
    /// What their clocks showed, and when, if that is known already.
    node_time: Option<(u64, Moment)>,
}

/// What nodes and engine share.
#[derive(Clone)]
struct Parts {
    clock: Clock,
    client: ClientId,
    owner_key: OwnerKey,
    who: Arc<str>,
    ears: Arc<Ears>,
    status: Arc<Notify>,
    quiet: Arc<Quiet>,
    jitter_seed: u64,
    first_round: u64,
    nonces: Nonces,
}

/// With fewer nodes one that forgets is no danger, or there is none left to keep the lock.
const GUARDED_FROM: usize = 3;

const TTL_DEFAULT: Duration = Duration::from_secs(10);
const MAX_TTL_DEFAULT: Duration = Duration::from_secs(60);
const MAX_HOLD_DEFAULT: Duration = Duration::from_secs(60 * 60);
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
const PREFIX_DEFAULT: &str = "quorate:";
