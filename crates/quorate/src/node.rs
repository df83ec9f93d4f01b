//! The seam between the engine and what carries commands: one node, and the contract it keeps.

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

/// A place that stores lock keys: one server, or one store in this process.
///
/// # Contract
///
/// - Requests reach the node in the order in which they were sent or pulled. Nobody can take one
///   back.
/// - Every request gets exactly one answer: from `send` or `pull` itself, or later where it says.
/// - A reply means that the command ran exactly once. An error means *unknown*: it may have run,
///   may still run, or may never run. A timeout is never turned into a refusal.
/// - No method blocks on I/O, and none calls an inbox before it returns.
pub(crate) trait Node: fmt::Debug + Send + Sync {
    /// Puts a request in the node's queue, or answers it on the spot.
    fn send(&self, request: Request, now: Moment) -> Sent;

    /// Takes what the client's machine has for the node, and answers on the spot what it can.
    fn pull(&self, work: &mut dyn Work, how: Pull, now: Moment) -> Pulled;

    /// Sees to it that what is queued leaves: at once if the node is idle, else gathered with more.
    fn flush(&self);

    /// The same for one request that nobody waits for urgently: it may leave when the next answer
    /// comes, so that the node is done with what it was asked before.
    fn flush_behind(&self) {
        self.flush();
    }

    /// The address, without secrets.
    fn label(&self) -> &str;

    /// Why nothing can be asked right now, if so.
    fn node_error(&self) -> Option<NodeError>;

    /// Why it does not vote yet although it can be asked: this client only looks.
    fn why_not_yet(&self) -> Option<&'static str> {
        None
    }

    /// Counts connections: it is another number whenever the node has come up or gone down. What
    /// was heard while it was another may be over.
    fn connection(&self) -> u64;

    /// How long an answer takes as a rule; zero while that is not known.
    fn round_trip(&self) -> Duration;

    /// True while requests are unanswered.
    fn is_busy(&self) -> bool;
}

/// Keeps one link alive.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What waits to be sent to one node.
pub(crate) trait Work {
    /// Takes the next request. The node must send it, or answer it with `answer`. Only commands for
    /// which `joins` is true come in a batch.
    fn next(&mut self, joins: Joins) -> Option<Request>;

    /// The node has answered on the spot, or could not take the request on this connection.
    fn answer(&mut self, request: Request, answer: Result<Reply, NodeError>, connection: u64);
}

/// Who pulls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pull {
    /// A caller. A busy node leaves the work to its driver, which takes all of it together.
    IfIdle,
    /// The node's own driver.
    All,
}

/// What became of a pull.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pulled {
    /// Something is queued: the node is to be flushed.
    Queued,
    /// Everything was answered on the spot.
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

/// Where an answer goes.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    /// To the client's machine.
    Machine { listener: Arc<dyn Listener>, about: About },
    /// To an inbox, which tells questions apart by their numbers.
    Inbox { inbox: Arc<dyn Inbox>, number: usize },
}

impl Request {
    pub(crate) fn to_inbox(command: Command, number: usize, inbox: Arc<dyn Inbox>) -> Self {
        Self { command, to: ReplyTo::Inbox { inbox, number } }
    }

    pub(crate) const fn is_of_machine(&self) -> bool {
        matches!(self.to, ReplyTo::Machine { .. })
    }
}

/// A request, and what the node says to it.
pub(crate) type Answered = (Request, Result<Reply, NodeError>);

/// Delivers the answers of a node in their order. Consecutive answers for the machine are handled
/// together.
pub(crate) fn hand_out(node: usize, answers: impl IntoIterator<Item = Answered>, now: Moment) {
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

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Sent {
    /// It is on its way; the inbox will hear.
    Queued,
    /// It is answered already; the inbox will hear nothing.
    Answered(Result<Reply, NodeError>),
}

/// Takes in answers.
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

/// The most answers that are handled under one lock, since callers wait for that lock.
const TOGETHER_MAX: usize = 64;
