//! What a node keeps about itself, and when it doubts itself.

use super::Store;
use crate::{
    command::Reply,
    guard::{
        BACK_TOLERANCE_MS, Doubt, Enrolment, Greeting, Known, Mark, Met, NodeId, Pact,
        STEP_TOLERANCE_MS, WALL_TOLERANCE_MS,
    },
    moment::NodeTime,
    mutant::{self, Mutant},
};

/// The record of a node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Record {
    /// The run of the server that wrote it.
    run: u64,
    mark: Mark,
    id: NodeId,
    pact: Option<Pact>,
    is_enrolled: bool,
    is_durable: bool,
    doubted: Option<Doubted>,
    /// When a client was last here, by the node's clock and by the client's.
    seen: Instant,
    /// When the set last changed.
    changed_ms: u64,
    /// When the node was last doubted, by its own clock.
    doubted_ms: u64,
    /// Until when it is not to be asked for locks, by its own clock.
    recovers_until_ms: u64,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Doubted {
    why: Doubt,
    since: Instant,
}

/// One instant on two clocks: no single one decides when the guard is over.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Instant {
    node_ms: u64,
    wall_ms: u64,
}

impl Instant {
    /// What is left of the guard: as much as the slower clock says.
    fn left_ms(self, now: Self, guard_ms: u64) -> u64 {
        let node_ms = now.node_ms.saturating_sub(self.node_ms);
        let wall_ms = now.wall_ms.saturating_sub(self.wall_ms);
        let passed_ms = match mutant::is_on(Mutant::GuardByNodeClock) {
            true => node_ms,
            false => node_ms.min(wall_ms),
        };
        guard_ms.saturating_sub(passed_ms)
    }
}

impl Record {
    /// Why the node is to be doubted now, if so.
    fn doubt(&self, now: Instant, run: u64, greeting: &Greeting) -> Option<Doubt> {
        let is_on = mutant::is_on;
        if self.run != run && !is_on(Mutant::AnyRun) {
            return Some(Doubt::OtherRun);
        }
        // What a client knew before the last guard says nothing about the time since.
        let known = greeting.known.filter(|known| known.seen_ms >= self.doubted_ms);
        if let Some(Known { seen_ms, expected_ms }) = known {
            if self.seen.node_ms < seen_ms && !is_on(Mutant::NoRollbackCheck) {
                return Some(Doubt::RolledBack);
            }
            let latest_ms = expected_ms.saturating_add(STEP_TOLERANCE_MS);
            // If others were here later than that, it is the client's own clock that stood still.
            let is_alone = self.seen.node_ms <= latest_ms;
            if now.node_ms > latest_ms && is_alone && !is_on(Mutant::NoStepCheck) {
                return Some(Doubt::ClockStepped);
            }
        }
        // All sessions have lapsed: nobody was here, or the clock went on without them. The
        // clients' clocks tell which.
        let gap_ms = now.node_ms.saturating_sub(self.seen.node_ms);
        let wall_gap_ms = now.wall_ms.saturating_sub(self.seen.wall_ms);
        let is_stepped = gap_ms > wall_gap_ms.saturating_add(WALL_TOLERANCE_MS);
        (gap_ms > greeting.life_ms && is_stepped && !is_on(Mutant::NoStepCheck))
            .then_some(Doubt::ClockStepped)
    }

    /// Whether a restart has lost nothing: the node wrote everything to disk before, and does now.
    fn has_kept_all(&self, greeting: &Greeting) -> bool {
        let was_durable = self.is_durable || mutant::is_on(Mutant::NewlyDurable);
        let is_durable = greeting.is_durable || mutant::is_on(Mutant::OnceDurable);
        was_durable && is_durable && self.may_be_durable()
    }

    /// A node in its guard has forgotten something before: a restart must not end that guard.
    fn may_be_durable(&self) -> bool {
        self.doubted.is_none() || mutant::is_on(Mutant::DurableInGuard)
    }

    /// The guard ends when both clocks say so, if the node has its place among the others.
    fn end_guard(&mut self, now: Instant, greeting: &Greeting) {
        let Some(doubted) = &mut self.doubted else { return };
        // A clock that was set back must not keep the node out for as long as that.
        doubted.since.node_ms = doubted.since.node_ms.min(now.node_ms);
        // Nor must a client's that was ahead when the node was doubted.
        if now.wall_ms.saturating_add(WALL_TOLERANCE_MS) < doubted.since.wall_ms {
            doubted.since.wall_ms = now.wall_ms;
        }
        let Some(pact) = self.pact.as_ref().filter(|_| self.is_enrolled) else { return };
        if doubted.since.left_ms(now, pact.guard_ms) == 0 || mutant::is_on(Mutant::NoGuard) {
            self.doubted = None;
            self.mark = greeting.mark;
            self.recovers_until_ms = now.node_ms.saturating_add(greeting.life_ms);
        }
    }

    /// For how long holders are to find the node before others ask it for locks: as long as a
    /// session lasts. A clock that was set back must not make that longer.
    fn recovers_in_ms(&self, now: Instant, life_ms: u64) -> u64 {
        let left_ms = self.recovers_until_ms.saturating_sub(now.node_ms);
        let is_set_back = left_ms > life_ms.saturating_add(BACK_TOLERANCE_MS);
        let is_skipped = mutant::is_on(Mutant::NoRecovery) || mutant::is_on(Mutant::NoGuard);
        match is_set_back || is_skipped {
            true => 0,
            false => left_ms.min(life_ms),
        }
    }

    /// A clock that was set back is believed as well: keys that are stored by it are over at once
    /// when it is set right again, and that must be seen.
    fn see(&mut self, now: Instant) {
        let is_back = now.node_ms.saturating_add(BACK_TOLERANCE_MS) < self.seen.node_ms;
        if now.node_ms >= self.seen.node_ms || is_back {
            self.seen = now;
        }
    }

    /// For how long it goes by no other list: those who go by the one before the last must be gone.
    fn changes_in_ms(&self, now_ms: u64) -> u64 {
        let pact = self.pact.as_ref().filter(|_| self.changed_ms > 0);
        let Some(pact) = pact.filter(|_| !mutant::is_on(Mutant::HastyChange)) else { return 0 };
        let due_ms = self.changed_ms.min(now_ms).saturating_add(pact.guard_ms);
        due_ms.saturating_sub(now_ms)
    }

    fn told(&self, now: Instant, time_us: u64, greeting: &Greeting, keys: u64) -> Met {
        let guard_ms = self.pact.as_ref().map_or(greeting.guard_ms, |pact| pact.guard_ms);
        // Without its place the guard has not begun.
        let left_ms = |it: Doubted| match self.is_enrolled {
            true => it.since.left_ms(now, guard_ms),
            false => guard_ms,
        };
        let doubt = |it: Doubted| (it.why, left_ms(it));
        Met {
            time_us,
            mark: self.mark,
            id: self.id,
            pact: self.pact.clone(),
            is_enrolled: self.is_enrolled,
            doubt: self.doubted.map(doubt),
            is_durable: self.is_durable,
            keys,
            changes_in_ms: self.changes_in_ms(now.node_ms),
            recovers_in_ms: self.recovers_in_ms(now, greeting.life_ms),
        }
    }
}

impl Store {
    /// The server is another run from now on: it was restarted, or its data is served by another.
    pub const fn set_run(&mut self, run: u64) {
        self.run = run;
    }

    /// Which set of nodes it belongs to, and whether it votes there, for simulations.
    #[must_use]
    pub fn origin(&self) -> Option<(NodeId, bool)> {
        let record = self.record.as_ref()?;
        record.pact.as_ref().map(|pact| (pact.origin, record.doubted.is_none()))
    }

    /// When a client was here last, by what this very run has written itself, for simulations.
    /// Nobody can tell such a record from one that was never away.
    #[must_use]
    pub fn seen_ms(&self) -> Option<u64> {
        let record = self.record.as_ref().filter(|record| record.run == self.run);
        record.map(|record| record.seen.node_ms)
    }

    /// Takes over all data of another node, as a replica does. Who listens stays.
    pub fn copy(&mut self, other: &Self) {
        let listeners = std::mem::take(&mut self.line.listeners);
        *self = Self { run: self.run, is_full: self.is_full, ..other.clone() };
        self.line.listeners = listeners;
        self.line.pushes.clear();
    }

    pub(super) fn meet(&mut self, now: NodeTime, greeting: &Greeting) -> Reply {
        let at = Instant { node_ms: now.as_millis(), wall_ms: greeting.wall_ms };
        let (run, keys) = (self.run, self.held());
        let is_looking = greeting.is_looking && !mutant::is_on(Mutant::WritingLook);
        let before = is_looking.then(|| self.record.clone());
        let is_new = self.record.is_none();
        let doubted = |why| Some(Doubted { why, since: at });
        let record = self.record.get_or_insert_with(|| Record {
            run,
            mark: greeting.mark,
            id: greeting.id,
            pact: None,
            is_enrolled: false,
            is_durable: false,
            doubted: doubted(Doubt::Unknown),
            seen: at,
            changed_ms: 0,
            doubted_ms: at.node_ms,
            recovers_until_ms: 0,
        });
        // Of a node that knows nothing there is no more to say.
        match record.doubt(at, run, greeting).filter(|_| !is_new) {
            Some(Doubt::OtherRun) if record.has_kept_all(greeting) => {
                // Nothing was lost, and the clocks agree with that.
                let is_lasting = Record { run, ..record.clone() }.doubt(at, run, greeting);
                let is_lasting = is_lasting.filter(|_| !mutant::is_on(Mutant::DurableAnyClock));
                record.mark = greeting.mark;
                record.doubted = is_lasting.and_then(doubted);
                record.doubted_ms =
                    if is_lasting.is_some() { at.node_ms } else { record.doubted_ms };
                record.is_enrolled = record.doubted.is_none();
            }
            Some(why) => {
                // A name that it has from another, and by which no set knows it, is not its own.
                if why == Doubt::OtherRun && record.pact.is_none() {
                    record.id = greeting.id;
                }
                record.mark = greeting.mark;
                record.doubted = doubted(why);
                record.doubted_ms = at.node_ms;
                record.is_enrolled = false;
            }
            None => record.end_guard(at, greeting),
        }
        record.run = run;
        record.is_durable = greeting.is_durable && record.may_be_durable();
        record.see(at);
        let told = record.told(at, now.as_micros(), greeting, keys);
        if let Some(before) = before {
            self.record = before;
        }
        Reply::Met(Box::new(told))
    }

    pub(super) fn enrol(&mut self, now: NodeTime, enrolment: &Enrolment) -> Reply {
        let Enrolment { mark, id, pact, wall_ms } = enrolment;
        let Some(record) = self.record.as_mut().filter(|record| record.mark == *mark) else {
            return Reply::Stale;
        };
        let Some(doubted) = &mut record.doubted else { return Reply::Stale };
        let known = record.pact.as_ref().map_or(0, |pact| pact.change);
        if record.is_enrolled && known >= pact.change {
            return Reply::Enrolled;
        }
        record.id = *id;
        record.pact = Some(pact.clone());
        record.is_enrolled = true;
        if !mutant::is_on(Mutant::GuardFromDoubt) {
            doubted.since = Instant { node_ms: now.as_millis(), wall_ms: *wall_ms };
        }
        // It has heard of the change now. Before the first there is nobody who goes by another.
        if pact.change > 1 {
            record.changed_ms = now.as_millis();
        }
        Reply::Enrolled
    }

    pub(super) fn change(&mut self, now: NodeTime, mark: Mark, pact: &Pact, fresh: Mark) -> Reply {
        let Some(record) = self.record.as_mut().filter(|record| record.mark == mark) else {
            return Reply::Stale;
        };
        let Some(known) = &record.pact else { return Reply::Stale };
        if known.origin != pact.origin || known.change >= pact.change {
            return Reply::Stale;
        }
        let left_ms = record.changes_in_ms(now.as_millis());
        if left_ms > 0 {
            return Reply::TooSoon { left_ms };
        }
        record.pact = Some(pact.clone());
        record.mark = fresh;
        record.changed_ms = now.as_millis();
        Reply::Changed
    }

    pub(super) fn admit(&mut self, mark: Mark, fresh: Mark) -> Reply {
        let held = self.held();
        let Some(record) = self.record.as_mut().filter(|record| record.mark == mark) else {
            return Reply::Stale;
        };
        let is_new = record.doubted.is_some_and(|it| it.why == Doubt::Unknown);
        let is_new = is_new || mutant::is_on(Mutant::AdmitAnything);
        if !is_new || !record.is_enrolled {
            return Reply::Stale;
        }
        if held > 0 && !mutant::is_on(Mutant::AdmitAnything) {
            return Reply::Holds { keys: held };
        }
        record.doubted = None;
        record.mark = fresh;
        Reply::Admitted
    }

    /// Whether it may have forgotten locks.
    pub(super) fn is_doubted(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.doubted.is_some())
    }

    /// Whether a session may begin or go on: the client has judged what the node is now.
    pub(super) fn is_judged(&self, mark: Option<Mark>) -> bool {
        match (&self.record, mark) {
            (None, None) => true,
            // Somebody has looked at it as a node of a set, which it is not yet.
            (Some(record), None) => record.pact.is_none(),
            (Some(record), Some(mark)) => {
                let is_same = record.mark == mark || mutant::is_on(Mutant::AnyMark);
                is_same && record.doubted.is_none()
            }
            (None, Some(_)) => false,
        }
    }

    /// Whether nobody was here for longer than a session lasts, by the node's own clock.
    pub(super) fn is_unseen(&self, now: NodeTime, life_ms: u64) -> bool {
        let seen_ms = self.record.as_ref().map_or(0, |record| record.seen.node_ms);
        let is_late = now.as_millis() > seen_ms.saturating_add(life_ms);
        is_late && !mutant::is_on(Mutant::LateSession)
    }

    /// A client was here.
    pub(super) fn see(&mut self, now: NodeTime, wall_ms: u64) {
        if let Some(record) = &mut self.record {
            record.see(Instant { node_ms: now.as_millis(), wall_ms });
        }
    }
}
