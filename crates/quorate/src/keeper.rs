//! The watchdog: renews what is held, and says so when it is lost.
//!
//! It runs on the engine's timers, so that no user code can starve it. All renewals that are due at
//! about the same time travel together, and the loss of a lease is told at its local deadline even
//! if no node ever answers.

mod batch;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, SystemTime},
};

use quorate_core::{
    command::PROLONG_MAX,
    lease::LostReason,
    moment::Moment,
    schedule::{Schedule, renewal_due, retry_delay},
};

use self::batch::Batch;
use crate::{
    clock::Clock,
    engine::{Engine, Timed},
    error::Lost,
    held::Held,
    observe::Event,
};

/// Everything that one client holds.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    state: Mutex<State>,
}

/// Whether a lease is renewed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Renewal {
    /// While it is held.
    On,
    /// Never: a fixed lease.
    Off,
}

impl Keeper {
    /// A number for the next lease.
    pub(crate) fn next_number(&self) -> u64 {
        let mut state = self.lock();
        state.numbers += 1;
        state.numbers
    }

    /// Looks after a lease that was won.
    pub(crate) fn keep(engine: &Arc<Engine>, held: Arc<Held>) {
        let due = Self::next_due(engine, &held, held.granted_at, held.acquired_at);
        let ends_at = held.hand().lease.valid_until();
        let mut state = engine.keeper.lock();
        let number = held.number;
        state.schedule.look_at(number, ends_at);
        if let Some(due) = due {
            state.schedule.renew_at(number, due);
        }
        state.held.insert(number, held);
        state.arm(engine);
    }

    /// The lease is over or handed on.
    pub(crate) fn let_go(&self, number: u64) {
        let mut state = self.lock();
        state.schedule.remove(number);
        state.held.remove(&number);
    }

    /// True while the lease has a guard and is not lost.
    fn is_kept(&self, number: u64) -> bool {
        self.lock().held.contains_key(&number)
    }

    /// The user sent an extension: a shorter life begins at once. Nothing is put off before it is
    /// confirmed.
    pub(crate) fn handle_sent(engine: &Arc<Engine>, held: &Held, now: Moment) {
        let due = Self::next_due(engine, held, now, now);
        let ends_at = held.hand().lease.valid_until();
        let mut state = engine.keeper.lock();
        if state.held.contains_key(&held.number) {
            state.schedule.look_at(held.number, ends_at);
            let known = state.schedule.renewal_of(held.number);
            if let Some(due) = due.filter(|due| known.is_none_or(|known| *due < known)) {
                state.schedule.renew_at(held.number, due);
            }
            state.arm(engine);
        }
    }

    /// An extension that was sent at `sent_at` was confirmed.
    pub(crate) fn handle_extended(engine: &Arc<Engine>, held: &Held, sent_at: Moment) {
        let due = Self::next_due(engine, held, sent_at, engine.now());
        let mut state = engine.keeper.lock();
        if let Some(due) = due.filter(|_| state.held.contains_key(&held.number)) {
            state.schedule.renew_at(held.number, due);
            state.arm(engine);
        }
    }

    /// When the lease is renewed next, if it is to be: as its ttl says, and in any case well before
    /// it ends.
    fn next_due(engine: &Engine, held: &Held, sent_at: Moment, now: Moment) -> Option<Moment> {
        let hand = held.hand();
        if held.renewal == Renewal::Off || !hand.lease.can_grow() {
            return None;
        }
        let due = engine.draw(|jitter| renewal_due(sent_at, hand.terms.ttl(), jitter));
        let left = hand.lease.valid_until().saturating_since(now);
        Some(due.min(now.saturating_add(left / 2)))
    }

    /// Ends everything that is held, and returns it.
    pub(crate) fn lose_all(&self, reason: LostReason) -> Vec<Arc<Held>> {
        let mut state = self.lock();
        state.schedule = Schedule::new();
        let all: Vec<_> = std::mem::take(&mut state.held).into_values().collect();
        drop(state);
        for held in &all {
            held.lose(reason);
        }
        all
    }

    /// Something is due.
    fn tick(engine: &Arc<Engine>, now: Moment) {
        let mut state = engine.keeper.lock();
        // A timer that was set before an earlier one took its place: it has nothing to do, and must
        // not set another, or there would be more and more of them.
        if state.armed_at.is_none_or(|armed_at| now < armed_at) {
            return;
        }
        state.armed_at = None;
        // A runtime's clock that is paused and advanced has nothing to do with the wall clock.
        let mut at_risk = Vec::new();
        if matches!(engine.clock, Clock::Boot) && state.has_jumped(now) {
            // Every lease is asked about at once; none ends by the jump itself.
            at_risk.extend(state.held.values().cloned());
            for held in &at_risk {
                if state.schedule.renewal_of(held.number).is_some() {
                    state.schedule.renew_at(held.number, now);
                }
            }
        }
        let ended = state.take_ended(now);
        let due = state.schedule.take_renewals(now);
        let due: Vec<_> = due.iter().filter_map(|number| state.held.get(number).cloned()).collect();
        state.arm(engine);
        drop(state);

        Self::risk(engine, at_risk.iter(), now);
        for held in ended {
            if let Err(lost) = held.check(now) {
                Self::lose(engine, &held, lost.reason);
            }
        }
        Self::renew(engine, &due, now);
    }

    /// Extends all of them.
    pub(crate) fn renew(engine: &Arc<Engine>, leases: &[Arc<Held>], now: Moment) {
        for leases in leases.chunks(PROLONG_MAX) {
            Batch::start(engine, leases, now);
        }
    }

    fn risk<'a>(engine: &Engine, leases: impl Iterator<Item = &'a Arc<Held>>, now: Moment) {
        for held in leases {
            if held.hand().lease.handle_risk(now) {
                engine.tell(&Event::AtRisk { name: held.name.as_str() });
            }
        }
    }

    /// The lease is gone: tells everybody, once.
    pub(crate) fn lose(engine: &Engine, held: &Held, reason: LostReason) -> Lost {
        engine.keeper.let_go(held.number);
        let (lost, is_news) = held.lose(reason);
        if is_news {
            engine.tell(&Event::Lost { name: held.name.as_str(), reason: lost.reason });
        }
        lost
    }

    /// Tries again soon: the last renewal was not confirmed.
    fn retry(engine: &Arc<Engine>, held: &Held, now: Moment) {
        let ttl = held.hand().terms.ttl();
        let mut state = engine.keeper.lock();
        if state.held.contains_key(&held.number) {
            let delay = engine.draw(|jitter| retry_delay(ttl, jitter));
            state.schedule.renew_at(held.number, now.saturating_add(delay));
            state.arm(engine);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct State {
    schedule: Schedule,
    held: BTreeMap<u64, Arc<Held>>,
    numbers: u64,
    armed_at: Option<Moment>,
    /// Kept so that the timer can find it.
    tick: Option<Arc<Tick>>,
    /// Both clocks at the last tick.
    clocks: Option<(Moment, SystemTime)>,
}

impl State {
    /// Sets the timer if something is due before it.
    fn arm(&mut self, engine: &Arc<Engine>) {
        let Some(next) = self.schedule.next() else { return };
        if self.armed_at.is_none_or(|armed_at| next < armed_at) {
            self.armed_at = Some(next);
            let tick =
                self.tick.get_or_insert_with(|| Arc::new(Tick { engine: Arc::downgrade(engine) }));
            let weak: Weak<Tick> = Arc::downgrade(tick);
            // Nothing is due any more when the engine has ended.
            let _ = engine.timers.add(next, weak);
        }
    }

    /// The leases that are over; those which were extended meanwhile are looked at again later.
    fn take_ended(&mut self, now: Moment) -> Vec<Arc<Held>> {
        let mut ended = Vec::new();
        for number in self.schedule.take_ends(now) {
            let Some(held) = self.held.get(&number).cloned() else { continue };
            let valid_until = held.hand().lease.valid_until();
            if now < valid_until {
                self.schedule.look_at(number, valid_until);
            } else {
                ended.push(held);
            }
        }
        ended
    }

    /// True if the wall clock moved against the lease's clock since the last tick: a step, or a
    /// suspended machine on a system whose clock does not count that.
    fn has_jumped(&mut self, now: Moment) -> bool {
        let wall = SystemTime::now();
        let Some((then, wall_then)) = self.clocks.replace((now, wall)) else { return false };
        let passed = now.saturating_since(then);
        match wall.duration_since(wall_then) {
            Ok(wall_passed) => wall_passed.abs_diff(passed) > CLOCK_JUMP_MIN,
            Err(_) => true,
        }
    }
}

#[derive(Debug)]
struct Tick {
    engine: Weak<Engine>,
}

impl Timed for Tick {
    fn handle_timeout(self: Arc<Self>, now: Moment) {
        if let Some(engine) = self.engine.upgrade() {
            Keeper::tick(&engine, now);
        }
    }
}

/// Less than this is ordinary slewing and reading two clocks one after the other.
const CLOCK_JUMP_MIN: Duration = Duration::from_millis(500);
