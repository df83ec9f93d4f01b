//! The caller's handle of one call of the client's state machine.

mod downgrade;
mod report;
mod wait;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::Waker,
    time::Duration,
};

pub(crate) use quorate_core::client::{
    Ended,
    round::{Claim, Machine},
};
use quorate_core::{
    acquire::Wait,
    client::{self, About, CallId, waiter::Want},
    command::{Command, Reply},
    moment::Moment,
    name::Name,
    round::RoundKind,
    terms::Terms,
};

use super::{
    Engine,
    held::{Held, Hold},
    observers::Notice,
    report::{Failure, node_error_now},
    shared::{Order, Rest, Shared},
};
use crate::{
    error::NodeError,
    observe::{Action, Event, LockKind},
};

/// One call. If it is dropped before the outcome was taken, the client releases what it may have
/// acquired. The state machine continues with it until every node has answered.
pub(crate) struct Call {
    engine: Arc<Engine>,
    id: CallId,
    started_at: Moment,
    progress: AtomicU8,
}

/// The progress of the caller.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Progress {
    Waiting,
    /// It has taken the outcome.
    Taken,
    /// It is done with the call.
    Closed,
}

/// What the driver knows about a call, in addition to the state machine.
#[derive(Debug)]
pub(super) struct Record {
    action: Action,
    name: Name,
    pub(super) kind: LockKind,
    /// The number of the call, for the observer.
    round: u64,
    started_at: Moment,
    pub(super) waker: Option<Waker>,
    /// Whether to wake the caller at every reply, not only at the outcome.
    wakes_at_replies: bool,
    /// Why the last command to a node got no reply. Most calls have none.
    #[expect(clippy::box_collection, reason = "a third of the size while it is absent")]
    failures: Option<Box<Vec<(usize, Failure)>>>,
    /// By node, when a waiter last sent a request.
    asked_at: Vec<Moment>,
    waiting_since: Option<Moment>,
    ended_at: Option<Moment>,
    /// Set if the caller's time ran out before there was an outcome.
    late: Option<Late>,
}

/// Why there was no outcome when the caller's time ran out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Late {
    /// Too few nodes have answered.
    Short,
    /// Another owner is in the way.
    Busy,
}

impl Call {
    /// Starts to acquire a lock, and returns without waiting for anything.
    pub(crate) fn acquire(engine: &Arc<Engine>, want: Want, kind: LockKind) -> Self {
        let is_waiting = want.wait != Wait::Never;
        let mut record = Record::start(engine, Action::Acquire, want.name.clone(), kind);
        let (id, started_at) = engine.work_in_order(|shared, now| {
            record.started_at = now;
            // Earlier waiters of this client for the lock come first, so their commands are sent
            // first.
            let is_behind = is_waiting && shared.machine.is_awaited(&want.name);
            let id = shared.acquiring(engine, now, |shared| {
                let id = shared.machine.acquire(want, now);
                shared.calls.insert(id, record);
                Box::new([id])
            })[0];
            ((id, now), if is_behind { Order::Behind } else { Order::Next })
        });
        Self::new(engine, id, started_at)
    }

    /// Starts to acquire several locks, all or none, and returns without waiting for anything. All
    /// become held at the same moment.
    pub(crate) fn acquire_all(engine: &Arc<Engine>, wants: Vec<Want>) -> Vec<Self> {
        let start =
            |want: &Want| Record::start(engine, Action::Acquire, want.name.clone(), LockKind::Set);
        let records: Vec<_> = wants.iter().map(start).collect();
        let (ids, started_at) = engine.work(|shared, now| {
            let ids = shared.acquiring(engine, now, |shared| {
                let ids = shared.machine.acquire_all(wants, now);
                for (id, mut record) in ids.iter().zip(records) {
                    record.started_at = now;
                    shared.calls.insert(*id, record);
                }
                ids
            });
            (ids, now)
        });
        ids.iter().map(|id| Self::new(engine, *id, started_at)).collect()
    }

    /// Sends one command about an owner to all nodes, and returns without waiting for anything.
    pub(crate) fn ask(
        engine: &Arc<Engine>,
        claim: Claim,
        kind: LockKind,
        machine: Machine,
    ) -> Self {
        let action = match machine.kind() {
            RoundKind::Extend => Action::Extend,
            RoundKind::Check => Action::Verify,
            RoundKind::Release => Action::Release,
        };
        let record = Record::start(engine, action, claim.name.clone(), kind);
        let begun = Self::begin_recorded(engine, record, |shared, now| {
            Ok::<_, std::convert::Infallible>(shared.machine.ask(claim, machine, now))
        });
        let Ok(call) = begun;
        call
    }

    /// Starts a call about a lease.
    pub(crate) fn begin<E>(
        engine: &Arc<Engine>,
        action: Action,
        held: &Held,
        begin: impl FnOnce(&mut Shared, Moment) -> Result<CallId, E>,
    ) -> Result<Self, E> {
        let record = Record::start(engine, action, held.name.clone(), held.kind);
        Self::begin_recorded(engine, record, begin)
    }

    fn begin_recorded<E>(
        engine: &Arc<Engine>,
        mut record: Box<Record>,
        begin: impl FnOnce(&mut Shared, Moment) -> Result<CallId, E>,
    ) -> Result<Self, E> {
        let (id, started_at) = engine.work(|shared, now| {
            record.started_at = now;
            let id = begin(shared, now)?;
            shared.calls.insert(id, record);
            Ok((id, now))
        })?;
        Ok(Self::new(engine, id, started_at))
    }

    fn new(engine: &Arc<Engine>, id: CallId, started_at: Moment) -> Self {
        let progress = AtomicU8::new(Progress::Waiting as u8);
        Self { engine: engine.clone(), id, started_at, progress }
    }

    fn is_at(&self, progress: Progress) -> bool {
        self.progress.load(Ordering::Relaxed) == progress as u8
    }

    fn set_progress(&self, progress: Progress) {
        self.progress.store(progress as u8, Ordering::Relaxed);
    }

    /// Records that the caller has taken the outcome and is done with the call.
    fn close(&self, shared: &mut Shared) {
        shared.close_call(self.id);
        self.set_progress(Progress::Closed);
    }

    /// Takes the lock that was acquired as a lease, which is renewed from now on. The outcome must
    /// have been taken.
    pub(crate) fn keep(&self, hold: Hold) -> Option<Arc<Held>> {
        self.engine.work(|shared, now| {
            let hold = client::Hold { renewal: hold.renewal, until: hold.until(now) };
            let held = shared.keep(self.id, hold, now)?;
            // Otherwise the caller wants to know what the nodes answered.
            if now < held.valid_until() {
                self.close(shared);
            }
            Some(held)
        })
    }

    /// Whether any node has refused.
    pub(crate) fn is_refused_somewhere(&self) -> bool {
        let shared = self.engine.lock();
        let round = shared.machine.call(self.id).and_then(client::Call::round);
        round.is_some_and(|round| !round.machine().tally().refused().is_empty())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let take_waker = |shared: &mut Shared| {
            shared.calls.get_mut(&self.id).and_then(|record| record.waker.take())
        };
        if self.is_at(Progress::Closed) {
            return;
        }
        let waker = if self.is_at(Progress::Taken) {
            let mut shared = self.engine.lock();
            let waker = take_waker(&mut shared);
            shared.close_call(self.id);
            waker
        } else {
            self.engine.work(|shared, now| {
                shared.machine.abandon(self.id, now);
                take_waker(shared)
            })
        };
        drop(waker);
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the engine: its links contain calls, which contain the engine.
        f.debug_struct("Call").field("id", &self.id).finish_non_exhaustive()
    }
}

fn first_replies_timeout(engine: &Engine, terms: Terms) -> Duration {
    terms.vote_timeout().min(engine.usual_vote_timeout(terms.ttl()))
}

impl Record {
    /// Creates the record of a call and notifies the observer of its start.
    fn start(engine: &Engine, action: Action, name: Name, kind: LockKind) -> Box<Self> {
        let round = engine.next_round();
        engine.notify_observer(&Event::Started { round, action, name: name.as_str(), kind });
        Box::new(Self {
            action,
            name,
            kind,
            round,
            started_at: Moment::ZERO,
            waker: None,
            wakes_at_replies: false,
            failures: None,
            asked_at: match action {
                Action::Acquire => Vec::with_capacity(engine.nodes.len()),
                _ => Vec::new(),
            },
            waiting_since: None,
            ended_at: None,
            late: None,
        })
    }

    fn failure(&self, node: usize) -> Option<&Failure> {
        let mut failures = self.failures.as_deref().into_iter().flatten();
        failures.find(|(of, _)| *of == node).map(|(_, failure)| failure)
    }

    /// Records how the last command to a node failed, or that it got a reply.
    fn set_failure(&mut self, node: usize, failure: Option<&Failure>) {
        if let Some(failures) = &mut self.failures {
            failures.retain(|(of, _)| *of != node);
        }
        if let Some(failure) = failure {
            self.failures.get_or_insert_default().push((node, failure.clone()));
        }
    }
}

impl Shared {
    /// Records that the caller has taken the outcome and is done with the call.
    pub(crate) fn close_call(&mut self, call: CallId) {
        self.machine.close_call(call);
        if self.machine.call(call).is_none() {
            self.calls.remove(&call);
        }
    }

    /// Begins calls that acquire locks. Calls that cannot succeed give up immediately.
    fn acquiring(
        &mut self,
        engine: &Engine,
        now: Moment,
        begin: impl FnOnce(&mut Self) -> Box<[CallId]>,
    ) -> Box<[CallId]> {
        let is_short = self.is_short(engine);
        if is_short {
            self.update_reachable(engine, now);
        }
        let ids = begin(self);
        ids.iter()
            .filter(|_| is_short)
            .for_each(|id| self.give_up_call_if_denied(engine, *id, now));
        ids
    }

    /// Wakes this waker at the outcome. Returns the one that it replaces.
    fn listen(&mut self, call: CallId, waker: &Waker) -> Option<Waker> {
        let record = self.calls.get_mut(&call)?;
        match &record.waker {
            Some(known) if known.will_wake(waker) => None,
            _ => record.waker.replace(waker.clone()),
        }
    }

    pub(super) fn record_sent(
        &mut self,
        node: usize,
        about: &About,
        command: &Command,
        now: Moment,
    ) {
        for entry in about.entries(command, None) {
            if let (About::Waiter(question), ..) = entry
                && question.node_call.is_acquire()
                && let Some(record) = self.calls.get_mut(&question.call)
            {
                if record.asked_at.len() <= node {
                    record.asked_at.resize(node + 1, record.started_at);
                }
                record.asked_at[node] = now;
            }
        }
    }

    /// Records the reply of a node for reports, for the observer, and for callers that wait for
    /// replies.
    pub(super) fn record_answer(
        &mut self,
        engine: &Engine,
        node: usize,
        (about, command): (&About, &Command),
        answer: &Result<Reply, Failure>,
        rest: &mut Rest,
        now: Moment,
    ) {
        for (about, command, reply) in about.entries(command, answer.as_ref().ok()) {
            let failure =
                |node_error| Err(Failure::new(node_error, engine.nodes[node].connection()));
            let reply = match (reply, answer) {
                (Some(Reply::Full), _) => failure(NodeError::OutOfMemory),
                (Some(reply), _) => Ok(reply),
                (None, Err(whole)) => Err(whole.clone()),
                (None, Ok(_)) => failure(NodeError::Server(
                    "it could not execute the command for this lock".into(),
                )),
            };
            let reply = reply.as_ref().copied();
            match about {
                About::Waiter(question) => {
                    let of = (question.call, question.node_call, question.sent_at, command);
                    self.record_waiter_reply(engine, node, of, reply, rest, now);
                }
                About::Round(call) => {
                    self.record_vote(engine, node, (*call, command), reply, rest, now);
                }
                About::Renewals(_) | About::Orphan | About::Debt(_) | About::Batch(_) => {}
            }
        }
    }

    /// Wakes the caller and notifies the observer: the outcome of the call is certain.
    pub(super) fn handle_ended(
        &mut self,
        engine: &Engine,
        (id, ended): (CallId, Ended),
        rest: &mut Rest,
        now: Moment,
    ) {
        let Some(record) = self.calls.get_mut(&id) else { return };
        rest.wake(record.waker.take());
        if record.ended_at.replace(now).is_none() && engine.is_observed() {
            let outcome = report::outcome_of(ended, record.late);
            let Record { round, action, kind, .. } = **record;
            let (name, took) = (record.name.clone(), now.saturating_since(record.started_at));
            rest.notify(Notice::Ended { round, action, name: name.clone(), kind, outcome, took });
            if let Some(since) = record.waiting_since {
                rest.notify(Notice::WaitEnded { name, kind, waited: now.saturating_since(since) });
            }
        }
    }

    /// Gives up a call if the nodes that do not deny this client are no majority.
    pub(super) fn give_up_call_if_denied(&mut self, engine: &Engine, id: CallId, now: Moment) {
        let Some(call) = self.machine.call(id) else { return };
        if call.waiter().is_none() || call.ended().is_some() {
            return;
        }
        let Some(record) = self.calls.get(&id) else { return };
        let known = engine.nodes.iter().enumerate();
        let node_errors =
            known.filter_map(|(number, node)| node_error_now(&**node, record.failure(number)));
        let denials = node_errors.filter(NodeError::is_denial).count();
        if engine.nodes.len() - denials < quorate_core::quorum::majority(engine.nodes.len()) {
            self.machine.give_up(id, now);
        }
    }
}
