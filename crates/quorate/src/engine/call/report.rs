//! Reports of a call: to its caller about the nodes, and to observers.

use quorate_core::{
    acquire::{self, NodeCall},
    client::{self, CallId, Ended, round::QuorumRound, waiter::Waiter},
    command::{Command, Reply},
    moment::Moment,
    quorum::Vote,
    renew,
    round::RoundOutcome,
};

use super::{Call, Late, Record, first_replies_timeout};
use crate::{
    engine::{
        Engine,
        observers::Notice,
        report::{Failure, answer_now},
        shared::{Rest, Shared},
    },
    error::{NodeAnswer, NodeError, NodeReport},
    node::Node,
    observe,
};

impl Call {
    /// The present answer of each node to this call.
    pub(crate) fn reports(&self) -> Box<[NodeReport]> {
        let shared = self.engine.lock();
        let known = (shared.machine.call(self.id), shared.calls.get(&self.id));
        let answer = |number: usize, node: &dyn Node| {
            let (Some(call), Some(record)) = known else { return NodeAnswer::NotAwaited };
            match (call.waiter(), call.round()) {
                (Some(waiter), _) => {
                    let vote = vote_of(waiter, record, number, node);
                    let silence = silence_of(&self.engine, waiter, record, number);
                    answer_now(node, vote, record.failure(number), silence)
                }
                (_, Some(round)) => round_answer(round, record, number, node),
                (None, None) => NodeAnswer::NotAwaited,
            }
        };
        let nodes = self.engine.nodes.iter().enumerate();
        nodes.map(|(number, it)| NodeReport::new(it.label(), answer(number, &**it))).collect()
    }

    /// Whether too few nodes can be reached or reply without errors.
    pub(crate) fn is_short(&self) -> bool {
        let shared = self.engine.lock();
        shared.machine.call(self.id).and_then(client::Call::waiter).is_some_and(is_short)
    }

    /// Whether another owner is in the way.
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
    let (tally, failure) = (round.machine().tally(), record.failure(number));
    // Each node is asked once, so its vote stays valid.
    let vote = match tally {
        _ if tally.granted().contains(number) => Some(Vote::Grant),
        _ if tally.refused().contains(number) => Some(Vote::Refuse),
        _ => None,
    };
    let silence = match failure {
        _ if tally.pending().contains(number) => NodeAnswer::NotAwaited,
        // The node came up too late, or after the command was lost.
        Some(_) => NodeAnswer::Attached,
        None => NodeAnswer::NodeError(NodeError::TimedOut),
    };
    answer_now(node, vote, failure, silence)
}

/// The vote of a node while it is valid. A waiter asks repeatedly, so a refusal ends with the next
/// error, and every vote ends with the connection. The votes for a lock that was acquired stay.
fn vote_of(waiter: &Waiter, record: &Record, number: usize, node: &dyn Node) -> Option<Vote> {
    let machine = waiter.machine();
    let is_held = matches!(machine.outcome(), Some(acquire::Outcome::Held { .. }));
    let is_last = record.failure(number).is_none();
    match node.node_error() {
        Some(_) if !is_held => None,
        _ if machine.granted().contains(number) => Some(Vote::Grant),
        _ if machine.refused().contains(number) && is_last => Some(Vote::Refuse),
        _ => None,
    }
}

/// The answer to report for a node that can be reached and has not replied.
fn silence_of(engine: &Engine, waiter: &Waiter, record: &Record, node: usize) -> NodeAnswer {
    if !waiter.machine().unanswered().contains(node) {
        // No node is asked while too few can be reached.
        return NodeAnswer::Attached;
    }
    let terms = waiter.want().terms;
    let patience = match waiter.machine().is_waiting() {
        true => first_replies_timeout(engine, terms),
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

/// Whether too few nodes can be reached or reply without errors. This is also the case if a
/// majority has granted the lock but not agreed on a fence yet, because no other owner is in the
/// way then.
fn is_short(waiter: &Waiter) -> bool {
    let machine = waiter.machine();
    let has_rival = machine.is_contended() || machine.is_reserved();
    machine.lacks_quorum() || !has_rival
}

impl Shared {
    /// Records the reply of a node to a waiter.
    pub(super) fn record_waiter_reply(
        &mut self,
        engine: &Engine,
        node: usize,
        (id, node_call, sent_at, command): (CallId, NodeCall, Moment, &Command),
        answer: Result<&Reply, &Failure>,
        rest: &mut Rest,
        now: Moment,
    ) {
        let Some(record) = self.calls.get_mut(&id) else { return };
        if record.wakes_at_replies {
            rest.wake(record.waker.take());
        }
        if !node_call.is_acquire() {
            return;
        }
        let failure = answer.err();
        let waiter = self.machine.call(id).and_then(client::Call::waiter);
        let Some(waiter) = waiter else { return };
        let is_open = waiter.machine().outcome().is_none();
        if engine.is_observed() {
            let vote = answer.map_or(Vote::Unknown, |reply| command.vote(reply));
            let is_refused = vote == Vote::Refuse;
            let is_first = record.waiting_since.is_none() && waiter.machine().is_waiting();
            if is_refused && is_first && is_open {
                record.waiting_since = Some(now);
                rest.notify(Notice::WaitStarted { name: record.name.clone(), kind: record.kind });
            }
            let answer = NodeAnswer::of(vote, failure.map(|failure| &failure.node_error));
            let (round, action) = (record.round, record.action);
            let took = now.saturating_since(sent_at);
            rest.notify(Notice::Answered { round, action, node, answer, took });
        }
        if is_open {
            record.set_failure(node, failure);
        }
    }

    /// Records the reply of a node to a round.
    pub(super) fn record_vote(
        &mut self,
        engine: &Engine,
        node: usize,
        (id, command): (CallId, &Command),
        answer: Result<&Reply, &Failure>,
        rest: &mut Rest,
        now: Moment,
    ) {
        let Some(record) = self.calls.get_mut(&id) else { return };
        if record.wakes_at_replies {
            rest.wake(record.waker.take());
        }
        let failure = answer.err();
        if engine.is_observed() {
            let vote = answer.map_or(Vote::Unknown, |reply| command.vote(reply));
            let answer = NodeAnswer::of(vote, failure.map(|failure| &failure.node_error));
            let (round, action) = (record.round, record.action);
            let took = now.saturating_since(record.started_at);
            rest.notify(Notice::Answered { round, action, node, answer, took });
        }
        if failure.is_some() {
            record.set_failure(node, failure);
        }
    }
}

/// The outcome of a call as the observer sees it.
pub(super) const fn outcome_of(ended: Ended, late: Option<Late>) -> observe::Outcome {
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
