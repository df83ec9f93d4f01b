//! Turns the outputs of the core's machines into requests, timers and wake-ups.
//!
//! Answers and timers are handled on the engine's own thread, so that no user code can starve
//! them. Requests are queued, and on an idle link written, by whoever makes them.

mod attempt;
mod run;
mod survey;
mod timers;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use quorate_core::{
    backoff::Jitter,
    command::{ClientId, Owner},
    moment::Moment,
    quorum::{NODES_MAX, majority},
    terms::vote_timeout,
};
use tokio::sync::Notify;

pub(crate) use self::{
    attempt::{Attempt, Ended, Machine},
    run::{Driver, Place, Quiet, Running},
    survey::survey,
    timers::{FOREVER, Sleep, Timed, Timers},
};
use crate::{
    clock::Clock,
    error::{NodeAnswer, NodeReport},
    keeper::Keeper,
    node::Node,
    observe::{Event, Observer},
};

/// What all parts of one client share.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) nodes: Box<[Box<dyn Node>]>,
    pub(crate) clock: Clock,
    pub(crate) timers: Timers,
    pub(crate) keeper: Keeper,
    observer: Option<Arc<dyn Observer>>,
    /// Told whenever a link comes up or goes down.
    pub(crate) status: Arc<Notify>,
    pub(crate) is_closed: AtomicBool,
    client: ClientId,
    who: String,
    sequence: AtomicU64,
    rounds: AtomicU64,
    jitter: Mutex<Jitter>,
    vote_timeout: Option<Duration>,
}

impl Engine {
    pub(crate) fn new(settings: Settings, nodes: Vec<Box<dyn Node>>) -> Self {
        Self {
            nodes: nodes.into(),
            clock: settings.clock,
            timers: Timers::default(),
            keeper: Keeper::default(),
            observer: settings.observer,
            status: settings.status,
            is_closed: AtomicBool::new(false),
            client: settings.client,
            who: settings.who,
            sequence: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            jitter: Mutex::new(Jitter::new(settings.jitter_seed)),
            vote_timeout: settings.vote_timeout,
        }
    }

    /// An owner that nobody has had before.
    pub(crate) fn next_owner(&self) -> Owner {
        let number = self.sequence.fetch_add(1, Ordering::Relaxed);
        Owner::new(&self.client, number, &self.who)
    }

    /// Tells the observer, if there is one.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        if let Some(observer) = &self.observer {
            observer.observe(event);
        }
    }

    pub(crate) const fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    /// A number for the next round of asking all nodes.
    pub(crate) fn next_round(&self) -> u64 {
        self.rounds.fetch_add(1, Ordering::Relaxed)
    }

    /// Draws something at random.
    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Jitter) -> T) -> T {
        draw(&mut self.jitter.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How long silent nodes are waited for, with the round trip of the majority in mind.
    pub(crate) fn vote_timeout(&self, ttl: Duration) -> Duration {
        self.vote_timeout.unwrap_or_else(|| {
            let mut trips = [Duration::ZERO; NODES_MAX];
            let trips = &mut trips[..self.nodes.len()];
            trips.iter_mut().zip(&self.nodes).for_each(|(trip, node)| *trip = node.round_trip());
            trips.sort_unstable();
            vote_timeout(ttl, trips[majority(trips.len()) - 1])
        })
    }

    /// What each node is up to, attached or not.
    pub(crate) fn reports(&self) -> Box<[NodeReport]> {
        let answer = |node: &dyn Node| match node.trouble() {
            Some(trouble) => NodeAnswer::Trouble(trouble),
            None => NodeAnswer::Attached,
        };
        self.nodes.iter().map(|node| NodeReport::new(node.label(), answer(&**node))).collect()
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }
}

/// What an engine needs besides its nodes.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) clock: Clock,
    pub(crate) status: Arc<Notify>,
    pub(crate) client: ClientId,
    pub(crate) who: String,
    pub(crate) jitter_seed: u64,
    pub(crate) vote_timeout: Option<Duration>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}
