//! The connection of one client to one node in memory.

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

/// The settings of a client.
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

/// The connection of one client to one node.
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
    /// When the session was last renewed.
    renewed_at: Moment,
    /// Why the node cannot be used, if so.
    node_error: Option<NodeError>,
    /// How often the client was attached or detached.
    connections: u64,
}

impl Member {
    pub(super) fn new(number: usize, view: &View, cell: &Arc<Cell>) -> Arc<Self> {
        let state = State {
            session: Session::UNSET,
            renewed_at: Moment::ZERO,
            node_error: None,
            connections: 0,
        };
        let (view, cell) = (view.clone(), Arc::downgrade(cell));
        Arc::new(Self { number, view, cell, state: Mutex::new(state) })
    }

    /// Starts a session, if the client needs one, and receives pushes.
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
            state.renewed_at = now;
            let sender = Sender { client: *client, session: state.session };
            store.subscribe(*client);
            let (client, who, lifetime_ms) = (*client, who.clone(), FOREVER_MS);
            store.apply(node_time(now), &Command::Introduce { client, who, lifetime_ms });
            let terms = SessionTerms::without_membership(lifetime_ms);
            store.apply(node_time(now), &Command::Attach { sender, terms });
        }
    }

    /// Puts the session into a command, and renews the session from time to time.
    pub(super) fn set_session(&self, store: &mut Store, command: &mut Command) {
        if !self.view.dialect.has_queue() {
            return;
        }
        let mut state = self.lock();
        let (now, session) = (self.view.clock.now(), state.session);
        if now.saturating_since(state.renewed_at) >= PING_EVERY {
            state.renewed_at = now;
            let sender = Sender { client: self.view.client, session };
            let ping =
                Command::Ping { sender, terms: SessionTerms::without_membership(FOREVER_MS) };
            store.apply(node_time(now), &ping);
        }
        command.set_session(session);
    }

    /// Disconnects the client.
    pub(super) fn detach(&self, node_error: NodeError) {
        let mut state = self.lock();
        state.node_error = Some(node_error);
        state.connections += 1;
        drop(state);
        self.notify(NodeEvent::Down { is_forgotten: false });
    }

    pub(super) fn node_error(&self) -> Option<NodeError> {
        self.lock().node_error.clone()
    }

    pub(super) fn connection(&self) -> u64 {
        self.lock().connections
    }

    /// Delivers an event on the engine's own thread: the engine may be the caller of this.
    pub(super) fn notify(&self, kind: NodeEvent) {
        self.view.events.enqueue(self.number, kind, self.view.clock.now());
    }

    /// Checks for unanswered requests at `at`, as a link does.
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
            cell.check_timeout(&self, self.view.clock.now());
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
        while let Some(request) = work.next(|_, _| true) {
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

/// A session is renewed this often at most.
const PING_EVERY: Duration = Duration::from_secs(1);

/// Sessions end only with their clients, because the node knows which clients exist.
const FOREVER_MS: u64 = 1 << 40;
