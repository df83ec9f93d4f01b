//! The commands that wait to be sent to one node, in their order.
//!
//! Commands that wait together are sent in batches. The node decides which commands share one.
//! Commands about the same lock keep their order, so a release never overtakes a request of its
//! owner. Commands about different locks commute: a batch may overtake those that it cannot take.

use std::{collections::VecDeque, slice};

use super::{CallId, watchdog::BatchId};
use crate::{
    acquire::NodeCall,
    command::{BATCH_MAX, Command, EXTEND_MAX, Reply},
    moment::Moment,
};

/// Whether a node accepts the second command as an entry of a batch that begins with the first one.
/// A command that does not join itself is sent without a batch.
pub type Joins = fn(&Command, &Command) -> bool;

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

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes the commands that can be sent together: a batch, or a single command.
    pub(super) fn pop(&mut self, joins: Joins) -> Option<Transmit> {
        let chosen = self.choose(joins);
        if chosen.count() <= 1 {
            let single = self.queue.pop_front();
            if single.is_none() {
                // Frees the memory of a burst.
                self.queue.shrink_to(QUEUE_KEPT);
            }
            return single;
        }
        let mut abouts = Vec::with_capacity(chosen.count());
        let mut entries = Vec::with_capacity(chosen.count());
        let mut left = Vec::new();
        for (at, it) in self.queue.drain(..chosen.end()).enumerate() {
            if chosen.contains(at) {
                abouts.push(it.about);
                entries.push(it.command);
            } else {
                left.push(it);
            }
        }
        left.into_iter().rev().for_each(|it| self.queue.push_front(it));
        mutate!(OnlyFirstSent => entries.truncate(1));
        mutate!(OnlyFirstSent => abouts.truncate(1));
        let (about, command) = (About::Batch(abouts.into()), Command::Batch(entries.into()));
        Some(Transmit { about, command })
    }

    /// Chooses the commands that are sent together with the first one. Heartbeats for the same lock
    /// can be: they have different owners, and many waiters of one lock should cost one command.
    fn choose(&self, joins: Joins) -> Chosen {
        let mut chosen = Chosen::default();
        let Some(Transmit { command: first, .. }) = self.queue.front() else { return chosen };
        if first.entry_name().is_none() || !joins(first, first) {
            return chosen;
        }
        let mut are_heartbeats = true;
        for (at, Transmit { command, .. }) in self.queue.iter().enumerate().take(EXTEND_MAX) {
            // A command about several locks keeps its place among all others.
            let Some(name) = command.entry_name() else { break };
            let is_heartbeat = command.is_heartbeat();
            let is_full = chosen.count() >= BATCH_MAX;
            if is_full && !are_heartbeats {
                break;
            }
            if is_full && !is_heartbeat || !joins(first, command) {
                continue;
            }
            let comes_after = |(before, earlier): (usize, &Transmit)| {
                let is_same_lock = earlier.command.entry_name() == Some(name);
                mutate!(OvertakesSameLock if !chosen.contains(before) => let is_same_lock = false);
                let are_waiters = is_heartbeat && earlier.command.is_heartbeat();
                is_same_lock && !(are_waiters && chosen.contains(before))
            };
            if self.queue.range(..at).enumerate().any(comes_after) {
                continue;
            }
            are_heartbeats &= is_heartbeat;
            chosen.insert(at);
        }
        chosen
    }
}

/// Positions in the queue of the commands that are sent together.
#[derive(Clone, Copy, Debug, Default)]
struct Chosen(u128);

impl Chosen {
    const fn insert(&mut self, at: usize) {
        self.0 |= 1 << at;
    }

    const fn contains(self, at: usize) -> bool {
        self.0 >> at & 1 == 1
    }

    const fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The position after the last one.
    const fn end(self) -> usize {
        u128::BITS.saturating_sub(self.0.leading_zeros()) as usize
    }
}

const _: () = assert!(EXTEND_MAX <= u128::BITS as usize, "each position has a bit");

/// The capacity that is kept when no command waits.
const QUEUE_KEPT: usize = 64;

#[cfg(test)]
mod tests;
