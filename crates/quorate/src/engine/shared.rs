//! Drives the client's state machine, under one mutex.
//!
//! Commands enter the queues of the nodes before the mutex is released, so they reach a node in the
//! order of the state machine. Callers are woken, observers notified and bytes written without the
//! mutex.

use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard, PoisonError, Weak},
    task::Waker,
    time::Duration,
};

use quorate_core::{
    client::{About, CallId, Client as Machine, Event, Joins, Transmit, watchdog::LeaseId},
    command::{Command, Reply},
    lease::LostReason,
    moment::Moment,
    quorum::{NodeSet, majority},
};

use super::{Engine, call::Record, held::Held, names::Names, observers::Notice, report::Failure};
use crate::{
    error::NodeError,
    node::{Pull, Pulled, ReplyTo, Request, Work},
    timers::{FOREVER, Timed},
};

/// The state that the engine's mutex protects.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) machine: Machine<Names>,
    /// What the driver knows about the calls and leases of the state machine.
    pub(super) calls: BTreeMap<CallId, Box<Record>>,
    pub(crate) held: BTreeMap<LeaseId, Arc<Held>>,
    armed_at: Option<Moment>,
    /// Kept alive here, because the timer has a weak reference.
    tick: Option<Arc<Tick>>,
}

/// What remains to be done without the mutex.
#[derive(Debug)]
#[must_use]
pub(super) struct Rest {
    /// The nodes whose queues must be flushed.
    queued: NodeSet,
    waker: Option<Waker>,
    wakers: Vec<Waker>,
    lost: Vec<Arc<Held>>,
    notices: Vec<Notice>,
    /// The next timer could not be set: the engine has ended.
    is_ended: bool,
}

impl Default for Rest {
    fn default() -> Self {
        let (waker, wakers, lost, notices) = (None, Vec::new(), Vec::new(), Vec::new());
        Self { queued: NodeSet::EMPTY, waker, wakers, lost, notices, is_ended: false }
    }
}

impl Rest {
    pub(super) fn wake(&mut self, waker: Option<Waker>) {
        match (&self.waker, waker) {
            (_, None) => {}
            (None, waker) => self.waker = waker,
            (Some(_), Some(waker)) => self.wakers.push(waker),
        }
    }

    /// Records that the queue of this node needs no flush.
    pub(super) fn is_written(&mut self, node: usize) {
        self.queued.remove(node);
    }

    pub(super) fn notify(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    fn finish(self, engine: &Engine, order: Order) {
        self.waker.into_iter().chain(self.wakers).for_each(Waker::wake);
        self.lost.iter().for_each(|held| held.wake());
        self.queued.iter().for_each(|node| match order {
            Order::Behind => engine.nodes[node].flush_behind(),
            Order::Next => engine.nodes[node].flush(),
        });
        self.notices.iter().for_each(|notice| notice.send(engine));
    }
}

impl Shared {
    pub(super) fn new(machine: Machine<Names>) -> Self {
        let (calls, held) = (BTreeMap::new(), BTreeMap::new());
        Self { machine, calls, held, armed_at: None, tick: None }
    }

    /// Updates which nodes can be reached. Events about that may still be on the way.
    pub(super) fn update_reachable(&mut self, engine: &Engine, now: Moment) {
        for node in engine.reachable().iter() {
            self.machine.handle_up(node, now);
        }
    }

    /// Whether too few nodes can be reached, as far as the client knows.
    pub(super) fn is_short(&self, engine: &Engine) -> bool {
        self.machine.up().len() < majority(engine.nodes.len())
    }

    /// Executes the outputs of the state machine until it waits, or until all nodes with commands
    /// are busy.
    fn drive(&mut self, engine: &Arc<Engine>, rest: &mut Rest, now: Moment) {
        let mut busy = NodeSet::EMPTY;
        loop {
            if let Some(node) = self.machine.nodes_to_send().without(busy).iter().next() {
                if self.send(engine, node, Pull::IfIdle, rest, now) == Pulled::Later {
                    busy.insert(node);
                }
            } else if let Some(event) = self.machine.poll_event() {
                self.handle_event(engine, event, rest, now);
            } else {
                break;
            }
        }
        self.arm(engine, rest);
    }

    /// Lets a node take the commands that the state machine has for it.
    pub(super) fn send(
        &mut self,
        engine: &Arc<Engine>,
        node: usize,
        how: Pull,
        rest: &mut Rest,
        now: Moment,
    ) -> Pulled {
        let mut work = Waiting { shared: self, engine, node, answered: Vec::new(), now };
        let pulled = engine.nodes[node].pull(&mut work, how, now);
        if pulled != Pulled::Answered {
            rest.queued.insert(node);
        }
        for (about, command, answer) in work.answered {
            self.record_answer(engine, node, (&about, &command), &answer, rest, now);
            match &answer {
                Ok(reply) => self.machine.handle_answer(node, (&about, &command), Some(reply), now),
                Err(_) => self.machine.handle_unsent(node, (&about, &command), now),
            }
            self.give_up_if_denied(engine, (&about, &command), answer.as_ref().ok(), now);
        }
        pulled
    }

    pub(super) fn handle_answer(
        &mut self,
        engine: &Arc<Engine>,
        node: usize,
        (about, command): (&About, &Command),
        answer: Result<Reply, NodeError>,
        rest: &mut Rest,
        now: Moment,
    ) {
        let connection = || engine.nodes[node].connection();
        let answer = answer.map_err(|node_error| Failure::new(node_error, connection()));
        self.record_answer(engine, node, (about, command), &answer, rest, now);
        self.machine.handle_answer(node, (about, command), answer.as_ref().ok(), now);
        self.give_up_if_denied(engine, (about, command), answer.as_ref().ok(), now);
    }

    fn handle_event(&mut self, engine: &Engine, event: Event, rest: &mut Rest, now: Moment) {
        match event {
            Event::Closed(call) => rest.wake(self.calls.remove(&call).and_then(|it| it.waker)),
            Event::Ended(call, ended) => self.handle_ended(engine, (call, ended), rest, now),
            Event::Lease(event) => self.handle_lease_event(engine, event, rest),
        }
    }

    /// Updates what guards read.
    fn handle_lease_event(
        &self,
        engine: &Engine,
        event: quorate_core::client::watchdog::Event,
        rest: &mut Rest,
    ) {
        use quorate_core::client::watchdog::Event as Lease;
        let (Lease::Valid { lease, .. }
        | Lease::Renewed { lease, .. }
        | Lease::AtRisk { lease }
        | Lease::Lost { lease, .. }) = event;
        let Some(held) = self.held.get(&lease) else { return };
        match event {
            Lease::Valid { until, .. } => held.set_valid_until(until),
            Lease::Lost { reason, .. } => {
                held.set_lost(reason);
                rest.lost.push(held.clone());
            }
            Lease::Renewed { .. } | Lease::AtRisk { .. } => {}
        }
        if engine.is_observed() && !matches!(event, Lease::Valid { .. }) {
            rest.notify(Notice::Lease { name: held.name.clone(), kind: held.kind, event });
        }
    }

    /// Sets the timer if something is due earlier.
    fn arm(&mut self, engine: &Arc<Engine>, rest: &mut Rest) {
        let Some(next) = self.machine.poll_timeout() else { return };
        if self.armed_at.is_none_or(|armed_at| next < armed_at) {
            let tick =
                self.tick.get_or_insert_with(|| Arc::new(Tick { engine: Arc::downgrade(engine) }));
            let weak: Weak<Tick> = Arc::downgrade(tick);
            rest.is_ended = engine.timers.add(next, weak).is_err();
            self.armed_at = Some(next).filter(|_| !rest.is_ended);
        }
    }

    /// Gives up all calls that are denied by too many nodes.
    pub(super) fn give_up_where_denied(&mut self, engine: &Engine, now: Moment) {
        let waiting: Vec<CallId> = self.calls.keys().copied().collect();
        waiting.into_iter().for_each(|call| self.give_up_call_if_denied(engine, call, now));
    }

    /// Gives up the calls for which this was an error, if too many nodes deny them.
    fn give_up_if_denied(
        &mut self,
        engine: &Engine,
        (about, command): (&About, &Command),
        reply: Option<&Reply>,
        now: Moment,
    ) {
        for (about, _, reply) in about.entries(command, reply) {
            if let About::Waiter(question) = about
                && reply.is_none_or(|reply| *reply == Reply::Full)
            {
                self.give_up_call_if_denied(engine, question.call, now);
            }
        }
    }

    /// Takes the lock that a call has acquired as a lease, and renews it from now on.
    pub(super) fn keep(
        &mut self,
        call: CallId,
        hold: quorate_core::client::Hold,
        now: Moment,
    ) -> Option<Arc<Held>> {
        let kind = self.calls.get(&call)?.kind;
        let id = self.machine.keep(call, hold, now)?;
        let held = Arc::new(Held::new(id, self.machine.lease(id)?, kind, now));
        self.held.insert(id, held.clone());
        Some(held)
    }

    /// Checks whether the holder may act at `now`. A lost lease stays lost.
    pub(crate) fn check(&mut self, held: &Held, now: Moment) -> Result<(), LostReason> {
        let checked = match self.machine.lease(held.id) {
            Some(_) => self.machine.check(held.id, now),
            // The guard was dropped, and only the deadline remains.
            None => held.check_deadline(now),
        };
        checked.inspect_err(|reason| held.set_lost(*reason))
    }
}

impl Engine {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the state machine an input and executes its outputs.
    pub(crate) fn work<T>(self: &Arc<Self>, act: impl FnOnce(&mut Shared, Moment) -> T) -> T {
        self.work_in_order(|shared, now| (act(shared, now), Order::Next))
    }

    /// Does the same, and determines when the commands are sent.
    pub(super) fn work_in_order<T>(
        self: &Arc<Self>,
        act: impl FnOnce(&mut Shared, Moment) -> (T, Order),
    ) -> T {
        let now = self.now();
        let mut shared = self.lock();
        let (result, order) = act(&mut shared, now);
        self.finish(shared, Rest::default(), order, now);
        result
    }

    /// Executes the outputs of the state machine, and the rest without the mutex.
    pub(super) fn finish(
        self: &Arc<Self>,
        mut shared: MutexGuard<'_, Shared>,
        mut rest: Rest,
        order: Order,
        now: Moment,
    ) {
        shared.drive(self, &mut rest, now);
        if std::mem::take(&mut rest.is_ended) {
            // There are no more timers, so all calls end now.
            shared.machine.handle_end(now);
            shared.drive(self, &mut rest, now);
        }
        drop(shared);
        rest.finish(self, order);
    }
}

#[cfg(test)]
impl Engine {
    /// Renews these leases.
    pub(crate) fn renew(self: &Arc<Self>, leases: &[LeaseId]) {
        let patience = |ttl| self.vote_timeout(ttl);
        self.work(|shared, now| shared.machine.renew(leases, &patience, now));
    }
}

/// When commands are sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Order {
    /// As soon as the node can accept them.
    Next,
    /// After the commands that the node already has.
    Behind,
}

/// The commands that the state machine has for one node.
struct Waiting<'a> {
    shared: &'a mut Shared,
    engine: &'a Arc<Engine>,
    node: usize,
    answered: Vec<(About, Command, Result<Reply, Failure>)>,
    now: Moment,
}

impl Work for Waiting<'_> {
    fn next(&mut self, joins: Joins) -> Option<Request> {
        let Transmit { about, command } = self.shared.machine.poll_transmit(self.node, joins)?;
        self.shared.record_sent(self.node, &about, &command, self.now);
        let to = ReplyTo::Machine { listener: self.engine.clone(), about };
        Some(Request { command, to })
    }

    fn len(&self) -> usize {
        self.shared.machine.waiting_for(self.node)
    }

    fn answer(&mut self, request: Request, answer: Result<Reply, NodeError>, connection: u64) {
        let Request { command, to } = request;
        if let ReplyTo::Machine { about, .. } = to {
            let answer = answer.map_err(|node_error| Failure::new(node_error, connection));
            self.answered.push((about, command, answer));
        }
    }
}

/// The timer of the state machine.
#[derive(Debug)]
struct Tick {
    engine: Weak<Engine>,
}

impl Timed for Tick {
    fn handle_timeout(self: Arc<Self>, at: Moment) {
        let Some(engine) = self.engine.upgrade() else { return };
        engine.work(|shared, now| {
            // This timer was replaced by an earlier one. It must not set another, or the number of
            // timers would grow.
            if shared.armed_at.is_none_or(|armed_at| at < armed_at) {
                return;
            }
            shared.armed_at = None;
            let wall = Duration::from_millis(engine.clock.wall_ms());
            shared.machine.handle_timeout(wall, &|ttl| engine.vote_timeout(ttl), now);
            if at == FOREVER {
                shared.machine.handle_end(now);
            }
        });
    }
}
