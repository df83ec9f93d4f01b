//! The connection of one client to one node, and what is on it.

use std::collections::VecDeque;

use quorate_core::{
    command::Reply,
    contend::{Said, Saying},
    fence::Fence,
    line::News,
    moment::Moment,
};

/// One connection after the other, each with its session.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Link {
    pub(super) phase: Phase,
    /// The number of the session that the client speaks with.
    pub(super) session: u8,
    pub(super) requests: VecDeque<Request>,
    pub(super) answers: VecDeque<Heard>,
    /// Pushes, where these are not ordered with replies.
    pub(super) pushes: VecDeque<Heard>,
    /// What was on the way when a connection broke, with its session. The node may still run any
    /// first part of it, at any time.
    pub(super) stale: Vec<(u8, VecDeque<Request>)>,
    /// The node knows a session of the client.
    pub(super) is_known: bool,
    /// The node has seen that the client listens on this connection.
    pub(super) is_heard: bool,
    /// The node has not seen yet that an older connection has ended: what it pushes there is lost.
    pub(super) is_half_open: bool,
    /// Releases to be sent when there is a session again.
    pub(super) owed: Vec<Mark>,
}

/// How far a connection is, as the client sees it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Phase {
    Down,
    Attaching,
    Up,
}

/// An owner of one client: what its text says.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Mark {
    pub(super) ticket: u8,
    pub(super) attempt: u8,
    pub(super) life: u8,
}

/// Something on its way to a node. The command is made from it when it runs.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Request {
    pub(super) what: What,
    pub(super) mark: Mark,
    pub(super) sent_at: Moment,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum What {
    Attach,
    Say(Saying),
    /// A renewal of the lease with this fence.
    Renew(Fence),
}

impl Request {
    /// Sent at `now`, if anybody will ask when it was.
    pub(super) fn at(self, now: Moment) -> Self {
        let sent_at = match self.what {
            What::Attach | What::Say(Saying::Leave) | What::Renew(_) => Moment::ZERO,
            What::Say(_) => now,
        };
        Self { sent_at, ..self }
    }

    pub(super) fn said(&self) -> Option<Said> {
        match self.what {
            What::Say(what) => Some(Said { life: self.mark.life.into(), what }),
            What::Attach | What::Renew(_) => None,
        }
    }
}

/// Something on its way to a client.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Heard {
    Reply(Request, Reply),
    Push { mark: Mark, fence: Fence, news: News },
}

impl Link {
    /// Attached, with nothing on the way.
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Up,
            session: 1,
            requests: VecDeque::new(),
            answers: VecDeque::new(),
            pushes: VecDeque::new(),
            stale: Vec::new(),
            is_known: true,
            is_heard: true,
            is_half_open: false,
            owed: Vec::new(),
        }
    }

    /// The connection ends at the client's side. Returns what will have no answer.
    pub(super) fn cut(&mut self) -> Vec<Request> {
        let answered = self.answers.drain(..).filter_map(|heard| match heard {
            Heard::Reply(request, _) => Some(request),
            Heard::Push { .. } => None,
        });
        let unanswered = answered.chain(self.requests.iter().copied()).collect();
        let mut requests = std::mem::take(&mut self.requests);
        requests.iter_mut().for_each(|request| request.sent_at = Moment::ZERO);
        if !requests.is_empty() {
            self.stale.push((self.session, requests));
        }
        self.pushes.clear();
        self.is_half_open |= std::mem::take(&mut self.is_heard);
        self.phase = Phase::Down;
        unanswered
    }

    /// The node sees that older connections have ended; what is left of them never runs.
    pub(super) fn close_old(&mut self) {
        self.stale.clear();
        self.is_half_open = false;
    }

    /// A new connection, whose first words are on their way.
    pub(super) fn connect(&mut self, now: Moment) {
        self.phase = Phase::Attaching;
        self.session += 1;
        let mark = Mark { ticket: 0, attempt: 0, life: 0 };
        self.requests.push_back(Request { what: What::Attach, mark, sent_at: now }.at(now));
    }

    /// Takes out the next request of an older connection, with its session.
    pub(super) fn pop_stale(&mut self, queue: usize) -> Option<(u8, Request)> {
        let (session, requests) = &mut self.stale[queue];
        let next = requests.pop_front().map(|request| (*session, request));
        self.stale.retain(|(_, requests)| !requests.is_empty());
        next
    }
}
