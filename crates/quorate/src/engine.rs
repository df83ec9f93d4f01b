//! Turns the outputs of the core's machines into requests, timers and wake-ups.
//!
//! Answers and timers are handled on the engine's own thread, so that no user code can starve
//! them. Requests are queued, and on an idle link written, by whoever makes them.

mod attempt;
mod contender;
mod heartbeats;
mod inspect;
mod line;
mod list_page;
mod report;
mod run;
mod survey;
mod tagged;
mod timers;
mod wait;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use quorate_core::{
    backoff::Jitter,
    client::{owners::Owners, round::Asker},
    command::{ClientId, Owner},
    line::{Place, Request, Session, Speaker, Tag},
    moment::Moment,
    quorum::{NODES_MAX, NodeSet, majority},
    terms::vote_timeout,
    tickets::Tickets,
};
use tokio::sync::Notify;

pub(crate) use quorate_core::client::owners::OwnerKind;

pub(crate) use self::{
    attempt::{Attempt, Claim, Ended, Machine},
    contender::{Contender, Ended as Contended},
    inspect::{inspect, inspect_all, list},
    line::{Ears, Line, News, forget_everywhere},
    list_page::list_page,
    run::{Driver, Quiet, Running, Where},
    survey::survey,
    tagged::tagged,
    timers::{Sleep, Timed, Timers},
};
use crate::{
    clock::Clock,
    error::{NodeAnswer, NodeReport},
    node::Node,
    nonces::OwnerKey,
    observe::{self, Event, Observer},
    watchdog::Watchdog,
};

/// What all parts of one client share.
pub(crate) struct Engine {
    pub(crate) nodes: Box<[Box<dyn Node>]>,
    pub(crate) clock: Clock,
    pub(crate) timers: Arc<Timers>,
    pub(crate) watchdog: Watchdog,
    pub(crate) line: Line,
    pub(crate) mode: Mode,
    /// The nodes know our sessions, without which they do not vote.
    has_sessions: bool,
    /// See [`Self::order_extensions`].
    extending: Mutex<()>,
    observer: Option<Arc<dyn Observer>>,
    /// Told whenever a link comes up or goes down.
    pub(crate) status: Arc<Notify>,
    pub(crate) is_closed: AtomicBool,
    client: ClientId,
    owner_key: OwnerKey,
    who: Arc<str>,
    sequence: AtomicU64,
    /// Begins anywhere, so that clients which share an observer do not speak of each other's.
    rounds: AtomicU64,
    /// Calls that may still win a lock.
    calls: AtomicUsize,
    quiet: Arc<Quiet>,
    jitter: Mutex<Jitter>,
    vote_timeout: Option<Duration>,
}

impl Engine {
    pub(crate) fn new(settings: Settings, nodes: Vec<Box<dyn Node>>) -> Self {
        let mut tickets = Tickets::new(nodes.len());
        if let Some((time_us, at)) = settings.node_time {
            (0..nodes.len()).for_each(|node| tickets.handle_time(node, time_us, at));
        }
        let speaker = Speaker { client: settings.client, session: Session::UNSET };
        let mut seeds = Jitter::new(settings.jitter_seed);
        let jitter = Jitter::new(seeds.next());
        Self {
            line: Line::new(nodes.len(), tickets, settings.max_ttl),
            mode: settings.mode,
            has_sessions: settings.has_sessions,
            clock: settings.clock,
            timers: Arc::default(),
            watchdog: Watchdog::new(nodes.len(), speaker, settings.has_sessions, jitter),
            extending: Mutex::new(()),
            observer: settings.observer,
            status: settings.status,
            is_closed: AtomicBool::new(false),
            client: settings.client,
            owner_key: settings.owner_key,
            who: settings.who,
            sequence: AtomicU64::new(0),
            rounds: AtomicU64::new(settings.first_round),
            calls: AtomicUsize::new(0),
            quiet: settings.quiet,
            jitter: Mutex::new(seeds),
            vote_timeout: settings.vote_timeout,
            nodes: nodes.into(),
        }
    }

    /// Held from numbering an extension until it is queued on every node: they must reach the nodes
    /// in the order of their numbers.
    pub(crate) fn order_extensions(&self) -> MutexGuard<'_, ()> {
        self.extending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An owner that nobody has had before.
    pub(crate) fn next_owner(&self, ttl_ms: u64, kind: &OwnerKind, now: Moment) -> Owner {
        match self.mode {
            Mode::Classic => {
                let who = kind.label.as_deref().unwrap_or(&self.who);
                Owner::new(&self.client, self.next_number(), who)
            }
            Mode::Line => {
                // It takes the place of another holder, and never stands in the queue.
                let ticket = self.line.draw_ticket(now).unwrap_or(0);
                self.owner_at(&Place { ticket, ttl_ms, client: self.client }, kind)
            }
        }
    }

    /// Another owner of ours with the same place as this one, which nobody has had before.
    pub(crate) fn owner_beside(&self, owner: &Owner, ttl_ms: u64, now: Moment) -> Owner {
        match Place::of(owner.as_bytes()) {
            Some(place) => self.owner_at(&place, &OwnerKind::of(owner)),
            None => self.next_owner(ttl_ms, &OwnerKind::default(), now),
        }
    }

    /// The same, and other processes find it by its tag.
    pub(crate) fn tagged_owner(&self, owner: &Owner, tag: Tag) -> Option<Owner> {
        let kind = OwnerKind { tag: Some(tag), ..OwnerKind::of(owner) };
        Some(self.owner_at(&Place::of(owner.as_bytes())?, &kind))
    }

    /// An owner that nobody has had before, with this place in line.
    fn owner_at(&self, place: &Place, kind: &OwnerKind) -> Owner {
        let number = self.next_number();
        // Whoever knows one owner of this client must not know the others.
        let secret = Some(self.owner_key.secret(number));
        let OwnerKind { is_shared, tag, ref label } = *kind;
        place.owner_of(&Request { number, secret, tag, label: label.as_deref(), is_shared })
    }

    fn next_number(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    /// Who speaks to the nodes. Each puts in the session of its own connection.
    pub(crate) const fn speaker(&self) -> Speaker {
        Speaker { client: self.client, session: Session::UNSET }
    }

    /// Who asks in rounds.
    const fn asker(&self) -> Asker {
        let (client, has_sessions) = (self.client, self.has_sessions);
        Asker { client, has_sessions, max_ttl: self.line.max_ttl() }
    }

    /// Tells the observer, if there is one.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        observe::tell(self.observer.as_ref(), event);
    }

    pub(crate) const fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    /// A number for the next round of asking all nodes.
    pub(crate) fn next_round(&self) -> u64 {
        self.rounds.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a call that may win a lock, until what is returned is dropped.
    pub(crate) fn enter_call(&self) -> Call<'_> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Call(self)
    }

    /// True while something is under way that a shutdown should wait for.
    pub(crate) fn is_busy(&self) -> bool {
        self.calls.load(Ordering::SeqCst) > 0 || self.nodes.iter().any(|node| node.is_busy())
    }

    /// Draws something at random.
    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Jitter) -> T) -> T {
        draw(&mut self.jitter.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How long silent nodes are waited for.
    pub(crate) fn vote_timeout(&self, ttl: Duration) -> Duration {
        self.vote_timeout.unwrap_or_else(|| self.usual_vote_timeout(ttl))
    }

    /// How long they are waited for if nobody says otherwise, with the round trip of the majority
    /// in mind.
    fn usual_vote_timeout(&self, ttl: Duration) -> Duration {
        let mut trips = [Duration::ZERO; NODES_MAX];
        let trips = &mut trips[..self.nodes.len()];
        trips.iter_mut().zip(&self.nodes).for_each(|(trip, node)| *trip = node.round_trip());
        trips.sort_unstable();
        vote_timeout(ttl, trips[majority(trips.len()) - 1])
    }

    /// The nodes that can be asked right now.
    fn reachable(&self) -> NodeSet {
        let mut nodes = NodeSet::EMPTY;
        let up = self.nodes.iter().enumerate().filter(|(_, node)| node.trouble().is_none());
        up.for_each(|(number, _)| nodes.insert(number));
        nodes
    }

    /// What each node is up to, attached or not.
    pub(crate) fn reports(&self) -> Box<[NodeReport]> {
        let answer = |node: &dyn Node| match (node.trouble(), node.why_not_yet()) {
            (Some(trouble), _) => NodeAnswer::Trouble(trouble),
            (None, Some(why)) => NodeAnswer::Ready(why.to_owned()),
            (None, None) => NodeAnswer::Attached,
        };
        self.nodes.iter().map(|node| NodeReport::new(node.label(), answer(&**node))).collect()
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

/// How locks are waited for, and what is stored for them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// In line on the nodes, with fences.
    Line,
    /// By asking again and again, as Redlock says.
    Classic,
}

/// A call that may win a lock.
#[derive(Debug)]
pub(crate) struct Call<'a>(&'a Engine);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::SeqCst);
        self.0.quiet.tell();
    }
}

impl Owners for &Engine {
    fn client(&self) -> ClientId {
        self.client
    }

    fn draw_ticket(&mut self, came_at: Moment) -> Option<u64> {
        self.line.draw_ticket(came_at)
    }

    fn next_owner(&mut self, place: &Place, kind: &OwnerKind) -> Owner {
        self.owner_at(place, kind)
    }
}

/// What an engine needs besides its nodes.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) clock: Clock,
    pub(crate) status: Arc<Notify>,
    pub(crate) quiet: Arc<Quiet>,
    pub(crate) client: ClientId,
    pub(crate) owner_key: OwnerKey,
    pub(crate) who: Arc<str>,
    pub(crate) mode: Mode,
    pub(crate) has_sessions: bool,
    pub(crate) max_ttl: Duration,
    /// What the clocks of all nodes showed, and when, if that is known without asking them.
    pub(crate) node_time: Option<(u64, Moment)>,
    /// For delays only.
    pub(crate) jitter_seed: u64,
    /// Shown to observers: nothing else may follow from it.
    pub(crate) first_round: u64,
    pub(crate) vote_timeout: Option<Duration>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}
