//! A node without a server: many processes of one machine share a folder.
//!
//! The node is the core's store, kept in an SQLite file. Each client has a thread that executes its
//! commands in transactions, and a socket in the folder on which it receives pushes. There is no
//! daemon, and a process that crashes leaves no partial change.

mod db;
mod diagnose;
#[cfg(test)]
mod differential;
mod fault;
mod folder;
mod notifier;
mod open_store;
mod queue;
mod shares;
mod time;
mod transaction;
mod worker;

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use quorate_core::{
    command::{ClientId, Command},
    dialect::Dialect,
    moment::Moment,
    queue::Session,
};
use rustix::process::geteuid;
use tokio::sync::Notify;

pub(crate) use self::diagnose::diagnose;
use self::{
    fault::Fault,
    queue::{Phase, Queue},
    time::Boot,
    worker::Worker,
};
use super::{Driver, IdleSignal, Node, NodeEvents, Pull, Pulled, Request, Sent, Work};
use crate::{
    clock::Clock,
    error::{ConfigError, NodeError},
    nonces::Nonces,
    observe::{self, Event, Observer},
};

#[cfg(not(target_os = "linux"))]
compile_error!("the feature `local` is for Linux: it needs boot ids and a clock that counts sleep");

/// The client and the settings of a link.
#[derive(Debug)]
pub(crate) struct LinkContext {
    pub(crate) clock: Clock,
    pub(crate) client: ClientId,
    pub(crate) who: Arc<str>,
    pub(crate) dialect: Dialect,
    pub(crate) max_ttl: Duration,
    pub(crate) events: Arc<NodeEvents>,
    /// Notified when the folder becomes usable or unusable.
    pub(crate) status: Arc<Notify>,
    pub(crate) idle: Arc<IdleSignal>,
    /// The seed for random delays.
    pub(crate) jitter_seed: u64,
    pub(crate) nonces: Nonces,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

/// A folder as a node.
pub(crate) struct Opened {
    pub(crate) node: Box<dyn Node>,
    /// Ends the worker when it is dropped.
    pub(crate) driver: Driver,
    /// How far the node's time is ahead of the client's, if it is known already.
    pub(crate) ahead_us: Option<i64>,
}

/// Opens a folder as a node.
pub(crate) fn open(path: &Path, context: LinkContext) -> Result<Opened, ConfigError> {
    let refused =
        |what, error: std::io::Error| ConfigError::System { what, reason: error.to_string() };
    let boot = Boot::of_this_process()?;
    // The path must stay valid when the process changes its working directory.
    let path =
        std::path::absolute(path).map_err(|error| Fault::io(path, "it is no path", error))?;
    let seed = context.jitter_seed;
    let queue = Queue::new().map_err(|error| refused("an event", error))?;
    let shared = Arc::new(Shared::new(path, context, queue));
    let closer = Closer(shared.clone());
    let (first, opened) = mpsc::sync_channel(1);
    let worker = Worker::new(shared.clone(), boot, seed, first);
    let thread = thread::Builder::new().name("quorate-local".into());
    thread.spawn(move || worker.run()).map_err(|error| refused("a thread", error))?;
    let ahead_us = match opened.recv_timeout(OPEN_MAX) {
        Ok(opened) => Some(opened?),
        // Another process was stopped while it held the folder's lock. Requests report that until
        // it continues.
        Err(_) => None,
    };
    let driver = Box::pin(async move {
        let _closer = closer;
        std::future::pending::<()>().await;
    });
    Ok(Opened { node: Box::new(LocalNode(shared)), driver, ahead_us })
}

/// The default folder.
pub(crate) fn default_folder() -> Result<PathBuf, ConfigError> {
    folder_of(geteuid().is_root(), |name| env::var_os(name))
}

fn folder_of(
    is_root: bool,
    setting: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, ConfigError> {
    let of = |name: &str| setting(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = match is_root {
        true => Some(PathBuf::from("/var/lib")),
        false => of("XDG_STATE_HOME").or_else(|| of("HOME").map(|home| home.join(".local/state"))),
    };
    state.map(|state| state.join("quorate")).ok_or_else(|| ConfigError::Local {
        path: "~/.local/state/quorate".into(),
        reason: "this user has no home: set HOME or XDG_STATE_HOME to a path, or name a folder \
                 (ClientBuilder::local)"
            .into(),
    })
}

/// What the node and its worker share.
#[derive(Debug)]
struct Shared {
    path: PathBuf,
    label: String,
    clock: Clock,
    client: ClientId,
    who: Arc<str>,
    dialect: Dialect,
    /// How long a session lasts after the last contact. Whether a client is running is seen by its
    /// socket. This only removes what crashed clients have left.
    lifetime_ms: u64,
    events: Arc<NodeEvents>,
    status: Arc<Notify>,
    idle: Arc<IdleSignal>,
    observer: Option<Arc<dyn Observer>>,
    nonces: Nonces,
    queue: Queue,
}

impl Shared {
    fn new(path: PathBuf, context: LinkContext, queue: Queue) -> Self {
        let lifetime = context.max_ttl.saturating_add(SILENCE_MAX);
        Self {
            label: format!("local:{}", path.display()),
            path,
            clock: context.clock,
            client: context.client,
            who: context.who,
            dialect: context.dialect,
            lifetime_ms: u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX),
            events: context.events,
            status: context.status,
            idle: context.idle,
            observer: context.observer,
            nonces: context.nonces,
            queue,
        }
    }

    /// Stores the description of the client while it may have locks.
    fn introduction(&self) -> Command {
        let (client, who) = (self.client, self.who.clone());
        Command::Introduce { client, who, lifetime_ms: self.lifetime_ms }
    }

    /// A new session.
    fn fresh_session(&self) -> Result<Session, Fault> {
        let none = |it| Fault::new(&self.path, NodeError::from(it).to_string());
        self.nonces.session().map_err(none)
    }

    /// Notifies the observer, if there is one.
    fn notify_observer(&self, event: &Event<'_>) {
        observe::tell(self.observer.as_ref(), event);
    }
}

/// A folder as a node.
#[derive(Debug)]
struct LocalNode(Arc<Shared>);

impl Node for LocalNode {
    fn send(&self, request: Request, _now: Moment) -> Sent {
        self.0.queue.push(request)
    }

    fn pull(&self, work: &mut dyn Work, _how: Pull, _now: Moment) -> Pulled {
        self.0.queue.pull(work)
    }

    fn flush(&self) {
        self.0.queue.wake();
    }

    fn label(&self) -> &str {
        &self.0.label
    }

    fn node_error(&self) -> Option<NodeError> {
        match self.0.queue.phase() {
            Phase::Up => None,
            Phase::Down(node_error) => Some(node_error),
            Phase::Closed => Some(NodeError::ShutDown),
        }
    }

    fn connection(&self) -> u64 {
        self.0.queue.phases()
    }

    fn round_trip(&self) -> Duration {
        // There is no other node, so a short vote timeout has no use. One transaction in hundreds
        // waits for the disk.
        TRANSACTION_MAX
    }

    fn is_busy(&self) -> bool {
        self.0.queue.is_busy()
    }
}

/// Ends the worker when the engine ends.
struct Closer(Arc<Shared>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.queue.close();
        self.0.queue.wait_for_end(CLOSE_MAX);
    }
}

/// How long to wait until the folder is open.
const OPEN_MAX: Duration = Duration::from_secs(5);

/// How long to wait for the end of the worker.
const CLOSE_MAX: Duration = Duration::from_millis(100);

/// Longer than a transaction usually takes.
const TRANSACTION_MAX: Duration = Duration::from_millis(400);

/// How long a client may be silent between two heartbeats or renewals, besides its longest ttl.
const SILENCE_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_folder_is_where_users_keep_state() {
        let of = |settings: &'static [(&str, &str)]| {
            folder_of(false, |name| {
                let found = settings.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| value.into())
            })
        };
        let is = |path: &str| Ok(PathBuf::from(path));
        assert_eq!(folder_of(true, |_| None), is("/var/lib/quorate"));
        assert_eq!(of(&[("HOME", "/home/a")]), is("/home/a/.local/state/quorate"));
        assert_eq!(of(&[("HOME", "/home/a"), ("XDG_STATE_HOME", "/s")]), is("/s/quorate"));
        let relative = of(&[("HOME", "/home/a"), ("XDG_STATE_HOME", "s")]);
        assert_eq!(
            relative,
            is("/home/a/.local/state/quorate"),
            "the standard ignores relative paths"
        );
        let homeless = of(&[]).unwrap_err().to_string();
        assert!(homeless.contains("set HOME or XDG_STATE_HOME"), "{homeless}");
    }
}
