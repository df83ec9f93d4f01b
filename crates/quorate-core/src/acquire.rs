//! One attempt to win a lock on a majority of nodes, with the undo on every losing path.

use crate::{
    moment::Moment,
    mutant::{self, Mutant},
    quorum::{NodeSet, Tally, Verdict, Vote},
    round::{Output, Verb},
    terms::Terms,
};

/// One attempt, from the first byte until every node has answered or was undone.
///
/// The outcome is there as soon as it is certain. The machine goes on after that: a node whose
/// answer comes late, or never, is given the undo when the lock was not won or is not wanted any
/// more. An owner is used for one attempt only, so a node that plainly refused holds nothing of it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Acquire {
    terms: Terms,
    sent_at: Moment,
    tally: Tally,
    untaken: NodeSet,
    unfreed: NodeSet,
    /// Nodes that were or will be sent the undo.
    undone: NodeSet,
    /// The lock was lost or the caller has gone: what was taken goes back.
    is_undoing: bool,
    outcome: Option<Outcome>,
}

impl Acquire {
    /// Starts at `now`, before the first byte is sent: every node is asked at once.
    ///
    /// # Panics
    ///
    /// If `nodes` is zero or more than [`NODES_MAX`](crate::quorum::NODES_MAX).
    #[must_use]
    pub fn start(terms: Terms, nodes: usize, now: Moment) -> Self {
        let tally = Tally::new(nodes);
        Self {
            terms,
            sent_at: now,
            tally,
            untaken: tally.nodes(),
            unfreed: NodeSet::EMPTY,
            undone: NodeSet::EMPTY,
            is_undoing: false,
            outcome: None,
        }
    }

    /// Counts the answer of one node to `Take`.
    pub fn handle_vote(&mut self, node: usize, vote: Vote, now: Moment) {
        if !self.tally.pending().contains(node) {
            return;
        }
        self.tally.count(node, vote);
        if self.is_undoing && vote != Vote::Refuse {
            self.undo_on(NodeSet::one(node));
        }
        self.decide(now);
    }

    /// Stops waiting for silent nodes, once the vote timeout has passed.
    pub fn handle_timeout(&mut self, now: Moment) {
        if now >= self.terms.give_up_at(self.sent_at) {
            for node in self.tally.pending().iter() {
                self.handle_vote(node, Tally::of_silence(), now);
            }
        }
    }

    /// The caller has gone and will never use the lock: gives back what was taken, and what may be
    /// taken yet, at once.
    pub fn handle_abandon(&mut self) {
        self.is_undoing = true;
        if !mutant::is_on(Mutant::AbandonKeeps) {
            self.undo_on(self.tally.nodes().without(self.tally.refused()));
        }
        // Also if the lock was won: what is given back is not held.
        self.outcome = Some(Outcome::Abandoned);
    }

    /// How the attempt ended, as soon as that is certain.
    #[must_use]
    pub const fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    /// The votes so far, as evidence.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Output {
        for (nodes, verb) in [(&mut self.untaken, Verb::Take), (&mut self.unfreed, Verb::Free)] {
            let nodes = std::mem::replace(nodes, NodeSet::EMPTY);
            if !nodes.is_empty() {
                return Output::Send { nodes, verb };
            }
        }
        let is_open = self.outcome.is_none() || self.is_undoing;
        if is_open && !self.tally.pending().is_empty() {
            Output::Wait { until: self.terms.give_up_at(self.sent_at) }
        } else {
            Output::Idle
        }
    }

    fn decide(&mut self, now: Moment) {
        if self.outcome.is_some() {
            return;
        }
        let is_from_reply = mutant::is_on(Mutant::ValidFromReply);
        let valid_until = self.terms.valid_until(if is_from_reply { now } else { self.sent_at });
        match self.tally.verdict() {
            Verdict::Won if now < valid_until || mutant::is_on(Mutant::NoLateCheck) => {
                self.outcome = Some(Outcome::Held { valid_until });
            }
            Verdict::Won => {
                self.undo();
                self.outcome = Some(Outcome::TooLate);
            }
            Verdict::Lost => {
                self.undo();
                // Contention and silence are different facts: wait until it is clear which it is.
                self.outcome = match self.tally.answered() {
                    Verdict::Won => Some(Outcome::Contended),
                    Verdict::Lost => Some(Outcome::NoQuorum),
                    Verdict::Open => None,
                };
            }
            Verdict::Open => {}
        }
    }

    /// From now on everything goes back: what is known to be or may be ours at once, and the rest
    /// as its votes come in, behind the `Take` on the same connection.
    fn undo(&mut self) {
        if mutant::is_on(Mutant::NoUndo) {
            return;
        }
        self.is_undoing = true;
        let plain = self.tally.refused().union(self.tally.pending());
        self.undo_on(self.tally.nodes().without(plain));
    }

    fn undo_on(&mut self, nodes: NodeSet) {
        let nodes = match mutant::is_on(Mutant::UndoGrantedOnly) {
            true => nodes.without(nodes.without(self.tally.granted())),
            false => nodes,
        };
        self.unfreed = self.unfreed.union(nodes.without(self.undone));
        self.undone = self.undone.union(nodes);
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Outcome {
    /// The lock is held until `valid_until`.
    Held {
        /// When the right ends on the client's own clock.
        valid_until: Moment,
    },
    /// A majority answered, and somebody else has the lock or is after it.
    Contended,
    /// Too few nodes gave any answer.
    NoQuorum,
    /// A majority granted, but so late that nothing is left of the lease.
    TooLate,
    /// The caller went away before it was known.
    Abandoned,
}

#[cfg(test)]
mod tests;
