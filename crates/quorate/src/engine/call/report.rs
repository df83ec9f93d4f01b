//! What a call tells: callers about the nodes, and observers about everything.

use quorate_core::{
    acquire::{self, NodeCall},
    client::{self, CallId, Ended, round::QuorumRound, waiter::Waiter},
    command::{Command, Reply},
    moment::Moment,
    quorum::Vote,
    renew,
    round::RoundOutcome,
};

use super::{Call, Late, Record, patience_with_first_answers};
use crate::{
    engine::{
        Engine,
        observers::Notice,
        report::{Heard, answer_now},
        shared::{Rest, Shared},
    },
    error::{NodeAnswer, NodeError, NodeReport},
    node::Node,
    observe,
};

impl Call {
    /// What each node has to say to this call, as of now.
    pub(crate) fn reports(&self) -> Box<[NodeReport]> {
        let shared = self.engine.lock();
        let known = (shared.machine.call(self.id), shared.calls.get(&self.id));
        let answer = |number: usize, node: &dyn Node| {
            let (Some(call), Some(record)) = known else { return NodeAnswer::NotAwaited };
            match (call.waiter(), call.round()) {
                (Some(waiter), _) => {
                    let vote = vote_of(waiter, record, number, node);
                    let silence = silence_of(&self.engine, waiter, record, number);
                    answer_now(node, vote, record.heard(number), silence)
                }
                (_, Some(round)) => round_answer(round, record, number, node),
                (None, None) => NodeAnswer::NotAwaited,
            }
        };
        let nodes = self.engine.nodes.iter().enumerate();
        nodes.map(|(number, it)| NodeReport::new(it.label(), answer(number, &**it))).collect()
    }

    /// True while too few nodes can be reached, or answer anything but errors.
    pub(crate) fn is_short(&self) -> bool {
        let shared = self.engine.lock();
        shared.machine.call(self.id).and_then(client::Call::waiter).is_some_and(is_short)
    }

    /// True if another owner is in the way.
    pub(crate) fn is_contended(&self) -> bool {
        let shared = self.engine.lock();
        let waiter = shared.machine.call(self.id).and_then(client::Call::waiter);
        waiter.is_some_and(|it| it.machine().is_contended() && !it.machine().lacks_quorum())
    }
}

fn round_answer(
    round: &QuorumRound,
    record: &Record,
    number: usize,
    node: &dyn Node,
) -> NodeAnswer {
    let (tally, heard) = (round.machine().tally(), record.heard(number));
    // Each node is asked once: what it has said stands, whatever becomes of it.
    let vote = match tally {
        _ if tally.granted().contains(number) => Some(Vote::Grant),
        _ if tally.refused().contains(number) => Some(Vote::Refuse),
        _ => None,
    };
    let silence = match heard {
        _ if tally.pending().contains(number) => NodeAnswer::NotAwaited,
        // It came up too late to be asked, or after the question was lost.
        Some(_) => NodeAnswer::Attached,
        None => NodeAnswer::NodeError(NodeError::TimedOut),
    };
    answer_now(node, vote, heard, silence)
}

/// The vote of a node, for as long as it stands. A waiter asks again and again: a refusal is over
/// with the next error, and either vote with the connection. What was won was won.
fn vote_of(waiter: &Waiter, record: &Record, number: usize, node: &dyn Node) -> Option<Vote> {
    let machine = waiter.machine();
    let is_held = matches!(machine.outcome(), Some(acquire::Outcome::Held { .. }));
    let is_last = record.heard(number).is_none();
    match node.node_error() {
        Some(_) if !is_held => None,
        _ if machine.granted().contains(number) => Some(Vote::Grant),
        _ if machine.refused().contains(number) && is_last => Some(Vote::Refuse),
        _ => None,
    }
}

/// What to say of a node that can be asked, and has no answer to tell.
fn silence_of(engine: &Engine, waiter: &Waiter, record: &Record, node: usize) -> NodeAnswer {
    if !waiter.machine().unanswered().contains(node) {
        // Nobody is asked while too few can be.
        return NodeAnswer::Attached;
    }
    let terms = waiter.want().terms;
    let patience = match waiter.machine().is_waiting() {
        true => patience_with_first_answers(engine, terms),
        false => terms.vote_timeout(),
    };
    let ended_at = record.ended_at.unwrap_or_else(|| engine.now());
    let asked_at = record.asked_at.get(node).copied().unwrap_or(record.started_at);
    let is_late = ended_at >= asked_at.saturating_add(patience);
    match waiter.machine().outcome() {
        Some(acquire::Outcome::Held { .. } | acquire::Outcome::Contended) => NodeAnswer::NotAwaited,
        Some(acquire::Outcome::NoQuorum | acquire::Outcome::Abandoned) | None => match is_late {
            true => NodeAnswer::NodeError(NodeError::TimedOut),
            false => NodeAnswer::NotAwaited,
        },
    }
}

/// True while too few nodes can be reached, or answer anything but errors; and while a majority has
/// granted and not agreed on a fence yet, since no other owner is in the way.
fn is_short(waiter: &Waiter) -> bool {
    let machine = waiter.machine();
    let has_someone_to_wait_for = machine.is_contended() || machine.is_reserved();
    machine.lacks_quorum() || !has_someone_to_wait_for
}

impl Shared {
    /// What a node has answered to a waiter.
    pub(super) fn note_waiter_answer(
        &mut self,
        engine: &Engine,
        node: usize,
        (id, node_call, sent_at, command): (CallId, NodeCall, Moment, &Command),
        answer: Result<&Reply, &Heard>,
        rest: &mut Rest,
        now: Moment,
    ) {
        let Some(record) = self.calls.get_mut(&id) else { return };
        if record.is_nosy {
            rest.wake(record.waker.take());
        }
        if !node_call.is_acquire() {
            return;
        }
        let heard = answer.err();
        let waiter = self.machine.call(id).and_then(client::Call::waiter);
        let Some(waiter) = waiter else { return };
        let is_open = waiter.machine().outcome().is_none();
        if engine.is_observed() {
            let vote = answer.map_or(Vote::Unknown, |reply| command.vote(reply));
            let is_refused = vote == Vote::Refuse;
            let is_first = record.waiting_since.is_none() && waiter.machine().is_waiting();
            if is_refused && is_first && is_open {
                record.waiting_since = Some(now);
                rest.tell(Notice::WaitStarted { name: record.name.clone(), kind: record.kind });
            }
            let answer = NodeAnswer::of(vote, heard.map(|heard| &heard.node_error));
            let (round, action) = (record.round, record.action);
            let took = now.saturating_since(sent_at);
            rest.tell(Notice::Answered { round, action, node, answer, took });
        }
        if is_open {
            record.hear(node, heard);
        }
    }

    /// What a node has answered to a round.
    pub(super) fn note_vote(
        &mut self,
        engine: &Engine,
        node: usize,
        (id, command): (CallId, &Command),
        answer: Result<&Reply, &Heard>,
        rest: &mut Rest,
        now: Moment,
    ) {
        let Some(record) = self.calls.get_mut(&id) else { return };
        if record.is_nosy {
            rest.wake(record.waker.take());
        }
        let heard = answer.err();
        if engine.is_observed() {
            let vote = answer.map_or(Vote::Unknown, |reply| command.vote(reply));
            let answer = NodeAnswer::of(vote, heard.map(|heard| &heard.node_error));
            let (round, action) = (record.round, record.action);
            let took = now.saturating_since(record.started_at);
            rest.tell(Notice::Answered { round, action, node, answer, took });
        }
        if heard.is_some() {
            record.hear(node, heard);
        }
    }
}

/// The outcome of a call in the words of the observer.
pub(super) const fn told(ended: Ended, late: Option<Late>) -> observe::Outcome {
    match ended {
        Ended::Acquire(acquire::Outcome::Abandoned) if late.is_none() => {
            observe::Outcome::Cancelled
        }
        Ended::Acquire(acquire::Outcome::Abandoned) if matches!(late, Some(Late::Short)) => {
            observe::Outcome::NoQuorum
        }
        Ended::Acquire(acquire::Outcome::Contended | acquire::Outcome::Abandoned) => {
            observe::Outcome::Busy
        }
        Ended::Acquire(acquire::Outcome::Held { .. })
        | Ended::Renew(renew::Outcome::Extended { .. })
        | Ended::Round(_, RoundOutcome::Agreed) => observe::Outcome::Done,
        Ended::Acquire(acquire::Outcome::NoQuorum)
        | Ended::Renew(renew::Outcome::Unsure)
        | Ended::Round(_, RoundOutcome::Unsure) => observe::Outcome::NoQuorum,
        Ended::Renew(renew::Outcome::TooLate) => observe::Outcome::TooLate,
        Ended::Renew(renew::Outcome::Gone) | Ended::Round(_, RoundOutcome::Refused) => {
            observe::Outcome::Gone
        }
    }
}
