//! The watchdog at work: the core's machine on the engine's timers, so that no user code can starve
//! it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use quorate_core::{
    backoff::Jitter,
    client::watchdog::{BatchId, Event, Extending, HeldLease, LeaseId, Watchdog as Machine, Won},
    command::{Command, Reply},
    lease::{Extension, LostReason},
    line::Speaker,
    moment::Moment,
    renew::Outcome,
    terms::Terms,
};

use crate::{
    engine::{Engine, Timed},
    error::{Lost, Trouble},
    held::Held,
    node::{Inbox, Request, Sent},
    observe,
};

/// Everything that one client holds.
#[derive(Debug)]
pub(crate) struct Watchdog {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    machine: Machine,
    held: BTreeMap<LeaseId, Arc<Held>>,
    armed_at: Option<Moment>,
    /// Kept so that the timer can find it.
    tick: Option<Arc<Tick>>,
}

impl Watchdog {
    pub(crate) fn new(nodes: usize, speaker: Speaker, has_sessions: bool, jitter: Jitter) -> Self {
        let machine = Machine::new(nodes, speaker, has_sessions, jitter);
        let state = State { machine, held: BTreeMap::new(), armed_at: None, tick: None };
        Self { state: Mutex::new(state) }
    }

    /// Looks after a lease that was acquired at `acquired_at`.
    pub(crate) fn keep(engine: &Arc<Engine>, won: Won, acquired_at: Moment) -> Arc<Held> {
        let mut state = engine.watchdog.lock();
        let id = state.machine.keep(won, acquired_at);
        let lease = state.machine.lease(id).expect("it is kept until its guard lets go");
        let held = Arc::new(Held::new(id, lease, acquired_at));
        state.held.insert(id, held.clone());
        state.arm(engine);
        held
    }

    /// The lease is released or detached. Every extension is queued on all nodes by then, or never
    /// leaves: one that came after the release would take the key again for nobody.
    pub(crate) fn let_go(&self, engine: &Engine, held: &Held) -> Option<HeldLease> {
        let _order = engine.order_extensions();
        let mut state = self.lock();
        state.held.remove(&held.id);
        state.machine.let_go(held.id)
    }

    /// The same, and the lease is still held.
    pub(crate) fn retire(&self, engine: &Engine, held: &Held) {
        let _order = engine.order_extensions();
        self.lock().machine.retire(held.id);
    }

    /// The same, if no extension was ever sent and enough of the ttl is left. Returns whether so.
    pub(crate) fn retire_unextended(&self, engine: &Engine, held: &Held) -> bool {
        let _order = engine.order_extensions();
        self.lock().machine.retire_unextended(held.id, engine.now())
    }

    /// What is known of a lease whose guard has not let go.
    pub(crate) fn lease(&self, held: &Held) -> Option<HeldLease> {
        self.lock().machine.lease(held.id).cloned()
    }

    /// Says whether the holder may act at `now`. Once it may not, it never may again.
    pub(crate) fn check(&self, held: &Held, now: Moment) -> Result<(), LostReason> {
        let mut state = self.lock();
        let checked = match state.machine.lease(held.id) {
            Some(_) => state.machine.check(held.id, now),
            // The guard is gone: what is left is its deadline.
            None => held.check_deadline(now),
        };
        checked.inspect_err(|reason| held.set_lost(*reason))
    }

    /// An extension by the holder is about to leave; the order of extensions must be held.
    pub(crate) fn begin_extension(
        engine: &Arc<Engine>,
        held: &Held,
        terms: Terms,
        now: Moment,
    ) -> Result<Extending, LostReason> {
        let mut state = engine.watchdog.lock();
        let extending = state.machine.begin_extension(held.id, terms, now);
        let work = state.take_work(engine);
        drop(state);
        debug_assert!(work.batches.is_empty() && work.events.is_empty(), "nothing was left over");
        extending
    }

    /// An extension by the holder that was sent at `sent_at` was confirmed.
    pub(crate) fn handle_extended(
        engine: &Arc<Engine>,
        held: &Held,
        (extension, valid_until): (Extension, Moment),
        sent_at: Moment,
    ) {
        Self::note(engine, |machine, now| {
            machine.handle_extended(held.id, extension, valid_until, sent_at, now);
        });
    }

    /// The lease is gone: tells everybody, once.
    pub(crate) fn lose(engine: &Arc<Engine>, held: &Held, reason: LostReason) -> Lost {
        Lost::new(Self::note(engine, |machine, _| machine.lose(held.id, reason)))
    }

    /// Loses everything that is held, and returns it.
    pub(crate) fn lose_all(engine: &Arc<Engine>, reason: LostReason) -> Vec<HeldLease> {
        Self::note(engine, |machine, _| {
            let lost = machine.lose_all(reason);
            lost.iter().filter_map(|lease| machine.lease(*lease).cloned()).collect()
        })
    }

    /// A node is there again, and may lack the keys of what we hold: everything that can give them
    /// back is renewed at once.
    pub(crate) fn renew_all(engine: &Arc<Engine>) {
        Self::work(engine, |state, now| {
            state.machine.renew_all(|ttl| engine.vote_timeout(ttl), now);
        });
    }

    /// Renews this lease.
    #[cfg(test)]
    pub(crate) fn renew(engine: &Arc<Engine>, leases: &[LeaseId]) {
        let patience = |ttl| engine.vote_timeout(ttl);
        Self::work(engine, |state, now| state.machine.renew(leases, patience, now));
    }

    fn handle_answer(engine: &Arc<Engine>, batch: BatchId, node: usize, reply: Option<&Reply>) {
        Self::note(engine, |machine, now| machine.handle_answer(batch, node, reply, now));
    }

    /// Tells the machine something that makes it send nothing. Losses are reported although a
    /// caller may be about to send an extension.
    fn note<T>(engine: &Arc<Engine>, handle: impl FnOnce(&mut Machine, Moment) -> T) -> T {
        let mut state = engine.watchdog.lock();
        // Time may have passed since the answer came.
        let now = engine.now();
        let result = handle(&mut state.machine, now);
        let work = state.take_work(engine);
        drop(state);
        debug_assert!(work.batches.is_empty(), "the order of extensions is not held");
        work.finish(engine);
        result
    }

    /// Lets the machine do something, and then does what it says.
    fn work(engine: &Arc<Engine>, handle: impl FnOnce(&mut State, Moment)) {
        // Extensions reach the nodes in the order of their numbers.
        let order = engine.order_extensions();
        let mut state = engine.watchdog.lock();
        let now = engine.now();
        handle(&mut state, now);
        let work = state.take_work(engine);
        drop(state);
        let sent = work.send(engine, now);
        drop(order);
        sent.finish(engine);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes out what is to be done without the lock. What guards read is set under it.
    fn take_work(&mut self, engine: &Arc<Engine>) -> Work {
        let batches = std::iter::from_fn(|| self.machine.poll_transmit()).collect();
        let mut events = Vec::new();
        while let Some(event) = self.machine.poll_event() {
            let (Event::Valid { lease, .. }
            | Event::Renewed { lease, .. }
            | Event::AtRisk { lease }
            | Event::Lost { lease, .. }) = event;
            let Some(held) = self.held.get(&lease) else { continue };
            match event {
                Event::Valid { until, .. } => held.set_valid_until(until),
                Event::Lost { reason, .. } => held.set_lost(reason),
                Event::Renewed { .. } | Event::AtRisk { .. } => {}
            }
            if !matches!(event, Event::Valid { .. }) {
                events.push((held.clone(), event));
            }
        }
        self.arm(engine);
        Work { batches, events, queued: Vec::new(), answered: Vec::new() }
    }

    /// Sets the timer if something is due before it.
    fn arm(&mut self, engine: &Arc<Engine>) {
        let Some(next) = self.machine.poll_timeout() else { return };
        if self.armed_at.is_none_or(|armed_at| next < armed_at) {
            self.armed_at = Some(next);
            let tick =
                self.tick.get_or_insert_with(|| Arc::new(Tick { engine: Arc::downgrade(engine) }));
            let weak: Weak<Tick> = Arc::downgrade(tick);
            // Nothing is due any more when the engine has ended.
            let _ = engine.timers.add(next, weak);
        }
    }
}

/// What the machine wants to be done.
#[must_use]
struct Work {
    batches: Vec<(BatchId, Command)>,
    events: Vec<(Arc<Held>, Event)>,
    queued: Vec<usize>,
    answered: Vec<(BatchId, usize, Result<Reply, Trouble>)>,
}

impl Work {
    /// Queues the batches on every node. The order of extensions must be held.
    fn send(mut self, engine: &Arc<Engine>, now: Moment) -> Self {
        for (batch, command) in std::mem::take(&mut self.batches) {
            let inbox = Arc::new(Answers { engine: Arc::downgrade(engine), batch });
            for (number, node) in engine.nodes.iter().enumerate() {
                let (command, inbox) = (command.clone(), inbox.clone());
                match node.send(Request { command, node: number, inbox }, now) {
                    Sent::Queued => self.queued.push(number),
                    Sent::Answered(answer) => self.answered.push((batch, number, answer)),
                }
            }
        }
        self
    }

    /// The rest, with no lock held: observers and wakers may call us in turn.
    fn finish(self, engine: &Arc<Engine>) {
        self.queued.iter().for_each(|node| engine.nodes[*node].flush());
        self.report(engine);
        for (batch, node, answer) in &self.answered {
            Watchdog::handle_answer(engine, *batch, *node, answer.as_ref().ok());
        }
    }

    fn report(&self, engine: &Engine) {
        for (held, event) in &self.events {
            let name = held.name.as_str();
            match *event {
                Event::Valid { .. } => {}
                Event::Renewed { outcome, margin, .. } => {
                    let outcome = match outcome {
                        Outcome::Extended { .. } => observe::Outcome::Done,
                        Outcome::Unsure => observe::Outcome::NoQuorum,
                        Outcome::Gone | Outcome::TooLate => observe::Outcome::Gone,
                    };
                    engine.tell(&observe::Event::Renewed { name, outcome, margin });
                }
                Event::AtRisk { .. } => engine.tell(&observe::Event::AtRisk { name }),
                Event::Lost { reason, .. } => {
                    held.wake();
                    engine.tell(&observe::Event::Lost { name, reason });
                }
            }
        }
    }
}

/// Takes in the answers to a batch.
#[derive(Debug)]
struct Answers {
    engine: Weak<Engine>,
    batch: BatchId,
}

impl Inbox for Answers {
    fn handle_answer(
        self: Arc<Self>,
        node: usize,
        _command: Command,
        answer: Result<Reply, Trouble>,
        _now: Moment,
    ) {
        if let Some(engine) = self.engine.upgrade() {
            Watchdog::handle_answer(&engine, self.batch, node, answer.as_ref().ok());
        }
    }
}

#[derive(Debug)]
struct Tick {
    engine: Weak<Engine>,
}

impl Timed for Tick {
    fn handle_timeout(self: Arc<Self>, now: Moment) {
        let Some(engine) = self.engine.upgrade() else { return };
        // A timer that was set before an earlier one took its place must not set another, or there
        // would be more and more of them.
        if engine.watchdog.lock().armed_at.is_none_or(|armed_at| now < armed_at) {
            return;
        }
        Watchdog::note(&engine, Machine::handle_deadlines);
        Watchdog::work(&engine, |state, now| {
            state.armed_at = None;
            let wall = Duration::from_millis(engine.clock.wall_ms());
            state.machine.handle_timeout(wall, |ttl| engine.vote_timeout(ttl), now);
        });
    }
}

#[cfg(test)]
mod tests;
