//! What building a client does: checks, nodes, links, and the engine.

#[cfg(feature = "local")]
use std::path::Path;
use std::{sync::Arc, time::Duration};

use quorate_core::{command::ClientId, moment::Moment, quorum::NODES_MAX, terms::Terms};
use tokio::sync::Notify;

#[cfg(feature = "local")]
use crate::node::local;
use crate::{
    Client,
    clock::{Clock, node_time},
    engine::{Engine, Running, Settings, Where},
    error::{ConfigError, TtlError},
    membership::{self, SharedMembership},
    node::{
        Driver, IdleSignal, Node, NodeEvents,
        memory::{MemoryNodes, View},
        redis::{Identities, Link, LinkContext, Security, Target, drive, masked_address},
    },
    nonces::{Nonces, OwnerKey},
    observe,
    primitive::inner::{Defaults, Inner},
    who,
};

use super::{ClientBuilder, SecretUrl, Source};

impl ClientBuilder {
    pub(super) fn build_of(self, parts: Parts) -> Result<Client, ConfigError> {
        let Opened { nodes, drivers, membership, has_sessions, node_time } = self.open(&parts)?;
        let Parts { clock, client, owner_key, who, identity, events, status, idle, .. } = parts;
        let (jitter_seed, first_round) = (parts.jitter_seed, parts.first_round);
        let settings = Settings {
            clock,
            status,
            idle: idle.clone(),
            client,
            owner_key,
            who,
            dialect: self.dialect,
            has_sessions,
            max_ttl: self.max_ttl,
            node_time,
            jitter_seed,
            first_round,
            vote_timeout: self.vote_timeout,
            observer: observe::combined(&self.observers),
        };
        let engine = Arc::new(Engine::new(settings, nodes));
        engine.listen_to(&events);
        let running = Running::start(&engine, drivers, self.place, idle)?;
        let defaults = Defaults {
            ttl: self.ttl,
            max_ttl: self.max_ttl,
            drift: self.drift,
            max_hold: self.max_hold,
            prefix: self.prefix,
            identity,
        };
        Ok(Client::from_inner(Inner::new(engine, running, defaults, membership)))
    }

    pub(super) fn parts(&self, nonces: Nonces) -> Result<Parts, ConfigError> {
        let clock = match self.place {
            Where::OwnThread => Clock::Boot,
            Where::ThisRuntime => Clock::of_runtime(),
        };
        #[cfg(feature = "__simulation")]
        let (clock, nonces) = self.simulated(clock, nonces);
        Ok(Parts {
            clock,
            client: nonces.client()?,
            owner_key: nonces.owner_key()?,
            who: self.who.as_deref().map_or_else(who::this_process, who::printable).into(),
            identity: match &self.identity {
                Some(identity) => identity.as_str().into(),
                None => format!("{:016x}{:016x}", nonces.number()?, nonces.number()?).into(),
            },
            events: Arc::default(),
            status: Arc::default(),
            idle: Arc::default(),
            jitter_seed: nonces.number()?,
            first_round: nonces.number()?,
            nonces,
        })
    }

    fn open(&self, parts: &Parts) -> Result<Opened, ConfigError> {
        match &self.source {
            Source::Memory(nodes) => self.open_memory(nodes, parts),
            #[cfg(feature = "local")]
            Source::Local(folder) => self.open_local(folder, parts),
            Source::Urls(urls) => self.open_links(urls, parts),
        }
    }

    fn open_memory(&self, nodes: &MemoryNodes, parts: &Parts) -> Result<Opened, ConfigError> {
        let Parts { clock, client, who, events, idle, nonces, .. } = parts.clone();
        let dialect = self.dialect;
        let mixed = || ConfigError::InvalidSetting {
            setting: "memory",
            value: "shared nodes".into(),
            reason: "clients whose engine runs on a runtime, and clients with a thread of \
                     their own, have different clocks and cannot share nodes in memory",
        };
        let view = View { clock, client, who, dialect, idle, events, nonces };
        let nodes = nodes.nodes(&view).ok_or_else(mixed)?;
        let now = clock.now();
        let node_time = Some((node_time(now).as_micros(), now));
        let has_sessions = dialect.has_queue();
        let (drivers, membership) = (Vec::new(), None);
        Ok(Opened { nodes, drivers, membership, has_sessions, node_time })
    }

    #[cfg(feature = "local")]
    fn open_local(&self, folder: &Path, parts: &Parts) -> Result<Opened, ConfigError> {
        let Parts { clock, client, who, events, status, idle, jitter_seed, nonces, .. } =
            parts.clone();
        let dialect = self.dialect;
        let (max_ttl, observer) = (self.max_ttl, observe::combined(&self.observers));
        let around = local::LinkContext {
            clock,
            client,
            who,
            dialect,
            max_ttl,
            events,
            status,
            idle,
            jitter_seed,
            nonces,
            observer,
        };
        let local::Opened { node, driver, ahead_us } = local::open(folder, around)?;
        let now = clock.now();
        let time_us = |ahead| node_time(now).as_micros().saturating_add_signed(ahead);
        let node_time = ahead_us.map(|ahead| (time_us(ahead), now));
        let (nodes, drivers) = (vec![node], vec![driver]);
        let (membership, has_sessions) = (None, dialect.has_queue());
        Ok(Opened { nodes, drivers, membership, has_sessions, node_time })
    }

    fn open_links(&self, urls: &[SecretUrl], parts: &Parts) -> Result<Opened, ConfigError> {
        let targets = targets(urls)?;
        let context = self.link_context(&targets, parts)?;
        let (membership, has_sessions) = (context.membership.clone(), context.has_sessions);
        let (nodes, drivers) = links(targets, &context);
        Ok(Opened { nodes, drivers, membership, has_sessions, node_time: None })
    }

    /// What the links to these servers share.
    pub(super) fn link_context(
        &self,
        targets: &[Target],
        parts: &Parts,
    ) -> Result<LinkContext, ConfigError> {
        let Parts { clock, client, who, events, status, idle, jitter_seed, nonces, .. } =
            parts.clone();
        let dialect = self.dialect;
        let membership = self.membership(targets, parts);
        let has_sessions = dialect.has_queue() || membership.is_some();
        Ok(LinkContext {
            clock,
            client_name: format!("quorate-{:.8}", client.to_string()).into(),
            client,
            who,
            dialect,
            has_sessions,
            prefix: self.prefix.as_str().into(),
            max_ttl: self.max_ttl,
            events,
            identities: Arc::new(Identities::new(targets.len())),
            membership,
            is_read_only: self.is_read_only,
            status,
            idle,
            jitter_seed,
            nonces,
            observer: observe::combined(&self.observers),
            security: self.security(targets)?,
            #[cfg(feature = "__simulation")]
            network: self.simulation.network.clone(),
        })
    }

    /// What is known of the set of nodes, if they are members of one.
    fn membership(&self, targets: &[Target], parts: &Parts) -> Option<Arc<SharedMembership>> {
        let is_on = self.quarantine.unwrap_or(targets.len() >= GUARDED_FROM);
        is_on.then(|| {
            let labels = targets.iter().map(|target| target.label.as_str().into());
            let settings = membership::Settings {
                max_ttl: self.max_ttl,
                is_durable: self.is_durable,
                is_read_only: self.is_read_only,
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

    pub(super) fn check(&self) -> Result<(), ConfigError> {
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
        if self.quarantine == Some(true) && matches!(self.source, Source::Memory(_)) {
            let reason = "nodes in memory end with their process, and are not quarantined";
            return invalid("quarantine", "true".into(), reason);
        }
        #[cfg(feature = "local")]
        if matches!(self.source, Source::Local(_)) {
            if self.quarantine == Some(true) {
                let reason =
                    "one local node forgets nothing while its machine runs, and is not quarantined";
                return invalid("quarantine", "true".into(), reason);
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
pub(super) fn targets(urls: &[SecretUrl]) -> Result<Vec<Target>, ConfigError> {
    let mut targets: Vec<Target> = Vec::new();
    for (node, SecretUrl(url)) in urls.iter().enumerate() {
        let target = Target::parse(url).map_err(|reason| ConfigError::InvalidUrl {
            node,
            url: masked_address(url),
            reason,
        })?;
        if let Some(first) = targets.iter().position(|other| other.endpoint == target.endpoint) {
            return Err(ConfigError::SameServer { first, second: node, label: target.label });
        }
        targets.push(target);
    }
    Ok(targets)
}

fn links(targets: Vec<Target>, context: &LinkContext) -> (Vec<Box<dyn Node>>, Vec<Driver>) {
    let link = |(number, target)| {
        let link = Arc::new(Link::new(number, target, context.clone()));
        (Box::new(link.clone()) as Box<dyn Node>, Box::pin(drive(link)) as Driver)
    };
    targets.into_iter().enumerate().map(link).unzip()
}

/// The nodes, and what keeps their links alive.
struct Opened {
    nodes: Vec<Box<dyn Node>>,
    drivers: Vec<Driver>,
    membership: Option<Arc<SharedMembership>>,
    /// They know the sessions of a client, without which they do not vote.
    has_sessions: bool,
    /// What their clocks showed, and when, if that is known already.
    node_time: Option<(u64, Moment)>,
}

/// What nodes and engine share.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) clock: Clock,
    pub(super) client: ClientId,
    pub(super) owner_key: OwnerKey,
    pub(super) who: Arc<str>,
    pub(super) identity: Arc<str>,
    pub(super) events: Arc<NodeEvents>,
    pub(super) status: Arc<Notify>,
    pub(super) idle: Arc<IdleSignal>,
    pub(super) jitter_seed: u64,
    pub(super) first_round: u64,
    pub(super) nonces: Nonces,
}

/// With fewer nodes one that forgets is no danger, or there is none left to keep the lock.
const GUARDED_FROM: usize = 3;
