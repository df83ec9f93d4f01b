//! Settings of a client, checked in one place before anything is sent.

#[cfg(feature = "simulation")]
pub mod simulation;

use std::{sync::Arc, time::Duration};

use quorate_core::{
    command::ClientId,
    quorum::NODES_MAX,
    terms::{Drift, Terms},
};
use tokio::sync::Notify;

#[cfg(feature = "tls")]
use crate::Tls;
use crate::{
    Client,
    client::{Defaults, Inner},
    clock::Clock,
    engine::{Driver, Engine, Place, Quiet, Running, Settings},
    error::{ConfigError, ConnectError, TtlError},
    memory::MemoryNodes,
    node::{
        Node,
        redis::{Identities, Link, Security, Surroundings, Target, blot, drive},
    },
    observe::Observer,
    who,
};

/// Settings of a [`Client`]. Nothing is checked before [`build`](Self::build), and nothing is sent
/// before the client is used.
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
    place: Place,
    #[cfg(feature = "simulation")]
    simulation: simulation::Settings,
}

#[derive(Clone, Debug)]
enum Source {
    Urls(Vec<SecretUrl>),
    Memory(MemoryNodes),
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
            place: Place::OwnThread,
            #[cfg(feature = "simulation")]
            simulation: simulation::Settings::default(),
        }
    }
}

impl ClientBuilder {
    /// The addresses of the nodes: `redis://[USER:PASSWORD@]HOST[:PORT][/DB]` or
    /// `unix:///path/to/socket[?db=DB&user=USER&pass=PASSWORD]`.
    ///
    /// The nodes must be independent servers, without replication between them. Every client of the
    /// same locks must have the same nodes. Five is a good number; an even number tolerates no more
    /// failures than the odd number below it.
    pub fn nodes(mut self, urls: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let urls = urls.into_iter().map(|url| SecretUrl(url.as_ref().to_owned()));
        self.source = Source::Urls(urls.collect());
        self
    }

    /// Uses nodes inside this process instead of servers.
    pub fn memory(mut self, nodes: &MemoryNodes) -> Self {
        self.source = Source::Memory(nodes.clone());
        self
    }

    /// How long a lock outlives a holder that crashed. Default: 10 seconds.
    ///
    /// A longer ttl survives longer pauses; a shorter one frees a crashed holder's lock sooner.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// The longest ttl that any lock of this client may have. Default: 60 seconds.
    ///
    /// All clients of the same nodes should agree about it: it is how long a node that has lost its
    /// data must stay out.
    pub const fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.max_ttl = max_ttl;
        self
    }

    /// How long any lock is held at the most, however often it is renewed: a holder that hangs for
    /// ever must not keep its lock for ever. `None` sets no limit. Default: one hour.
    pub const fn max_hold(mut self, max_hold: Option<Duration>) -> Self {
        self.max_hold = max_hold;
        self
    }

    /// Tells `observer` what happens inside. It replaces an earlier one.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Which servers with a `rediss://` address are trusted, and who we are to them. Default: what
    /// the operating system trusts, and no certificate of our own.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// How far two clocks may disagree about the length of a ttl. Default: one per cent, in parts
    /// per million, and two milliseconds. A larger allowance is safer and leaves less time to work.
    pub const fn drift(mut self, ppm: u32, fixed: Duration) -> Self {
        self.drift = Drift { ppm, fixed };
        self
    }

    /// How long a silent node is waited for. Default: a twentieth of the ttl, from 5 to 50
    /// milliseconds, and at least three round trips.
    pub const fn vote_timeout(mut self, vote_timeout: Duration) -> Self {
        self.vote_timeout = Some(vote_timeout);
        self
    }

    /// How long [`connect`](Self::connect) waits for a majority. Default: 5 seconds.
    pub const fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Where Quorate keeps keys of its own. Locks cannot have names under it. Default: `quorate:`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How this client is shown to others who wait for its locks. Default: program, host and
    /// process id.
    pub fn who(mut self, who: impl Into<String>) -> Self {
        self.who = Some(who.into());
        self
    }

    /// Runs the client's engine on the tokio runtime on which [`build`](Self::build) is called, and
    /// takes the time from it.
    ///
    /// This is for tests with a paused clock, and for simulations. The danger: user code that
    /// blocks the runtime then blocks the engine as well.
    pub const fn danger_engine_on_this_runtime(mut self) -> Self {
        self.place = Place::ThisRuntime;
        self
    }

    /// Checks the settings and starts the client. Links are made in the background; nothing is
    /// waited for.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the setting, the value and what is wrong with it.
    pub fn build(self) -> Result<Client, ConfigError> {
        self.check()?;
        let clock = match self.place {
            Place::OwnThread => Clock::Boot,
            Place::ThisRuntime => Clock::of_runtime(),
        };
        let random = Random::draw()?;
        #[cfg(feature = "simulation")]
        let (clock, random) = self.simulated(clock, random);
        let status = Arc::new(Notify::new());
        let quiet = Arc::new(Quiet::default());
        let client = ClientId::from_random(random.client);
        let (nodes, drivers) = match &self.source {
            Source::Memory(nodes) => {
                let mixed = || ConfigError::InvalidSetting {
                    setting: "memory",
                    value: "shared nodes".into(),
                    reason: "clients whose engine runs on a runtime, and clients with a thread of \
                             their own, have different clocks and cannot share nodes in memory",
                };
                (nodes.nodes(clock, &quiet).ok_or_else(mixed)?, Vec::new())
            }
            Source::Urls(urls) => {
                let targets = targets(urls)?;
                let security = self.security(&targets)?;
                links(
                    targets,
                    &Surroundings {
                        clock,
                        client_name: format!("quorate-{:.8}", client.to_string()).into(),
                        identities: Arc::new(Identities::new(urls.len())),
                        status: status.clone(),
                        quiet: quiet.clone(),
                        jitter_seed: random.jitter,
                        observer: self.observer.clone(),
                        security,
                        #[cfg(feature = "simulation")]
                        network: self.simulation.network.clone(),
                    },
                )
            }
        };
        let settings = Settings {
            clock,
            status,
            quiet: quiet.clone(),
            client,
            who: self.who.as_deref().map_or_else(who::this_process, who::printable),
            jitter_seed: random.jitter,
            vote_timeout: self.vote_timeout,
            observer: self.observer.clone(),
        };
        let engine = Arc::new(Engine::new(settings, nodes));
        let running = Running::start(&engine, drivers, self.place, quiet)?;
        let defaults = Defaults {
            ttl: self.ttl,
            max_ttl: self.max_ttl,
            drift: self.drift,
            max_hold: self.max_hold,
            prefix: self.prefix,
        };
        Ok(Client::from_inner(Inner::new(engine, running, defaults)))
    }

    /// Builds the client and waits until a majority of its nodes is attached.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the client; nothing was stored on any node.
    ///
    /// # Errors
    ///
    /// [`ConnectError`], with what each node said, if there is no majority in time. It comes at
    /// once if waiting cannot help, such as with a wrong password or the same server twice.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let patience = self.connect_timeout;
        let client = self.build()?;
        client.wait_for_majority(patience).await?;
        Ok(client)
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

/// What must come from the operating system's source of randomness.
struct Random {
    client: [u8; 20],
    jitter: u64,
}

impl Random {
    fn draw() -> Result<Self, ConfigError> {
        let refused = |error: getrandom::Error| ConfigError::System {
            what: "random bytes",
            reason: error.to_string(),
        };
        let mut client = [0; 20];
        getrandom::fill(&mut client).map_err(refused)?;
        Ok(Self { client, jitter: getrandom::u64().map_err(refused)? })
    }
}

const TTL_DEFAULT: Duration = Duration::from_secs(10);
const MAX_TTL_DEFAULT: Duration = Duration::from_secs(60);
const MAX_HOLD_DEFAULT: Duration = Duration::from_secs(60 * 60);
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
const PREFIX_DEFAULT: &str = "quorate:";
