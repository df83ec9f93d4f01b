//! The client's machine at work: one mutex around everything that it decides.
//!
//! The machine says what to send, and its driver here puts that into the queues of the nodes before
//! it lets go of the mutex: so commands reach a node in the order in which the machine wants them.
//! Callers are woken, observers told and bytes written without the mutex.

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

use super::{Engine, call::Record, held::Held, names::Names, observers::Notice, report::Heard};
use crate::{
    error::NodeError,
    node::{Pull, Pulled, ReplyTo, Request, Work},
    timers::{FOREVER, Timed},
};

/// What the engine's mutex guards.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) machine: Machine<Names>,
    /// What the driver knows of the machine's calls and leases.
    pub(super) calls: BTreeMap<CallId, Box<Record>>,
    pub(crate) held: BTreeMap<LeaseId, Arc<Held>>,
    armed_at: Option<Moment>,
    /// Kept so that the timer can find it.
    tick: Option<Arc<Tick>>,
}

/// What is to be done without the mutex.
#[derive(Debug)]
#[must_use]
pub(super) struct Rest {
    /// Nodes whose queues have to be flushed.
    queued: NodeSet,
    waker: Option<Waker>,
    wakers: Vec<Waker>,
    lost: Vec<Arc<Held>>,
    told: Vec<Notice>,
    /// The next timer could not be set: the engine has ended.
    is_ended: bool,
}

impl Default for Rest {
    fn default() -> Self {
        let (waker, wakers, lost, told) = (None, Vec::new(), Vec::new(), Vec::new());
        Self { queued: NodeSet::EMPTY, waker, wakers, lost, told, is_ended: false }
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

    /// What is queued for this node leaves by itself.
    pub(super) fn is_written(&mut self, node: usize) {
        self.queued.remove(node);
    }

    pub(super) fn tell(&mut self, told: Notice) {
        self.told.push(told);
    }

    fn finish(self, engine: &Engine, order: Order) {
        self.waker.into_iter().chain(self.wakers).for_each(Waker::wake);
        self.lost.iter().for_each(|held| held.wake());
        self.queued.iter().for_each(|node| match order {
            Order::Behind => engine.nodes[node].flush_behind(),
            Order::Next => engine.nodes[node].flush(),
        });
        self.told.iter().for_each(|told| told.tell(engine));
    }
}

impl Shared {
    pub(super) fn new(machine: Machine<Names>) -> Self {
        let (calls, held) = (BTreeMap::new(), BTreeMap::new());
        Self { machine, calls, held, armed_at: None, tick: None }
    }

    /// Nodes may have come up without anybody hearing of it yet.
    pub(super) fn learn_who_is_up(&mut self, engine: &Engine, now: Moment) {
        for node in engine.reachable().iter() {
            self.machine.handle_up(node, now);
        }
    }

    /// True while too few nodes can be asked, for all that is known.
    pub(super) fn is_short(&self, engine: &Engine) -> bool {
        self.machine.up().len() < majority(engine.nodes.len())
    }

    /// Does what the machine says until it waits, or until busy nodes have it wait.
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

    /// Lets a node take what the machine has for it.
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
            self.note_answer(engine, node, (&about, &command), &answer, rest, now);
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
        let answer = answer.map_err(|node_error| Heard::new(node_error, connection()));
        self.note_answer(engine, node, (about, command), &answer, rest, now);
        self.machine.handle_answer(node, (about, command), answer.as_ref().ok(), now);
        self.give_up_if_denied(engine, (about, command), answer.as_ref().ok(), now);
    }

    fn handle_event(&mut self, engine: &Engine, event: Event, rest: &mut Rest, now: Moment) {
        match event {
            Event::Closed(call) => drop(self.calls.remove(&call)),
            Event::Ended(call, ended) => self.handle_ended(engine, (call, ended), rest, now),
            Event::Lease(event) => self.handle_lease_event(engine, event, rest),
        }
    }

    /// What guards read is set under the mutex.
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
            rest.tell(Notice::Lease { name: held.name.clone(), kind: held.kind, event });
        }
    }

    /// Sets the timer if something is due before it.
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

    /// Waiting does not help those whose nodes deny them.
    pub(super) fn give_up_where_denied(&mut self, engine: &Engine, now: Moment) {
        let waiting: Vec<CallId> = self.calls.keys().copied().collect();
        waiting.into_iter().for_each(|call| self.give_up_call_if_denied(engine, call, now));
    }

    /// The same for those that this answer has failed.
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

    /// Looks after a lease that a call has won.
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

    /// Says whether the holder may act at `now`. Once it may not, it never may again.
    pub(crate) fn check(&mut self, held: &Held, now: Moment) -> Result<(), LostReason> {
        let checked = match self.machine.lease(held.id) {
            Some(_) => self.machine.check(held.id, now),
            // The guard is gone: what is left is its deadline.
            None => held.check_deadline(now),
        };
        checked.inspect_err(|reason| held.set_lost(*reason))
    }
}

impl Engine {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the machine something, and does what it says.
    pub(crate) fn work<T>(self: &Arc<Self>, act: impl FnOnce(&mut Shared, Moment) -> T) -> T {
        self.work_in_order(|shared, now| (act(shared, now), Order::Next))
    }

    /// The same, and says when what is sent has to leave.
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

    /// Does what the machine says, and the rest without the mutex.
    pub(super) fn finish(
        self: &Arc<Self>,
        mut shared: MutexGuard<'_, Shared>,
        mut rest: Rest,
        order: Order,
        now: Moment,
    ) {
        shared.drive(self, &mut rest, now);
        if std::mem::take(&mut rest.is_ended) {
            // No timer will come: every deadline has come.
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

/// When commands leave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Order {
    /// As soon as the node can take them.
    Next,
    /// Behind what the node is asked already, so that it is done with that first.
    Behind,
}

/// What the machine has for one node.
struct Waiting<'a> {
    shared: &'a mut Shared,
    engine: &'a Arc<Engine>,
    node: usize,
    answered: Vec<(About, Command, Result<Reply, Heard>)>,
    now: Moment,
}

impl Work for Waiting<'_> {
    fn next(&mut self, joins: Joins) -> Option<Request> {
        let Transmit { about, command } = self.shared.machine.poll_transmit(self.node, joins)?;
        self.shared.note_sent(self.node, &about, &command, self.now);
        let to = ReplyTo::Machine { listener: self.engine.clone(), about };
        Some(Request { command, to })
    }

    fn answer(&mut self, request: Request, answer: Result<Reply, NodeError>, connection: u64) {
        let Request { command, to } = request;
        if let ReplyTo::Machine { about, .. } = to {
            let answer = answer.map_err(|node_error| Heard::new(node_error, connection));
            self.answered.push((about, command, answer));
        }
    }
}

/// The machine's timer.
#[derive(Debug)]
struct Tick {
    engine: Weak<Engine>,
}

impl Timed for Tick {
    fn handle_timeout(self: Arc<Self>, at: Moment) {
        let Some(engine) = self.engine.upgrade() else { return };
        engine.work(|shared, now| {
            // A timer that was set before an earlier one took its place must not set another, or
            // there would be more and more of them.
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
