//! The interface between the engine and what carries commands: a node and its contract.

mod events;
mod idle;
#[cfg(feature = "local")]
pub(crate) mod local;
pub mod memory;
mod push;
pub(crate) mod redis;

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use quorate_core::{
    client::{About, Joins},
    command::{Command, Reply},
    moment::Moment,
};

pub(crate) use self::{
    events::{Listener, NodeEvent, NodeEvents},
    idle::IdleSignal,
};
use crate::error::NodeError;

/// A store of lock keys: one server, or one store in this process.
///
/// # Contract
///
/// - Requests reach the node in the order in which they were sent or pulled. A request cannot be
///   withdrawn.
/// - Every request gets exactly one answer: from `send` or `pull` itself, or later if they return
///   so.
/// - A reply means that the command ran exactly once. An error means *unknown*: it may have run,
///   may still run, or may never run. A timeout is never turned into a refusal.
/// - No method blocks on I/O, and none calls an inbox before it returns.
pub(crate) trait Node: fmt::Debug + Send + Sync {
    /// Queues a request for the node, or answers it immediately.
    fn send(&self, request: Request, now: Moment) -> Sent;

    /// Takes what the client's machine has for the node, and answers immediately what it can.
    fn pull(&self, work: &mut dyn Work, how: Pull, now: Moment) -> Pulled;

    /// Sends what is queued: immediately if the node is idle, otherwise together with more.
    fn flush(&self);

    /// Like `flush`, for one request that is not urgent. The request may leave when the next answer
    /// arrives, so that the node has finished its earlier requests.
    fn flush_behind(&self) {
        self.flush();
    }

    /// The address, without secrets.
    fn label(&self) -> &str;

    /// Why the node cannot be used right now, if so.
    fn node_error(&self) -> Option<NodeError>;

    /// Why the node does not vote yet although it can be read: this client is read-only.
    fn why_not_yet(&self) -> Option<&'static str> {
        None
    }

    /// Counts connections: the number changes whenever the node comes up or goes down. Information
    /// from an earlier connection may be outdated.
    fn connection(&self) -> u64;

    /// How long an answer usually takes. Zero while that is unknown.
    fn round_trip(&self) -> Duration;

    /// True while requests are unanswered.
    fn is_busy(&self) -> bool;
}

/// Drives one link: connects, reads and writes.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What waits to be sent to one node.
pub(crate) trait Work {
    /// Takes the next request. The node must send it, or answer it with `answer`. Only commands for
    /// which `joins` is true are put into a batch.
    fn next(&mut self, joins: Joins) -> Option<Request>;

    /// The number of commands that wait.
    fn len(&self) -> usize;

    /// The node has answered immediately, or could not send the request on this connection.
    fn answer(&mut self, request: Request, answer: Result<Reply, NodeError>, connection: u64);
}

/// The caller of a pull.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pull {
    /// A caller of the API. A busy node leaves the work to its driver, which takes all of it
    /// together.
    IfIdle,
    /// The node's own driver.
    All,
}

/// The result of a pull.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pulled {
    /// Something is queued: the node must be flushed.
    Queued,
    /// Everything was answered immediately.
    Answered,
    /// The node is busy: its driver pulls later.
    Later,
}

/// One command and where its answer goes.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) to: ReplyTo,
}

/// The recipient of an answer.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    /// To the client's machine.
    Machine { listener: Arc<dyn Listener>, about: About },
    /// To an inbox, which distinguishes questions by their numbers.
    Inbox { inbox: Arc<dyn Inbox>, number: usize },
}

impl Request {
    pub(crate) fn to_inbox(command: Command, number: usize, inbox: Arc<dyn Inbox>) -> Self {
        Self { command, to: ReplyTo::Inbox { inbox, number } }
    }

    /// The entries of a batch, each as a request of its own. Any other request is its only entry.
    pub(crate) fn split(self) -> impl Iterator<Item = Self> {
        let (single, entries) = match (self.command, self.to) {
            (
                Command::Batch(entries),
                ReplyTo::Machine { listener, about: About::Batch(abouts) },
            ) => {
                let each = entries.into_iter().zip(abouts);
                let entry = move |(command, about)| {
                    let to = ReplyTo::Machine { listener: listener.clone(), about };
                    Self { command, to }
                };
                (None, Some(each.map(entry)))
            }
            (command, to) => (Some(Self { command, to }), None),
        };
        single.into_iter().chain(entries.into_iter().flatten())
    }

    pub(crate) const fn is_of_machine(&self) -> bool {
        matches!(self.to, ReplyTo::Machine { .. })
    }
}

/// A request and the node's answer.
pub(crate) type Answered = (Request, Result<Reply, NodeError>);

/// Delivers the answers of a node in order. Consecutive answers for the machine are handled
/// together.
pub(crate) fn deliver_answers(
    node: usize,
    answers: impl IntoIterator<Item = Answered>,
    now: Moment,
) {
    let mut answers = answers.into_iter().peekable();
    while let Some((Request { command, to }, answer)) = answers.next() {
        match to {
            ReplyTo::Inbox { inbox, number } => inbox.handle_answer(number, command, answer, now),
            ReplyTo::Machine { listener, about } => {
                let more = std::iter::from_fn(|| {
                    let (request, answer) = answers.next_if(|(it, _)| it.is_of_machine())?;
                    let ReplyTo::Machine { about, .. } = request.to else { return None };
                    Some((about, request.command, answer))
                });
                let all = std::iter::once((about, command, answer)).chain(more);
                listener.handle_answers(node, &mut all.take(TOGETHER_MAX), now);
            }
        }
    }
}

/// The result of sending a request.
#[derive(Debug)]
pub(crate) enum Sent {
    /// It is queued. The inbox gets the answer later.
    Queued,
    /// It is already answered. The inbox gets nothing.
    Answered(Result<Reply, NodeError>),
}

/// Receives answers.
pub(crate) trait Inbox: fmt::Debug + Send + Sync {
    /// Handles the answer to question `number`, known at `now`.
    fn handle_answer(
        self: Arc<Self>,
        number: usize,
        command: Command,
        answer: Result<Reply, NodeError>,
        now: Moment,
    );
}

/// The maximum number of answers that are handled under one mutex, since callers wait for it.
const TOGETHER_MAX: usize = 64;
