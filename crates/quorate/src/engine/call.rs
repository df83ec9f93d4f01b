//! The caller's handle of one call of the client's state machine.

mod downgrade;
mod report;

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, Waker, ready},
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
    timers::FOREVER,
};

/// One call. If it is dropped before the outcome was taken, the client releases what it may have
/// acquired. The state machine continues with it until every node has answered.
pub(crate) struct Call {
    engine: Arc<Engine>,
    id: CallId,
    started_at: Moment,
    is_taken: AtomicBool,
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
    waker: Option<Waker>,
    /// Whether to wake the caller at every reply, not only at the outcome.
    wakes_at_replies: bool,
    /// Why the last command to a node got no reply.
    failures: Vec<(usize, Failure)>,
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
        let is_taken = AtomicBool::new(false);
        Self { engine: engine.clone(), id, started_at, is_taken }
    }

    /// Waits for the outcome.
    pub(crate) async fn outcome(&self) -> Ended {
        poll_fn(|cx| self.poll_outcome(cx.waker())).await
    }

    /// Waits for the outcome; `None` if the deadline comes first.
    ///
    /// Even a caller without any time waits for the first replies, up to the vote timeout. So it
    /// gets a lock that is free.
    pub(crate) async fn outcome_until(&self, deadline: Option<Moment>) -> Option<Ended> {
        let engine = &self.engine;
        let mut sleep = deadline.map(|at| engine.sleep_until(at));
        let mut is_late = false;
        poll_fn(|cx| {
            if let Poll::Ready(ended) = self.poll_outcome(cx.waker()) {
                return Poll::Ready(Some(ended));
            }
            loop {
                let Some(sleep) = &mut sleep else { return Poll::Pending };
                if is_late && !self.is_pending() {
                    return Poll::Ready(self.give_up());
                }
                ready!(Pin::new(&mut *sleep).poll(cx));
                let replies_by = self.first_replies_by();
                if is_late || engine.now() >= replies_by || replies_by == FOREVER {
                    return Poll::Ready(self.give_up());
                }
                is_late = true;
                *sleep = engine.sleep_until(replies_by);
            }
        })
        .await
    }

    /// Records that the caller's time has run out.
    fn give_up(&self) -> Option<Ended> {
        let late = if self.is_short() { Late::Short } else { Late::Busy };
        if let Some(record) = self.engine.lock().calls.get_mut(&self.id) {
            record.late = Some(late);
        }
        None
    }

    fn poll_outcome(&self, waker: &Waker) -> Poll<Ended> {
        let mut shared = self.engine.lock();
        if let Some(ended) = shared.machine.take_outcome(self.id) {
            self.is_taken.store(true, Ordering::Relaxed);
            return Poll::Ready(ended);
        }
        let before = shared.listen(self.id, waker);
        drop(shared);
        // Dropping a waker runs code of others, so it happens without the mutex.
        drop(before);
        Poll::Pending
    }

    /// Waits until every node has answered or the vote timeout has passed.
    pub(crate) async fn settled(&self, terms: Terms) {
        let mut sleep = self.engine.sleep_until(terms.give_up_at(self.started_at));
        poll_fn(|cx| match self.poll_until(cx.waker(), |call| (!call.is_open()).then_some(())) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => Pin::new(&mut sleep).poll(cx),
        })
        .await;
    }

    /// Waits until every node has answered, or until `until`. Returns whether the nodes know the
    /// owner only by its keys, and not as a waiter.
    pub(crate) async fn has_left_only_keys(&self, until: Moment) -> bool {
        let is_own =
            |call: &client::Call| call.waiter().is_some_and(|it| it.want().adopts.is_none());
        if !self.engine.lock().machine.call(self.id).is_some_and(is_own) {
            return false; // The lease came from another process.
        }
        let mut sleep = self.engine.sleep_until(until);
        poll_fn(|cx| {
            let read = |call: &client::Call| {
                let side_effects = call.waiter()?.machine().side_effects();
                side_effects.are_settled().then(|| side_effects.are_none())
            };
            match self.poll_until(cx.waker(), read) {
                Poll::Ready(are_none) => Poll::Ready(are_none),
                Poll::Pending => Pin::new(&mut sleep).poll(cx).map(|()| false),
            }
        })
        .await
    }

    /// Waits for something that replies after the outcome may bring.
    fn poll_until<T>(
        &self,
        waker: &Waker,
        read: impl FnOnce(&client::Call) -> Option<T>,
    ) -> Poll<T> {
        let mut shared = self.engine.lock();
        if let Some(seen) = shared.machine.call(self.id).and_then(read) {
            return Poll::Ready(seen);
        }
        let before = shared.listen(self.id, waker);
        if let Some(record) = shared.calls.get_mut(&self.id) {
            record.wakes_at_replies = true;
        }
        drop(shared);
        drop(before);
        Poll::Pending
    }

    /// Whether a node has not answered the last request of an acquire. From now on every reply
    /// wakes the caller.
    fn is_pending(&self) -> bool {
        let mut shared = self.engine.lock();
        if let Some(record) = shared.calls.get_mut(&self.id) {
            record.wakes_at_replies = true;
        }
        let waiter = shared.machine.call(self.id).and_then(client::Call::waiter);
        waiter.is_some_and(|waiter| waiter.machine().is_pending())
    }

    /// Takes the lock that was acquired as a lease, which is renewed from now on. The outcome must
    /// have been taken.
    pub(crate) fn keep(&self, hold: Hold) -> Option<Arc<Held>> {
        self.engine.work(|shared, now| {
            let hold = client::Hold { renewal: hold.renewal, until: hold.until(now) };
            shared.keep(self.id, hold, now)
        })
    }

    /// Whether any node has refused.
    pub(crate) fn is_refused_somewhere(&self) -> bool {
        let shared = self.engine.lock();
        let round = shared.machine.call(self.id).and_then(client::Call::round);
        round.is_some_and(|round| !round.machine().tally().refused().is_empty())
    }

    /// Until when a caller without time waits for the first replies: the usual vote timeout, even
    /// if a longer one is configured.
    fn first_replies_by(&self) -> Moment {
        let shared = self.engine.lock();
        let waiter = shared.machine.call(self.id).and_then(client::Call::waiter);
        let Some(terms) = waiter.map(|waiter| waiter.want().terms) else { return self.started_at };
        self.started_at.saturating_add(first_replies_timeout(&self.engine, terms))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let take_waker = |shared: &mut Shared| {
            shared.calls.get_mut(&self.id).and_then(|record| record.waker.take())
        };
        let waker = if self.is_taken.load(Ordering::Relaxed) {
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
            failures: Vec::new(),
            asked_at: Vec::new(),
            waiting_since: None,
            ended_at: None,
            late: None,
        })
    }

    fn failure(&self, node: usize) -> Option<&Failure> {
        self.failures.iter().find(|(of, _)| *of == node).map(|(_, failure)| failure)
    }

    /// Records how the last command to a node failed, or that it got a reply.
    fn set_failure(&mut self, node: usize, failure: Option<&Failure>) {
        self.failures.retain(|(of, _)| *of != node);
        self.failures.extend(failure.map(|failure| (node, failure.clone())));
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
