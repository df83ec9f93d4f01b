//! What waits to be sent to one node, in its order.
//!
//! Questions of several waiters that stand next to each other leave as one command. A release never
//! overtakes a question of its owner, since everything for one node is in one queue.

use std::{collections::VecDeque, sync::Arc};

use super::{CallId, watchdog::BatchId};
use crate::{
    command::{Command, PROLONG_MAX, Reply},
    contend::Said,
    line::{Ask, Standing},
    moment::Moment,
    mutant::{self, Mutant},
};

/// What waits to be sent to one node.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Outgoing {
    queue: VecDeque<Transmit>,
}

/// One command, and what it is about.
#[derive(Clone, Debug, Hash)]
pub struct Transmit {
    /// Comes back with the answer.
    pub about: About,
    /// Each connection puts in its own session.
    pub command: Command,
}

/// What a command is about.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum About {
    /// A question of one waiter, or what it says.
    Waiter(Question),
    /// Questions of several waiters, in the order of the command.
    Heartbeat(Box<[Question]>),
    /// A question of a round.
    Round(CallId),
    /// Renewals of several leases.
    Renewals(BatchId),
    /// The release of a grant that nobody wants.
    Orphan,
    /// A release that was not answered before, and matters until then.
    Debt(Moment),
}

/// What a waiter says to a node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Question {
    /// The waiter.
    pub call: CallId,
    /// What it says.
    pub said: Said,
    /// When.
    pub sent_at: Moment,
    /// The node may not know the owner before this.
    pub is_first: bool,
}

impl About {
    /// What a reply says to each waiter's question; `None` is no usable answer.
    pub fn answers<'a>(
        &'a self,
        reply: Option<&'a Reply>,
    ) -> impl Iterator<Item = (&'a Question, Option<&'a Reply>)> {
        let questions = match self {
            Self::Waiter(question) => std::slice::from_ref(question),
            Self::Heartbeat(questions) => questions,
            Self::Round(_) | Self::Renewals(_) | Self::Orphan | Self::Debt(_) => &[],
        };
        let is_alone = matches!(self, Self::Waiter(_));
        questions.iter().enumerate().map(move |(index, question)| {
            let index = if mutant::is_on(Mutant::HeartbeatByFirst) { 0 } else { index };
            let answer = match reply {
                reply if is_alone => reply,
                Some(Reply::EachHeard(each)) if each.len() == questions.len() => {
                    each.get(index).and_then(Option::as_ref)
                }
                _ => None,
            };
            (question, answer)
        })
    }
}

impl Outgoing {
    pub(super) fn push(&mut self, about: About, command: Command) {
        self.queue.push_back(Transmit { about, command });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The next command.
    pub(super) fn pop(&mut self) -> Option<Transmit> {
        let Some(first) = self.queue.pop_front() else {
            // A burst should not cost memory for ever.
            self.queue.shrink_to(QUEUE_KEPT);
            return None;
        };
        let mut gathered: Vec<(Standing, Question)> = Vec::new();
        while gathered.len() < PROLONG_MAX
            && let Some(next) = self.queue.front()
            && let (Some(own), Some(next)) = (standing(&first), standing(next))
        {
            if gathered.is_empty() {
                gathered.push(own);
            }
            gathered.push(next);
            self.queue.pop_front();
        }
        if gathered.is_empty() {
            return Some(first);
        }
        let (standing, asked): (Vec<_>, Vec<_>) = gathered.into_iter().unzip();
        let Command::Acquire { speaker, .. } = first.command else { return Some(first) };
        if mutant::is_on(Mutant::HeartbeatOfFirst) {
            return Some(first);
        }
        let command = Command::Heartbeat { speaker, standing: Arc::from(standing) };
        Some(Transmit { about: About::Heartbeat(asked.into()), command })
    }
}

/// The question of a waiter that stays in the queue of its lock. The first one goes by itself: if
/// the lock is free, that is less work for the node.
fn standing(transmit: &Transmit) -> Option<(Standing, Question)> {
    match (&transmit.about, &transmit.command) {
        (About::Waiter(question), Command::Acquire { ask, .. })
            if ask.is_waiting && ask.is_known =>
        {
            let Ask { name, owner, .. } = ask.clone();
            Some((Standing { name, owner }, *question))
        }
        _ => None,
    }
}

/// Room that is kept for this many commands when none waits.
const QUEUE_KEPT: usize = 64;
