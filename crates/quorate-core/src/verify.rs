//! Asking a majority whether a lease is still there.

use crate::{
    moment::Moment,
    quorum::{Tally, Vote},
    round::{Finding, Output, Round, Verb},
    terms::Terms,
};

/// One question to all nodes: is the key still the owner's? It changes nothing on any node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Verify {
    round: Round,
}

impl Verify {
    /// Starts at `now`.
    #[must_use]
    pub fn start(terms: Terms, nodes: usize, now: Moment) -> Self {
        Self { round: Round::new(Verb::Check, &terms, nodes, now) }
    }

    /// Counts the answer of one node to `Check`.
    pub fn handle_vote(&mut self, node: usize, vote: Vote) {
        self.round.count(node, vote);
    }

    /// Stops waiting for silent nodes, once the vote timeout has passed.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.round.count_silent(now);
    }

    /// What the nodes say, as soon as it is certain.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.round.finding().map(|finding| match finding {
            Finding::Agreed => Outcome::Confirmed,
            Finding::Refused => Outcome::Gone,
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

/// What the nodes say about a lease.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Outcome {
    /// A majority has the owner's key.
    Confirmed,
    /// A majority has no key, or another's.
    Gone,
    /// Too few nodes answered.
    Unsure,
}

#[cfg(test)]
mod tests;
