//! Turns the outputs of the core's state machines into requests, timers and wake-ups.
//!
//! Replies and timers are handled on the engine's own thread, so that user code cannot starve them.
//! The caller of a request queues it itself, and writes it if the link is idle.

mod answers;
mod call;
pub(crate) mod held;
mod inspect;
mod list_page;
mod names;
mod observers;
mod report;
mod run;
mod shared;
mod survey;
mod tagged;

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use quorate_core::{
    backoff::Jitter,
    client::{Client as Machine, Config, owners::Owners as _},
    command::{ClientId, Owner},
    dialect::Dialect,
    moment::Moment,
    queue::{Position, Tag},
    quorum::{NODES_MAX, NodeSet, majority},
    terms::vote_timeout,
};
use tokio::sync::Notify;

pub(crate) use quorate_core::client::owners::OwnerKind;

use self::names::Names;
pub(crate) use self::{
    call::{Call, Claim, Ended, Machine as Asking},
    inspect::{inspect, inspect_all},
    list_page::list_page,
    run::{Running, Where},
    shared::Shared,
    survey::survey,
    tagged::tagged,
};
use crate::{
    clock::Clock,
    error::{NodeAnswer, NodeReport},
    node::{IdleSignal, Node},
    nonces::OwnerKey,
    observe::{self, Event, Observer},
    timers::{Sleep, Timers},
};

/// The state that all parts of one client share.
pub(crate) struct Engine {
    pub(crate) nodes: Box<[Box<dyn Node>]>,
    pub(crate) clock: Clock,
    pub(crate) timers: Arc<Timers>,
    /// Everything that the client decides.
    shared: Mutex<Shared>,
    pub(crate) dialect: Dialect,
    observer: Option<Arc<dyn Observer>>,
    /// Notified when a link comes up or goes down.
    pub(crate) status: Arc<Notify>,
    pub(crate) is_closed: AtomicBool,
    pub(crate) client: ClientId,
    /// Begins at a random number, so that clients which share an observer have different numbers.
    rounds: AtomicU64,
    /// The number of calls that may still acquire a lock.
    calls: AtomicUsize,
    idle: Arc<IdleSignal>,
    jitter: Mutex<Jitter>,
    vote_timeout: Option<Duration>,
}

impl Engine {
    pub(crate) fn new(settings: Settings, nodes: Vec<Box<dyn Node>>) -> Self {
        let mut seeds = Jitter::new(settings.jitter_seed);
        let jitter = Jitter::new(seeds.next());
        let Settings { client, has_sessions, max_ttl, .. } = settings;
        let config = Config { client, nodes: nodes.len(), has_sessions, max_ttl };
        let names = Names::new(client, settings.owner_key, settings.who);
        let mut machine = Machine::new(config, names, jitter);
        if let Some((time_us, at)) = settings.node_time {
            (0..nodes.len()).for_each(|node| machine.handle_time(node, time_us, at));
        }
        Self {
            shared: Mutex::new(Shared::new(machine)),
            dialect: settings.dialect,
            clock: settings.clock,
            timers: Arc::default(),
            observer: settings.observer,
            status: settings.status,
            is_closed: AtomicBool::new(false),
            client,
            rounds: AtomicU64::new(settings.first_round),
            calls: AtomicUsize::new(0),
            idle: settings.idle,
            jitter: Mutex::new(seeds),
            vote_timeout: settings.vote_timeout,
            nodes: nodes.into(),
        }
    }

    /// A new owner that replaces another holder and is never queued.
    pub(crate) fn next_owner(&self, ttl_ms: u64, kind: &OwnerKind, now: Moment) -> Owner {
        self.lock().machine.naming().next_holder(self.dialect, ttl_ms, kind, now)
    }

    /// A new owner of this client with the same position as this one.
    pub(crate) fn owner_beside(&self, owner: &Owner, ttl_ms: u64, now: Moment) -> Owner {
        match Position::of(owner.as_bytes()) {
            Some(place) => self.lock().machine.naming().next_owner(&place, &OwnerKind::of(owner)),
            None => self.next_owner(ttl_ms, &OwnerKind::default(), now),
        }
    }

    /// A new owner with the same position, which other processes find by its tag.
    pub(crate) fn tagged_owner(&self, owner: &Owner, tag: Tag) -> Option<Owner> {
        let kind = OwnerKind { tag: Some(tag), ..OwnerKind::of(owner) };
        let place = Position::of(owner.as_bytes())?;
        Some(self.lock().machine.naming().next_owner(&place, &kind))
    }

    /// Notifies the observer, if there is one.
    pub(crate) fn notify_observer(&self, event: &Event<'_>) {
        observe::tell(self.observer.as_ref(), event);
    }

    pub(crate) const fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    /// The number of the next round.
    pub(crate) fn next_round(&self) -> u64 {
        self.rounds.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a call that may acquire a lock, until the result is dropped.
    pub(crate) fn enter_call(&self) -> Entered<'_> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Entered(self)
    }

    /// Whether something is outstanding that a shutdown should wait for.
    pub(crate) fn is_busy(&self) -> bool {
        self.calls.load(Ordering::SeqCst) > 0
            || self.nodes.iter().any(|node| node.is_busy())
            || self.lock().machine.is_owing(self.now())
    }

    /// Draws a random value.
    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Jitter) -> T) -> T {
        draw(&mut self.jitter.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How long to wait for a silent node.
    pub(crate) fn vote_timeout(&self, ttl: Duration) -> Duration {
        self.vote_timeout.unwrap_or_else(|| self.usual_vote_timeout(ttl))
    }

    /// The vote timeout unless one is configured. It depends on the round trip to a majority.
    fn usual_vote_timeout(&self, ttl: Duration) -> Duration {
        let mut trips = [Duration::ZERO; NODES_MAX];
        let trips = &mut trips[..self.nodes.len()];
        trips.iter_mut().zip(&self.nodes).for_each(|(trip, node)| *trip = node.round_trip());
        trips.sort_unstable();
        vote_timeout(ttl, trips[majority(trips.len()) - 1])
    }

    /// The nodes that can be reached now.
    fn reachable(&self) -> NodeSet {
        let mut nodes = NodeSet::EMPTY;
        let up = self.nodes.iter().enumerate().filter(|(_, node)| node.node_error().is_none());
        up.for_each(|(number, _)| nodes.insert(number));
        nodes
    }

    /// The state of each node, attached or not.
    pub(crate) fn reports(&self) -> Box<[NodeReport]> {
        let answer = |node: &dyn Node| match (node.node_error(), node.why_not_yet()) {
            (Some(node_error), _) => NodeAnswer::NodeError(node_error),
            (None, Some(why)) => NodeAnswer::Ready(why.to_owned()),
            (None, None) => NodeAnswer::Attached,
        };
        self.nodes.iter().map(|node| NodeReport::new(node.label(), answer(&**node))).collect()
    }

    /// A future that completes at this moment.
    pub(crate) fn sleep_until(&self, at: Moment) -> Sleep {
        Sleep::until(&self.timers, at)
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<&str> = self.nodes.iter().map(|node| node.label()).collect();
        let mut shown = f.debug_struct("Engine");
        shown.field("nodes", &nodes).field("timers", &self.timers).finish_non_exhaustive()
    }
}

/// A call that may acquire a lock.
#[derive(Debug)]
pub(crate) struct Entered<'a>(&'a Engine);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::SeqCst);
        self.0.idle.notify();
    }
}

/// The settings of an engine, besides its nodes.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) clock: Clock,
    pub(crate) status: Arc<Notify>,
    pub(crate) idle: Arc<IdleSignal>,
    pub(crate) client: ClientId,
    pub(crate) owner_key: OwnerKey,
    pub(crate) who: Arc<str>,
    pub(crate) dialect: Dialect,
    pub(crate) has_sessions: bool,
    pub(crate) max_ttl: Duration,
    /// The times of all nodes, if they are known without asking them.
    pub(crate) node_time: Option<(u64, Moment)>,
    /// For delays only.
    pub(crate) jitter_seed: u64,
    /// Shown to observers, and used for nothing else.
    pub(crate) first_round: u64,
    pub(crate) vote_timeout: Option<Duration>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

#[cfg(test)]
mod lease_tests;
