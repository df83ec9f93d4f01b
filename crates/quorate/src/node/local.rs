//! A node without a server: many processes of one machine share a folder.
//!
//! The node is the core's store, kept in an SQLite file in parts. Each client has a thread that
//! runs what is asked, in transactions of its own, and a socket in the folder on which it is told
//! what it did not ask for. Nobody else is needed: there is no daemon, and a process that dies
//! leaves nothing half done.

mod db;
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

/// What a client brings along.
#[derive(Debug)]
pub(crate) struct LinkContext {
    pub(crate) clock: Clock,
    pub(crate) client: ClientId,
    pub(crate) who: Arc<str>,
    pub(crate) dialect: Dialect,
    pub(crate) max_ttl: Duration,
    pub(crate) events: Arc<NodeEvents>,
    /// Told whenever the folder can be used again, or cannot any more.
    pub(crate) status: Arc<Notify>,
    pub(crate) idle: Arc<IdleSignal>,
    /// For delays only.
    pub(crate) jitter_seed: u64,
    pub(crate) nonces: Nonces,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

/// A folder as a node.
pub(crate) struct Opened {
    pub(crate) node: Box<dyn Node>,
    /// What keeps its worker alive.
    pub(crate) driver: Driver,
    /// How far the node's time is ahead of the client's, if that is known already.
    pub(crate) ahead_us: Option<i64>,
}

/// Opens a folder as a node.
pub(crate) fn open(path: &Path, around: LinkContext) -> Result<Opened, ConfigError> {
    let refused =
        |what, error: std::io::Error| ConfigError::System { what, reason: error.to_string() };
    let boot = Boot::of_this_process()?;
    // Whoever goes to another folder later means the same one.
    let path =
        std::path::absolute(path).map_err(|error| Fault::io(path, "it is no path", error))?;
    let seed = around.jitter_seed;
    let queue = Queue::new().map_err(|error| refused("an event", error))?;
    let shared = Arc::new(Shared::new(path, around, queue));
    let closer = Closer(shared.clone());
    let (first, opened) = mpsc::sync_channel(1);
    let worker = Worker::new(shared.clone(), boot, seed, first);
    let thread = thread::Builder::new().name("quorate-local".into());
    thread.spawn(move || worker.run()).map_err(|error| refused("a thread", error))?;
    let ahead_us = match opened.recv_timeout(OPEN_MAX) {
        Ok(opened) => Some(opened?),
        // Somebody was stopped in the middle of its turn. It will be told as long as that lasts.
        Err(_) => None,
    };
    let driver = Box::pin(async move {
        let _closer = closer;
        std::future::pending::<()>().await;
    });
    Ok(Opened { node: Box::new(LocalNode(shared)), driver, ahead_us })
}

/// The folder for those who do not name one.
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
    /// How long a session lasts if it is not heard of. Whether a client is there is seen by its
    /// socket: this is for throwing out what the dead have left.
    lifetime_ms: u64,
    events: Arc<NodeEvents>,
    status: Arc<Notify>,
    idle: Arc<IdleSignal>,
    observer: Option<Arc<dyn Observer>>,
    nonces: Nonces,
    queue: Queue,
}

impl Shared {
    fn new(path: PathBuf, around: LinkContext, queue: Queue) -> Self {
        let life = around.max_ttl.saturating_add(SILENCE_MAX);
        Self {
            label: format!("local:{}", path.display()),
            path,
            clock: around.clock,
            client: around.client,
            who: around.who,
            dialect: around.dialect,
            lifetime_ms: u64::try_from(life.as_millis()).unwrap_or(u64::MAX),
            events: around.events,
            status: around.status,
            idle: around.idle,
            observer: around.observer,
            nonces: around.nonces,
            queue,
        }
    }

    /// Says who the client is, for as long as a lock of its may be there.
    fn introduction(&self) -> Command {
        let (client, who) = (self.client, self.who.clone());
        Command::Introduce { client, who, lifetime_ms: self.lifetime_ms }
    }

    /// Tells the observer, if there is one.
    /// A session that nobody has had.
    fn fresh_session(&self) -> Result<Session, Fault> {
        let none = |it| Fault::new(&self.path, NodeError::from(it).to_string());
        self.nonces.session().map_err(none)
    }

    fn tell(&self, event: &Event<'_>) {
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
        self.0.queue.ring();
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
        // No other node could go on without this one, so there is no use in giving it up early;
        // and one turn in hundreds waits for the disk.
        TURN_MAX
    }

    fn is_busy(&self) -> bool {
        self.0.queue.is_busy()
    }
}

/// Ends the worker when the engine goes.
struct Closer(Arc<Shared>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.queue.close();
        self.0.queue.wait_for_end(CLOSE_MAX);
    }
}

/// How long the first turn is waited for.
const OPEN_MAX: Duration = Duration::from_secs(5);

/// How long the worker is waited for at the end.
const CLOSE_MAX: Duration = Duration::from_millis(100);

/// Longer than a turn takes as a rule.
const TURN_MAX: Duration = Duration::from_millis(400);

/// How long a client may be silent between two heartbeats or renewals, besides its longest ttl.
const SILENCE_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_folder_is_where_users_keep_state() {
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
        assert_eq!(relative, is("/home/a/.local/state/quorate"), "as the standard has it");
        let homeless = of(&[]).unwrap_err().to_string();
        assert!(homeless.contains("set HOME or XDG_STATE_HOME"), "{homeless}");
    }
}
