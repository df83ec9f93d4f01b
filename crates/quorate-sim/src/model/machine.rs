//! What a client has running, and what these machines have in common.

use quorate_core::{
    acquire::{Acquire, Outcome},
    lease::{Extension, Lease},
    moment::Moment,
    quorum::Vote,
    renew::Renew,
    round::Output,
};

use super::link::Topic;

/// An attempt to take the lock.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Try {
    pub(super) attempt: u8,
    pub(super) machine: Acquire,
    /// That it won was seen before.
    pub(super) has_won: bool,
}

impl Try {
    pub(super) fn topic(&self) -> Topic {
        Topic::Take(self.attempt)
    }

    /// True while a caller waits for it: it is not certain, or won and not told yet.
    pub(super) fn is_awaited(&self) -> bool {
        match self.machine.outcome() {
            None | Some(Outcome::Held { .. }) => true,
            Some(
                Outcome::Contended | Outcome::NoQuorum | Outcome::TooLate | Outcome::Abandoned,
            ) => false,
        }
    }

    pub(super) fn won_until(&self) -> Option<Moment> {
        match self.machine.outcome() {
            Some(Outcome::Held { valid_until }) => Some(valid_until),
            _ => None,
        }
    }
}

/// A held lock, valid or not.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Hand {
    pub(super) attempt: u8,
    pub(super) lease: Lease,
    pub(super) renewals: Vec<Renewal>,
    pub(super) renewals_sent: u8,
    /// It was seen not to be valid.
    pub(super) has_ended: bool,
    /// A renewal has made it last longer.
    pub(super) has_grown: bool,
}

impl Hand {
    pub(super) fn renewal(&self, number: u8) -> Option<&Renewal> {
        self.renewals.iter().find(|open| open.number == number)
    }
}

/// A renewal on its way, with its number among those of the lease.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Renewal {
    pub(super) number: u8,
    pub(super) extension: Extension,
    pub(super) machine: Renew,
}

/// What a client did when it crashed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Crash {
    AsHolder,
    Otherwise,
}

/// What the machines of the core have in common.
pub(super) trait Machine {
    fn handle_vote(&mut self, node: usize, vote: Vote, now: Moment);
    fn handle_timeout(&mut self, now: Moment);
    /// What it waits for; asking changes nothing once everything is sent.
    fn waits_until(&self) -> Option<Moment>;

    /// True if the vote timeout may strike and would make a difference.
    fn is_due(&self, now: Moment) -> bool {
        self.waits_until().is_some_and(|until| until <= now)
    }
}

impl Machine for Acquire {
    fn handle_vote(&mut self, node: usize, vote: Vote, now: Moment) {
        self.handle_vote(node, vote, now);
    }

    fn handle_timeout(&mut self, now: Moment) {
        self.handle_timeout(now);
    }

    fn waits_until(&self) -> Option<Moment> {
        deadline(self.clone().poll_output())
    }
}

impl Machine for Renew {
    fn handle_vote(&mut self, node: usize, vote: Vote, now: Moment) {
        self.handle_vote(node, vote, now);
    }

    fn handle_timeout(&mut self, now: Moment) {
        self.handle_timeout(now);
    }

    fn waits_until(&self) -> Option<Moment> {
        deadline(self.clone().poll_output())
    }
}

fn deadline(output: Output) -> Option<Moment> {
    match output {
        Output::Wait { until } => Some(until),
        Output::Send { .. } | Output::Idle => None,
    }
}
