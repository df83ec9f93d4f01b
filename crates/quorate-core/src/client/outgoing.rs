//! The commands that wait to be sent to one node, in their order.
//!
//! Commands that wait together are sent as one batch. Commands about the same lock keep their
//! order: a batch ends before a name repeats, so a release never overtakes a request of its owner.

use std::{collections::VecDeque, slice};

use super::{CallId, watchdog::BatchId};
use crate::{
    acquire::NodeCall,
    command::{BATCH_MAX, Command, EXTEND_MAX, Reply},
    moment::Moment,
};

/// Whether a node accepts a command as an entry of a batch.
pub type Joins = fn(&Command) -> bool;

/// The commands that wait to be sent to one node.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Outgoing {
    queue: VecDeque<Transmit>,
}

/// One command, and what it is about.
#[derive(Clone, Debug, Hash)]
pub struct Transmit {
    /// Is passed back with the reply.
    pub about: About,
    /// The command. Each connection inserts its own session.
    pub command: Command,
}

/// What a command is about.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum About {
    /// A node call of a waiter.
    Waiter(Question),
    /// A command of a round.
    Round(CallId),
    /// Renewals of several leases.
    Renewals(BatchId),
    /// The release of a grant that no waiter wants.
    Orphan,
    /// A repeated release. The key expires at this moment.
    Debt(Moment),
    /// The entries of a batch, in its order. No entry is a batch.
    Batch(Box<[Self]>),
}

/// A node call of a waiter.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Question {
    /// The waiter.
    pub call: CallId,
    /// The node call.
    pub node_call: NodeCall,
    /// When it was sent.
    pub sent_at: Moment,
    /// Whether it is the first command to the node about this owner.
    pub is_first: bool,
}

impl About {
    /// Each entry of a batch with its own reply. Any other command is its only entry. `None`: there
    /// was no usable reply. A batch reply of another length is unusable for all entries.
    pub fn entries<'a>(
        &'a self,
        command: &'a Command,
        reply: Option<&'a Reply>,
    ) -> impl Iterator<Item = (&'a Self, &'a Command, Option<&'a Reply>)> {
        let (abouts, is_batch) = match self {
            Self::Batch(abouts) => (&**abouts, true),
            single => (slice::from_ref(single), false),
        };
        abouts.iter().zip(command.entries()).enumerate().map(move |(index, (about, entry))| {
            mutate!(AnswerOfFirst => let index = 0);
            let answer = match reply {
                reply if !is_batch => reply,
                Some(Reply::Batch(each)) if each.len() == abouts.len() => each[index].as_ref(),
                _ => None,
            };
            (about, entry, answer)
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

    /// Takes the commands that can be sent together: a batch, or a single command.
    pub(super) fn pop(&mut self, joins: Joins) -> Option<Transmit> {
        let count = self.batch_len(joins);
        mutate!(OnlyFirstSent if count > 1 => return self.queue.drain(..count).next());
        if count > 1 {
            let all = self.queue.drain(..count).map(|it| (it.about, it.command));
            let (abouts, entries): (Vec<_>, Vec<_>) = all.unzip();
            let (about, command) = (About::Batch(abouts.into()), Command::Batch(entries.into()));
            return Some(Transmit { about, command });
        }
        let single = self.queue.drain(..count).next();
        if single.is_none() {
            // Frees the memory of a burst.
            self.queue.shrink_to(QUEUE_KEPT);
        }
        single
    }

    /// The number of next commands that can be sent together. Heartbeats for the same lock can:
    /// they have different owners, and many waiters of one lock should cost one command.
    fn batch_len(&self, joins: Joins) -> usize {
        let mut are_heartbeats = true;
        for (at, Transmit { command, .. }) in self.queue.iter().enumerate() {
            let name = command.entry_name().filter(|_| joins(command));
            let is_heartbeat = command.is_heartbeat();
            are_heartbeats &= is_heartbeat;
            let most = if are_heartbeats { EXTEND_MAX } else { BATCH_MAX };
            let repeats = |before: &Transmit| {
                before.command.entry_name() == name
                    && !(is_heartbeat && before.command.is_heartbeat())
            };
            let is_repeated = || !are_heartbeats && self.queue.range(..at).any(repeats);
            if name.is_none() || at >= most || is_repeated() {
                return at.max(1);
            }
        }
        self.queue.len()
    }
}

/// The capacity that is kept when no command waits.
const QUEUE_KEPT: usize = 64;

#[cfg(test)]
mod tests;
