//! The network between one client and one node.

use std::collections::VecDeque;

use quorate_core::command::{Command, Reply};

/// The connection of one client to one node. What is on it keeps its order and may take any time.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Link {
    pub(super) requests: VecDeque<Request>,
    pub(super) answers: VecDeque<Answer>,
    /// What was on the way when a connection broke, one queue for each. The node may still run any
    /// first part of it, at any time; no order is kept with what is sent later.
    pub(super) stale: Vec<VecDeque<Request>>,
    /// The connection is not the first one.
    pub(super) is_remade: bool,
}

impl Link {
    /// Breaks the connection, and returns the requests that will have no answer.
    pub(super) fn cut(&mut self) -> Vec<Request> {
        let answered = self.answers.drain(..).map(|answer| answer.request);
        let unanswered = answered.chain(self.requests.iter().cloned()).collect();
        let requests = std::mem::take(&mut self.requests);
        if !requests.is_empty() {
            self.stale.push(requests);
        }
        self.is_remade = true;
        unanswered
    }

    /// Takes out the next request of an old connection.
    pub(super) fn pop_stale(&mut self, queue: usize) -> Option<Request> {
        let request = self.stale[queue].pop_front();
        self.stale.retain(|queue| !queue.is_empty());
        request
    }

    pub(super) fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.answers.is_empty()
    }
}

/// A command on its way to a node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Request {
    pub(super) topic: Topic,
    pub(super) command: Command,
}

/// A reply on its way to a client.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Answer {
    pub(super) request: Request,
    pub(super) reply: Reply,
}

/// Which machine of a client a request belongs to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Topic {
    /// An attempt to take the lock, by its number.
    Take(u8),
    /// A renewal, by the number of the attempt that has won the lease and its own.
    Renew(u8, u8),
    /// A release or an undo: nobody acts on the answer.
    Free,
}
