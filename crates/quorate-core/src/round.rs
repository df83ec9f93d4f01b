//! One question to all nodes, answered by a majority: of a release, of a check, and the common part
//! of an extension.

use crate::{
    moment::Moment,
    quorum::{NodeSet, Tally, Verdict, Vote},
    terms::Terms,
};

/// What the caller of a machine must do next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Output {
    /// Send `verb` to each of `nodes`, at the same time.
    Send {
        /// Whom to ask.
        nodes: NodeSet,
        /// What to ask.
        kind: RoundKind,
    },
    /// Call `handle_timeout` at `until`; a vote may come first.
    Wait {
        /// The deadline.
        until: Moment,
    },
    /// Nothing to do until another vote comes, if one does.
    Idle,
}

/// What a machine asks of a node; the caller knows for which lock and owner.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RoundKind {
    /// Give the lock back. It goes to all nodes, whatever they answered before. One that does not
    /// answer owes an answer: it is asked again until the key has expired by itself.
    Release,
    /// Keep the lock for longer.
    Extend,
    /// Say whether the lock is held. It changes nothing on any node.
    Check,
}

/// Asks every node once and counts.
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

    /// Counts the answer of one node.
    pub fn handle_vote(&mut self, node: usize, vote: Vote) {
        self.tally.count(node, vote);
    }

    /// Stops waiting for silent nodes, once the vote timeout has passed.
    pub fn handle_timeout(&mut self, now: Moment) {
        if now >= self.give_up_at {
            let silence = Vote::Unknown;
            mutate!(SilenceIsGrant => let silence = Vote::Grant);
            for node in self.tally.pending().iter() {
                self.tally.count(node, silence);
            }
        }
    }

    /// What the nodes say together, as soon as it is certain.
    #[must_use]
    pub fn finding(&self) -> Option<RoundOutcome> {
        match self.tally.verdict() {
            Verdict::Won => Some(RoundOutcome::Agreed),
            Verdict::Lost | Verdict::Open if self.tally.is_refused() => Some(RoundOutcome::Refused),
            // A refusal may still come in and settle what is unsure so far.
            Verdict::Lost if self.tally.pending().is_empty() => Some(RoundOutcome::Unsure),
            Verdict::Lost | Verdict::Open => None,
        }
    }

    /// The votes so far, as evidence.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What it asks of every node.
    #[must_use]
    pub const fn kind(&self) -> RoundKind {
        self.kind
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Output {
        let nodes = std::mem::replace(&mut self.unasked, NodeSet::EMPTY);
        if !nodes.is_empty() {
            Output::Send { nodes, kind: self.kind }
        } else if self.finding().is_none() {
            Output::Wait { until: self.give_up_at }
        } else {
            Output::Idle
        }
    }
}

/// What the nodes say together.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RoundOutcome {
    /// A majority did as asked, or has what was asked for.
    Agreed,
    /// So many nodes plainly refused that no majority can be left.
    Refused,
    /// Too few answered to know.
    Unsure,
}

#[cfg(test)]
mod tests;
