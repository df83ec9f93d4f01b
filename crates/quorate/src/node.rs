//! The seam between the engine and what carries commands: one node, and the contract it keeps.

#[cfg(feature = "local")]
pub(crate) mod local;
pub mod memory;
mod push;
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

    /// The same for one request that nobody waits for urgently: it may leave when the next answer
    /// comes, so that the node is done with what it was asked before.
    fn flush_behind(&self) {
        self.flush();
    }

    /// Takes over a `Free` that got no answer: sends it again when the node can be reached, until
    /// it is answered or the key has gone by itself at `until`.
    fn owe(&self, free: Command, until: Moment);

    /// The address, without secrets.
    fn label(&self) -> &str;

    /// Why nothing can be asked right now, if so.
    fn trouble(&self) -> Option<Trouble>;

    /// Why it does not vote yet although it can be asked: this client only looks.
    fn why_not_yet(&self) -> Option<&'static str> {
        None
    }

    /// Counts connections: it is another number whenever the node has come up or gone down. What
    /// was heard while it was another may be over.
    fn connection(&self) -> u64;

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
