//! One client at one node in memory: what a connection is elsewhere.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use quorate_core::{
    command::{ClientId, Command, SessionTerms},
    dialect::Dialect,
    moment::Moment,
    queue::{Sender, Session},
    store::Store,
};

use super::cell::Cell;
use crate::{
    clock::{Clock, node_time},
    error::NodeError,
    node::{IdleSignal, Node, NodeEvent, NodeEvents, Pull, Pulled, Request, Sent, Work},
    nonces::Nonces,
    timers::Timed,
};

/// What a client brings along.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) clock: Clock,
    pub(crate) client: ClientId,
    pub(crate) who: Arc<str>,
    pub(crate) dialect: Dialect,
    pub(crate) idle: Arc<IdleSignal>,
    pub(crate) events: Arc<NodeEvents>,
    pub(crate) nonces: Nonces,
}

/// One client at one node.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) number: usize,
    pub(super) view: View,
    pub(super) cell: Weak<Cell>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    session: Session,
    /// When the node last heard of the session.
    heard_at: Moment,
    /// Why nothing can be asked, if so.
    node_error: Option<NodeError>,
    /// How often it was attached and detached.
    connections: u64,
}

impl Member {
    pub(super) fn new(number: usize, view: &View, cell: &Arc<Cell>) -> Arc<Self> {
        let state = State {
            session: Session::UNSET,
            heard_at: Moment::ZERO,
            node_error: None,
            connections: 0,
        };
        let (view, cell) = (view.clone(), Arc::downgrade(cell));
        Arc::new(Self { number, view, cell, state: Mutex::new(state) })
    }

    /// Begins a session anew, if the client needs one, and listens.
    pub(super) fn attach(&self, store: &mut Store) {
        let View { clock, client, who, dialect, nonces, .. } = &self.view;
        let now = clock.now();
        let mut state = self.lock();
        state.node_error = None;
        state.connections += 1;
        if dialect.has_queue() {
            match nonces.session() {
                Ok(session) => state.session = session,
                Err(none) => {
                    state.node_error = Some(none.into());
                    return;
                }
            }
            state.heard_at = now;
            let sender = Sender { client: *client, session: state.session };
            store.subscribe(*client);
            let (client, who, lifetime_ms) = (*client, who.clone(), FOR_EVER_MS);
            store.apply(node_time(now), &Command::Introduce { client, who, lifetime_ms });
            let terms = SessionTerms::without_membership(lifetime_ms);
            store.apply(node_time(now), &Command::Attach { sender, terms });
        }
    }

    /// Says a command with the session of today, which the node hears of now and then.
    pub(super) fn speak(&self, store: &mut Store, command: &mut Command) {
        if !self.view.dialect.has_queue() {
            return;
        }
        let mut state = self.lock();
        let (now, session) = (self.view.clock.now(), state.session);
        if now.saturating_since(state.heard_at) >= PING_EVERY {
            state.heard_at = now;
            let sender = Sender { client: self.view.client, session };
            let ping =
                Command::Ping { sender, terms: SessionTerms::without_membership(FOR_EVER_MS) };
            store.apply(node_time(now), &ping);
        }
        command.set_session(session);
    }

    /// Nothing can be asked from now on.
    pub(super) fn detach(&self, node_error: NodeError) {
        let mut state = self.lock();
        state.node_error = Some(node_error);
        state.connections += 1;
        drop(state);
        self.tell(NodeEvent::Down { is_forgotten: false });
    }

    pub(super) fn node_error(&self) -> Option<NodeError> {
        self.lock().node_error.clone()
    }

    /// Tells the client's engine, on its own thread: we may have been called by it.
    pub(super) fn connection(&self) -> u64 {
        self.lock().connections
    }

    pub(super) fn tell(&self, kind: NodeEvent) {
        self.view.events.enqueue(self.number, kind, self.view.clock.now());
    }

    /// Looks after unanswered requests, as a link does.
    pub(super) fn watch(self: &Arc<Self>, at: Moment) {
        let weak: Weak<Self> = Arc::downgrade(self);
        self.view.events.call_at(at, weak);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timed for Member {
    fn handle_timeout(self: Arc<Self>, _now: Moment) {
        if let Some(cell) = self.cell.upgrade() {
            cell.look(&self, self.view.clock.now());
        }
    }
}

/// A node as a client sees it.
#[derive(Debug)]
pub(crate) struct MemoryNode {
    pub(super) cell: Arc<Cell>,
    pub(super) member: Arc<Member>,
}

impl Node for MemoryNode {
    fn send(&self, request: Request, _now: Moment) -> Sent {
        match self.cell.send(&self.member, request) {
            Some((_, answer)) => Sent::Answered(answer),
            None => Sent::Queued,
        }
    }

    fn pull(&self, work: &mut dyn Work, _how: Pull, _now: Moment) -> Pulled {
        while let Some(request) = work.next(|_| true) {
            let connection = self.member.connection();
            if let Some((request, answer)) = self.cell.send(&self.member, request) {
                work.answer(request, answer, connection);
            }
        }
        Pulled::Answered
    }

    fn flush(&self) {}

    fn label(&self) -> &str {
        self.cell.label()
    }

    fn node_error(&self) -> Option<NodeError> {
        self.member.node_error()
    }

    fn connection(&self) -> u64 {
        self.member.connection()
    }

    fn round_trip(&self) -> Duration {
        Duration::ZERO
    }

    fn is_busy(&self) -> bool {
        self.cell.is_busy()
    }
}

impl Drop for MemoryNode {
    fn drop(&mut self) {
        self.cell.leave(&self.member);
    }
}

/// The node hears of a session so often at most.
const PING_EVERY: Duration = Duration::from_secs(1);

/// Who listens is known without asking, so sessions end with their clients only.
const FOR_EVER_MS: u64 = 1 << 40;
