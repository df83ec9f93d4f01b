//! One request to all nodes, decided by a majority. It implements releases, checks, and the common
//! part of extensions.

use crate::{
    moment::Moment,
    quorum::{NodeSet, Tally, Verdict, Vote},
    terms::Terms,
};

/// The next action for the caller of a machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Output {
    /// Send `kind` to each of `nodes` at the same time.
    Send {
        /// The recipients.
        nodes: NodeSet,
        /// The request.
        kind: RoundKind,
    },
    /// Call `handle_timeout` at `until`, unless a vote arrives earlier.
    Wait {
        /// The deadline.
        until: Moment,
    },
    /// Nothing to do until another vote arrives.
    Idle,
}

/// A request to every node. The caller knows its lock and owner.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RoundKind {
    /// Release the lock. It goes to all nodes, whatever they answered before. The caller repeats it
    /// on a node that does not answer, until the key has expired there.
    Release,
    /// Extend the lease.
    Extend,
    /// Check whether the lock is held. It changes nothing on any node.
    Check,
}

/// Sends one request to every node and counts the votes.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Round {
    kind: RoundKind,
    unasked: NodeSet,
    tally: Tally,
    give_up_at: Moment,
}

impl Round {
    /// Starts at `now`, before the first byte is sent.
    #[must_use]
    pub fn start(kind: RoundKind, terms: Terms, nodes: usize, now: Moment) -> Self {
        let tally = Tally::new(nodes);
        let unasked = tally.nodes();
        mutate!(ReleaseMajorityOnly if kind == RoundKind::Release
            => let unasked = NodeSet::all(crate::quorum::majority(nodes)));
        Self { kind, unasked, tally, give_up_at: terms.give_up_at(now) }
    }

    /// Counts the vote of one node.
    pub fn handle_vote(&mut self, node: usize, vote: Vote) {
        self.tally.count(node, vote);
    }

    /// Stops waiting for silent nodes once the vote timeout has passed.
    pub fn handle_timeout(&mut self, now: Moment) {
        if now >= self.give_up_at {
            let silence = Vote::Unknown;
            mutate!(SilenceIsGrant => let silence = Vote::Grant);
            for node in self.tally.pending().iter() {
                self.tally.count(node, silence);
            }
        }
    }

    /// The outcome, as soon as it is certain.
    #[must_use]
    pub fn outcome(&self) -> Option<RoundOutcome> {
        match self.tally.verdict() {
            Verdict::Won => Some(RoundOutcome::Agreed),
            Verdict::Lost | Verdict::Open if self.tally.is_refused() => Some(RoundOutcome::Refused),
            // A pending node may still refuse and settle the outcome.
            Verdict::Lost if self.tally.pending().is_empty() => Some(RoundOutcome::Unsure),
            Verdict::Lost | Verdict::Open => None,
        }
    }

    /// The votes so far.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The request that every node gets.
    #[must_use]
    pub const fn kind(&self) -> RoundKind {
        self.kind
    }

    /// The next action.
    pub fn poll_output(&mut self) -> Output {
        let nodes = std::mem::replace(&mut self.unasked, NodeSet::EMPTY);
        if !nodes.is_empty() {
            Output::Send { nodes, kind: self.kind }
        } else if self.outcome().is_none() {
            Output::Wait { until: self.give_up_at }
        } else {
            Output::Idle
        }
    }
}

/// The result of a round.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RoundOutcome {
    /// A majority did or confirmed what was asked.
    Agreed,
    /// Enough nodes refused that no majority can remain.
    Refused,
    /// Too few nodes answered to decide.
    Unsure,
}

#[cfg(test)]
mod tests;
