//! The connection of one client to one node, and the messages in flight.

use std::{
    collections::VecDeque,
    hash::{Hash, Hasher},
    sync::Arc,
};

use quorate_core::{
    acquire::NodeAction,
    client::{About, Transmit},
    command::Reply,
    moment::Moment,
    queue::Push,
};

use super::print::{Plain, plain};

/// The connections of one client to one node, one after the other, each with its session.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Link {
    pub(super) phase: Phase,
    /// The number of the session that the client uses.
    pub(super) session: u8,
    pub(super) requests: VecDeque<Arc<Request>>,
    pub(super) answers: VecDeque<Message>,
    /// Pushes, where these are not ordered with replies.
    pub(super) pushes: VecDeque<Message>,
    /// The requests that were in flight when a connection broke, with its session. The node may
    /// still run any prefix of them, at any time.
    pub(super) stale: Vec<(u8, VecDeque<Arc<Request>>)>,
    /// The node knows a session of the client.
    pub(super) is_known: bool,
    /// The node has registered that the client listens on this connection.
    pub(super) is_subscribed: bool,
    /// The node has not noticed yet that an older connection is closed: its pushes there are lost.
    pub(super) is_half_open: bool,
}

/// The state of a connection, as its client knows it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Phase {
    Down,
    Attaching,
    Up,
}

/// A message in flight to a node.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// `None` begins a session.
    pub(super) transmit: Option<Transmit>,
    /// Its fingerprint without the time. A call is identified by its owner.
    print: u64,
    /// The fingerprint with the number of the call.
    exact: u64,
    /// When it was sent, if that has an effect.
    sent_at: Option<Moment>,
}

impl Request {
    pub(super) const fn attach() -> Self {
        Self { transmit: None, print: 0, exact: 0, sent_at: None }
    }

    pub(super) fn new(transmit: Transmit) -> Self {
        let Transmit { about, command } = &transmit;
        let (print, sent_at) = match about {
            About::Waiter(question) => {
                let call = (question.node_call, question.is_first);
                let is_asked = question.node_call.action != NodeAction::Release;
                (plain(&(call, command)), is_asked.then_some(question.sent_at))
            }
            About::Round(_) => (plain(&(0_u8, command)), None),
            // The end of a release matters only if its connection breaks as well.
            About::Debt(_) => (plain(&(1_u8, command)), None),
            about => (plain(&(about, command)), None),
        };
        let exact = plain(&(about, command));
        Self { transmit: Some(transmit), print, exact, sent_at }
    }

    pub(super) const fn is_attach(&self) -> bool {
        self.transmit.is_none()
    }

    pub(super) const fn print(&self) -> u64 {
        self.print
    }

    pub(super) const fn exact(&self) -> u64 {
        self.exact
    }

    /// What a waiter asks for.
    pub(super) fn action(&self) -> Option<NodeAction> {
        match &self.transmit.as_ref()?.about {
            About::Waiter(question) => Some(question.node_call.action),
            _ => None,
        }
    }
}

impl PartialEq for Request {
    fn eq(&self, other: &Self) -> bool {
        self.print == other.print && self.sent_at == other.sent_at
    }
}

impl Hash for Request {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Plain(self.print).hash(state);
        self.sent_at.hash(state);
    }
}

/// A message in flight to a client.
#[derive(Clone, Debug, Hash, PartialEq)]
pub(super) enum Message {
    Reply(Arc<Request>, Reply),
    Push(Push),
}

impl Link {
    /// Attached, with nothing on the way.
    pub(super) const fn new() -> Self {
        Self {
            phase: Phase::Up,
            session: 1,
            requests: VecDeque::new(),
            answers: VecDeque::new(),
            pushes: VecDeque::new(),
            stale: Vec::new(),
            is_known: true,
            is_subscribed: true,
            is_half_open: false,
        }
    }

    /// The connection closes at the client's side. Returns the requests without an answer.
    pub(super) fn cut(&mut self) -> Vec<Arc<Request>> {
        let answered = self.answers.drain(..).filter_map(|message| match message {
            Message::Reply(request, _) => Some(request),
            Message::Push(_) => None,
        });
        let unanswered = answered.chain(self.requests.iter().cloned()).collect();
        let requests = std::mem::take(&mut self.requests);
        if !requests.is_empty() {
            self.stale.push((self.session, requests));
        }
        self.pushes.clear();
        self.is_half_open |= std::mem::take(&mut self.is_subscribed);
        self.phase = Phase::Down;
        unanswered
    }

    /// The node notices that older connections are closed; their remaining requests never run.
    pub(super) fn close_old(&mut self) {
        self.stale.clear();
        self.is_half_open = false;
    }

    /// A new connection, whose first request is in flight.
    pub(super) fn connect(&mut self) {
        self.phase = Phase::Attaching;
        self.session += 1;
        self.requests.push_back(Arc::new(Request::attach()));
    }

    /// A new connection where there are no sessions.
    pub(super) const fn reopen(&mut self) {
        self.phase = Phase::Up;
        self.session = 2;
        (self.is_subscribed, self.is_half_open) = (true, false);
    }

    /// Takes out the next request of an older connection, with its session.
    pub(super) fn pop_stale(&mut self, queue: usize) -> Option<(u8, Arc<Request>)> {
        let (session, requests) = &mut self.stale[queue];
        let next = requests.pop_front().map(|request| (*session, request));
        self.stale.retain(|(_, requests)| !requests.is_empty());
        next
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.requests.is_empty() && self.answers.is_empty() && self.pushes.is_empty()
    }

    pub(super) const fn is_remade(&self) -> bool {
        self.session > 1
    }
}

impl Hash for Link {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            phase,
            session,
            requests,
            answers,
            pushes,
            stale,
            is_known,
            is_subscribed,
            is_half_open,
        } = self;
        (phase, session, requests, answers, pushes).hash(state);
        (is_known, is_subscribed, is_half_open, stale.len()).hash(state);
        // When these were sent has no effect: they are never answered.
        for (session, requests) in stale {
            session.hash(state);
            requests.iter().for_each(|request| Plain(request.print).hash(state));
        }
    }
}
