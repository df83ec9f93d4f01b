//! One question to all nodes, answered by a majority: the common part of renew, verify and release.

use crate::{
    moment::Moment,
    mutant::{self, Mutant},
    quorum::{NodeSet, Tally, Verdict, Vote, majority},
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
        verb: Verb,
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
pub enum Verb {
    /// See [`Command::Take`](crate::command::Command::Take).
    Take,
    /// See [`Command::Free`](crate::command::Command::Free).
    Free,
    /// See [`Command::Prolong`](crate::command::Command::Prolong).
    Prolong,
    /// See [`Command::Check`](crate::command::Command::Check).
    Check,
}

/// Asks every node once and counts.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Round {
    verb: Verb,
    unasked: NodeSet,
    tally: Tally,
    give_up_at: Moment,
}

impl Round {
    pub(crate) fn new(verb: Verb, terms: &Terms, nodes: usize, now: Moment) -> Self {
        let tally = Tally::new(nodes);
        let is_partial = verb == Verb::Free && mutant::is_on(Mutant::ReleaseMajorityOnly);
        let unasked = if is_partial { NodeSet::all(majority(nodes)) } else { tally.nodes() };
        Self { verb, unasked, tally, give_up_at: terms.give_up_at(now) }
    }

    pub(crate) fn count(&mut self, node: usize, vote: Vote) {
        self.tally.count(node, vote);
    }

    /// Turns silence into `Unknown`, once the time has come.
    pub(crate) fn count_silent(&mut self, now: Moment) {
        if now >= self.give_up_at {
            for node in self.tally.pending().iter() {
                self.tally.count(node, Tally::of_silence());
            }
        }
    }

    /// What the nodes say together, as soon as it is certain.
    pub(crate) fn finding(&self) -> Option<Finding> {
        match self.tally.verdict() {
            Verdict::Won => Some(Finding::Agreed),
            Verdict::Lost | Verdict::Open if self.tally.is_refused() => Some(Finding::Refused),
            // A refusal may still come in and settle what is unsure so far.
            Verdict::Lost if self.tally.pending().is_empty() => Some(Finding::Unsure),
            Verdict::Lost | Verdict::Open => None,
        }
    }

    pub(crate) const fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(crate) fn poll_output(&mut self) -> Output {
        let nodes = std::mem::replace(&mut self.unasked, NodeSet::EMPTY);
        if !nodes.is_empty() {
            Output::Send { nodes, verb: self.verb }
        } else if self.finding().is_none() {
            Output::Wait { until: self.give_up_at }
        } else {
            Output::Idle
        }
    }
}

/// What the nodes say together.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Finding {
    /// A majority did as asked.
    Agreed,
    /// So many nodes plainly refused that no majority can be left.
    Refused,
    /// Too few answered to know.
    Unsure,
}
