//! Giving a held lock back on all nodes.

use crate::{
    moment::Moment,
    quorum::{Tally, Vote},
    round::{Finding, Output, Round, Verb},
    terms::Terms,
};

/// One release of a held lock. It goes to all nodes, whatever they answered to the acquire.
///
/// A node that does not answer stays in debt: the caller of the machine asks it again once it is
/// reachable, until the key has expired by itself.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Release {
    round: Round,
}

impl Release {
    /// Starts at `now`.
    #[must_use]
    pub fn start(terms: Terms, nodes: usize, now: Moment) -> Self {
        Self { round: Round::new(Verb::Free, &terms, nodes, now) }
    }

    /// Counts the answer of one node to `Free`.
    pub fn handle_vote(&mut self, node: usize, vote: Vote) {
        self.round.count(node, vote);
    }

    /// Stops waiting for silent nodes, once the vote timeout has passed.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.round.count_silent(now);
    }

    /// How it went, as soon as that is certain.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.round.finding().map(|finding| match finding {
            Finding::Agreed => Outcome::Released,
            Finding::Refused => Outcome::WasGone,
            Finding::Unsure => Outcome::Unsure,
        })
    }

    /// The votes so far, as evidence.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        self.round.tally()
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Output {
        self.round.poll_output()
    }
}

/// How a release went.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Outcome {
    /// A majority had the key and deleted it.
    Released,
    /// A majority did not have the key any more: the lease had ended before.
    WasGone,
    /// Too few nodes answered. The others are asked again when they can be reached.
    Unsure,
}

#[cfg(test)]
mod tests;
