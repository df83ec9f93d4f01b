//! The seam between the engine and what carries commands: one node, and the contract it keeps.

pub mod memory;
pub(crate) mod redis;

use std::{fmt, sync::Arc, time::Duration};

use quorate_core::{
    command::{Command, Reply},
    moment::Moment,
};

use crate::error::Trouble;

/// A place that stores lock keys: one server, or one store in this process.
///
/// # Contract
///
/// - Requests reach the node in the order in which they were sent. Nobody can take one back.
/// - Every request gets exactly one answer: from `send` itself, or later through its inbox.
/// - A reply means that the command ran exactly once. Trouble means *unknown*: it may have run, may
///   still run, or may never run. A timeout is never turned into a refusal.
/// - No method blocks on I/O, and none calls an inbox before it returns.
pub(crate) trait Node: fmt::Debug + Send + Sync {
    /// Puts a request in the node's queue, or answers it on the spot.
    fn send(&self, request: Request, now: Moment) -> Sent;

    /// Sees to it that what is queued leaves: at once if the node is idle, else gathered with more.
    fn flush(&self);

    /// Takes over a `Free` that got no answer: sends it again when the node can be reached, until
    /// it is answered or the key has gone by itself at `until`.
    fn owe(&self, free: Command, until: Moment);

    /// The address, without secrets.
    fn label(&self) -> &str;

    /// Why nothing can be asked right now, if so.
    fn trouble(&self) -> Option<Trouble>;

    /// How long an answer takes as a rule; zero while that is not known.
    fn round_trip(&self) -> Duration;

    /// True while requests are unanswered or releases are owed.
    fn is_busy(&self) -> bool;
}

/// One command and where its answer goes.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) command: Command,
    /// The node's number, for the inbox.
    pub(crate) node: usize,
    pub(crate) inbox: Arc<dyn Inbox>,
}

impl Request {
    pub(crate) fn answer(self, answer: Result<Reply, Trouble>, now: Moment) {
        self.inbox.clone().handle_answer(self.node, self.command, answer, now);
    }
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Sent {
    /// It is on its way; the inbox will hear.
    Queued,
    /// It is answered already; the inbox will hear nothing.
    Answered(Result<Reply, Trouble>),
}

/// Takes in answers.
pub(crate) trait Inbox: fmt::Debug + Send + Sync {
    /// The answer of `node` to `command`, known at `now`.
    fn handle_answer(
        self: Arc<Self>,
        node: usize,
        command: Command,
        answer: Result<Reply, Trouble>,
        now: Moment,
    );
}

/// Releases that a node has not answered.
#[derive(Debug, Default)]
pub(crate) struct Debts {
    owed: std::collections::VecDeque<(Command, Moment)>,
}

impl Debts {
    pub(crate) fn add(&mut self, free: Command, until: Moment) {
        // The oldest is the first to go by itself.
        if self.owed.len() >= DEBTS_MAX {
            self.owed.pop_front();
        }
        self.owed.push_back((free, until));
    }

    /// Takes out what still matters at `now`.
    pub(crate) fn collect(&mut self, now: Moment) -> Vec<(Command, Moment)> {
        self.owed.drain(..).filter(|(_, until)| now < *until).collect()
    }

    pub(crate) fn forget_expired(&mut self, now: Moment) {
        self.owed.retain(|(_, until)| now < *until);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }
}

/// The most releases that are kept for one node while it is away; their keys expire by themselves.
const DEBTS_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use quorate_core::{
        command::{ClientId, Owner},
        name::Name,
    };

    use super::*;

    #[test]
    fn debts_are_bounded_and_go_with_their_keys() {
        let mut debts = Debts::default();
        for number in 0..=DEBTS_MAX as u64 {
            let name = Name::parse("a", "").unwrap();
            let owner = Owner::new(&ClientId::from_random([0; 20]), number, "me");
            debts.add(Command::Free { name, owner }, Moment::from_nanos(number));
        }
        assert_eq!(debts.owed.len(), DEBTS_MAX);
        assert_eq!(debts.collect(Moment::from_nanos(DEBTS_MAX as u64 - 1)).len(), 1);
        assert!(debts.is_empty());
    }
}
