//! Extends a held lease on a majority of the nodes.

use crate::{
    moment::Moment,
    quorum::{Tally, Vote},
    round::{Output, Round, RoundKind, RoundOutcome},
    terms::Terms,
};

/// One attempt to extend a lease.
///
/// It counts only if a majority confirms it before the *old* deadline. The new deadline counts from
/// before the first byte of this attempt. A failed attempt changes nothing: the lease continues
/// until its old deadline.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Renew {
    round: Round,
    terms: Terms,
    sent_at: Moment,
    held_until: Moment,
    outcome: Option<Outcome>,
}

impl Renew {
    /// Starts at `now`, before the first byte is sent, for a lease that is held until `held_until`.
    #[must_use]
    pub fn start(terms: Terms, nodes: usize, held_until: Moment, now: Moment) -> Self {
        Self {
            round: Round::start(RoundKind::Extend, terms, nodes, now),
            terms,
            sent_at: now,
            held_until,
            outcome: None,
        }
    }

    /// Counts the vote of one node.
    pub fn handle_vote(&mut self, node: usize, vote: Vote, now: Moment) {
        self.round.handle_vote(node, vote);
        self.decide(now);
    }

    /// Stops waiting for silent nodes once the vote timeout has passed.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.round.handle_timeout(now);
        self.decide(now);
    }

    /// The outcome, as soon as it is certain.
    #[must_use]
    pub const fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    /// The votes so far.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        self.round.tally()
    }

    /// The next action.
    pub fn poll_output(&mut self) -> Output {
        self.round.poll_output()
    }

    fn decide(&mut self, now: Moment) {
        if self.outcome.is_some() {
            return;
        }
        let valid_until = self.terms.valid_until(self.sent_at);
        mutate!(RenewedFromReply => let valid_until = self.terms.valid_until(now));
        let is_in_time = now < self.held_until && now < valid_until;
        mutate!(RenewTooLate | LateRenewal => let is_in_time = now < valid_until);
        self.outcome = self.round.outcome().map(|outcome| match outcome {
            RoundOutcome::Agreed if is_in_time => Outcome::Extended { valid_until },
            RoundOutcome::Agreed => Outcome::TooLate,
            RoundOutcome::Refused => Outcome::Gone,
            RoundOutcome::Unsure => Outcome::Unsure,
        });
    }
}

/// How an extension ended.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Outcome {
    /// The lease now ends at `valid_until`.
    Extended {
        /// When the lease ends on the client's own clock.
        valid_until: Moment,
    },
    /// A majority no longer has the key, or another owner holds it there.
    Gone,
    /// A majority extended the key, but after the lease had ended.
    TooLate,
    /// Too few nodes answered. The lease continues until its old deadline.
    Unsure,
}

#[cfg(test)]
mod tests;
