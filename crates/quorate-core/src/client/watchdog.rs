//! The watchdog: renews what is held in batches, and reports what is lost.
//!
//! Renewals that are due at about the same time travel together, up to [`EXTEND_MAX`] in one
//! command. The loss of a lease is reported at its local deadline even if no node ever answers.

mod batch;
mod renewal;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use self::batch::{Batch, Entry, Settled};
pub use super::held::{HeldLease, LeaseId, Renewal, Won};
use super::{Config, Observer, Patience};
use crate::{
    backoff::Jitter,
    command::{Command, EXTEND_MAX, Reply},
    dialect::CommandBuilder,
    lease::{Extension, LostReason},
    moment::Moment,
    quorum::majority,
    renew::Outcome,
    schedule::Schedule,
    terms::Terms,
};

/// Everything that one client holds.
#[derive(Clone, Debug)]
pub struct Watchdog {
    nodes: usize,
    builder: CommandBuilder,
    jitter: Jitter,
    leases: BTreeMap<LeaseId, HeldLease>,
    schedule: Schedule,
    batches: BTreeMap<BatchId, Batch>,
    deadlines: BTreeSet<(Moment, BatchId)>,
    /// Names leases and batches.
    last_number: u64,
    /// Both clocks at the last timeout: the lease's, and the wall clock.
    clocks: Option<(Moment, Duration)>,
    unsent: VecDeque<BatchId>,
    events: VecDeque<Event>,
}

/// Names a batch of renewals.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BatchId(u64);

/// An extension by the holder.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Extending {
    /// Which one.
    pub extension: Extension,
    /// The deadline that it must not miss.
    pub held_until: Moment,
}

/// What the watchdog reports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// The lease ends at another moment than before.
    Valid {
        /// Which lease.
        lease: LeaseId,
        /// When it ends.
        until: Moment,
    },
    /// A renewal has ended.
    Renewed {
        /// Which lease.
        lease: LeaseId,
        /// How.
        outcome: Outcome,
        /// How much was left of the lease just before.
        margin: Duration,
        /// The deadline that the renewal had to meet.
        held_until: Moment,
    },
    /// The lease is held, but may not last.
    AtRisk {
        /// Which lease.
        lease: LeaseId,
    },
    /// The lease is lost. Reported once.
    Lost {
        /// Which lease.
        lease: LeaseId,
        /// Why.
        reason: LostReason,
    },
}

impl Watchdog {
    /// The watchdog of a client that holds nothing.
    #[must_use]
    pub fn new(config: &Config, jitter: Jitter) -> Self {
        Self {
            nodes: config.nodes,
            builder: config.builder(),
            jitter,
            leases: BTreeMap::new(),
            schedule: Schedule::new(),
            batches: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            last_number: 0,
            clocks: None,
            unsent: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Looks after a lease that was acquired.
    pub fn keep(&mut self, won: Won, now: Moment) -> LeaseId {
        let lease = LeaseId(self.next_number());
        let granted_at = won.granted_at;
        let held = HeldLease::new(won);
        let ends_at = held.lease.valid_until();
        self.schedule.end_at(lease.0, ends_at);
        self.leases.insert(lease, held);
        self.renew_after(lease, granted_at, now);
        lease
    }

    /// A held lease, lost or not, until its guard lets go.
    #[must_use]
    pub fn lease(&self, lease: LeaseId) -> Option<&HeldLease> {
        self.leases.get(&lease)
    }

    /// Every lease whose guard has not let go.
    pub fn leases(&self) -> impl Iterator<Item = (LeaseId, &HeldLease)> {
        self.leases.iter().map(|(lease, held)| (*lease, held))
    }

    /// Says whether the holder may act at `now`. Once it may not, it never may again.
    ///
    /// # Errors
    ///
    /// The reason for which the lease ended.
    pub fn check(&mut self, lease: LeaseId, now: Moment) -> Result<(), LostReason> {
        let held = self.leases.get_mut(&lease).ok_or(LostReason::ShutDown)?;
        held.lease.check(now).inspect_err(|reason| held.lease.handle_lost(*reason))
    }

    /// The guard is gone: the lease is released or detached.
    pub fn remove_lease(&mut self, lease: LeaseId) -> Option<HeldLease> {
        mutate!(ReleasedRenews => return self.leases.get(&lease).cloned());
        self.schedule.remove(lease.0);
        let mut held = self.leases.remove(&lease)?;
        held.retire();
        Some(held)
    }

    /// From now on the lease is renewed as `renewal` says, and never held beyond `hold_until`. An
    /// earlier limit stays.
    pub fn set_hold(&mut self, lease: LeaseId, renewal: Renewal, hold_until: Moment) {
        let Some(held) = self.leases.get_mut(&lease).filter(|it| !it.is_loss_reported) else {
            return;
        };
        held.set_hold(renewal, hold_until);
        let until = held.lease.valid_until();
        if !held.is_renewed() || !held.lease.can_grow() {
            self.schedule.cancel_renewal(lease.0);
        }
        self.schedule.end_at(lease.0, until);
        self.events.push_back(Event::Valid { lease, until });
    }

    /// No extension leaves from now on. The lease is still held.
    pub fn retire(&mut self, lease: LeaseId) {
        if let Some(held) = self.leases.get_mut(&lease) {
            held.retire();
        }
    }

    /// The same, if the nodes have the lease just as it was granted, and at least half of its ttl
    /// is left. Returns whether so.
    pub fn retire_unextended(&mut self, lease: LeaseId, now: Moment) -> bool {
        self.leases.get_mut(&lease).is_some_and(|held| held.retire_unextended(now))
    }

    /// An extension by the holder is about to leave. A shorter life begins at once; no renewal is
    /// put off before the extension is confirmed.
    ///
    /// # Errors
    ///
    /// The reason for which the lease ended.
    pub fn begin_extension(
        &mut self,
        lease: LeaseId,
        terms: Terms,
        now: Moment,
    ) -> Result<Extending, LostReason> {
        let held = self.leases.get_mut(&lease).ok_or(LostReason::ShutDown)?;
        let extension = held.extend_to(terms, now)?;
        let held_until = held.lease.valid_until();
        self.events.push_back(Event::Valid { lease, until: held_until });
        if !held.is_loss_reported {
            self.schedule.end_at(lease.0, held_until);
            let known = self.schedule.renewal_of(lease.0);
            let due = self.next_due(lease, now, now);
            if let Some(due) = due.filter(|due| known.is_none_or(|known| *due < known)) {
                self.schedule.renew_at(lease.0, due);
            }
        }
        Ok(Extending { extension, held_until })
    }

    /// An extension by the holder that was sent at `sent_at` was confirmed.
    pub fn handle_extended(
        &mut self,
        lease: LeaseId,
        extension: Extension,
        valid_until: Moment,
        sent_at: Moment,
        now: Moment,
    ) {
        let Some(held) = self.leases.get_mut(&lease) else { return };
        held.lease.handle_extended(extension, valid_until, now);
        self.events.push_back(Event::Valid { lease, until: held.lease.valid_until() });
        mutate!(RenewsOnce => return);
        self.renew_after(lease, sent_at, now);
    }

    /// An extension by the holder that was sent at `sent_at` has ended.
    pub fn handle_extension_ended(
        &mut self,
        lease: LeaseId,
        extending: Extending,
        outcome: Outcome,
        sent_at: Moment,
        now: Moment,
    ) {
        match outcome {
            Outcome::Extended { valid_until } => {
                mutate!(ExtensionIgnored => return);
                self.handle_extended(lease, extending.extension, valid_until, sent_at, now);
            }
            Outcome::Gone => {
                self.lose(lease, LostReason::Gone);
            }
            // A renewal that was sent later may have made the lease last.
            Outcome::TooLate => {
                if let Some(Err(reason)) = self.leases.get(&lease).map(|it| it.lease.check(now)) {
                    self.lose(lease, reason);
                }
            }
            Outcome::Unsure => {}
        }
    }

    /// The lease is gone. Returns the first reason that is known.
    pub fn lose(&mut self, lease: LeaseId, reason: LostReason) -> LostReason {
        self.schedule.remove(lease.0);
        let Some(held) = self.leases.get_mut(&lease) else { return reason };
        held.lease.handle_lost(reason);
        let reason = held.lease.lost().unwrap_or(reason);
        if !std::mem::replace(&mut held.is_loss_reported, true) {
            self.events.push_back(Event::Lost { lease, reason });
        }
        reason
    }

    /// Loses everything that is held. Returns what is to be released: also leases that were lost
    /// before, since nodes may have their keys until their guards let go.
    pub fn lose_all(&mut self, reason: LostReason) -> Vec<HeldLease> {
        let released: Vec<HeldLease> = self.leases.values().cloned().collect();
        mutate!(ShutdownKeeps => let released = Vec::new());
        mutate!(ShutdownForgetsLost => let released = {
            released.into_iter().filter(|held| held.lease.lost().is_none()).collect()
        });
        let all: Vec<LeaseId> = self.leases.keys().copied().collect();
        for lease in all {
            self.lose(lease, reason);
        }
        released
    }

    /// A node is back, and may lack keys: renews every lease that can give them back.
    pub fn renew_all(&mut self, patience: Patience<'_>, now: Moment) {
        let leases = self.leases().filter(|(_, held)| held.is_renewed() && held.may_heal());
        let leases: Vec<LeaseId> = leases.map(|(lease, _)| lease).collect();
        self.renew(&leases, patience, now);
    }

    /// Renews these leases. `patience` is how long silent nodes are waited for, by ttl.
    pub fn renew(&mut self, leases: &[LeaseId], patience: Patience<'_>, now: Moment) {
        for leases in leases.chunks(EXTEND_MAX) {
            self.start_batch(leases, patience, now);
        }
    }

    /// The next batch to send to every node, in the order in which they must arrive.
    pub fn poll_transmit(&mut self) -> Option<(BatchId, Command)> {
        loop {
            let id = self.unsent.pop_front()?;
            if let Some(batch) = self.batches.get(&id) {
                return Some((id, batch.command.clone()));
            }
        }
    }

    /// The next thing to report.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When `handle_timeout` has something to do.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Moment> {
        let batch = self.deadlines.first().map(|(at, _)| *at);
        [self.schedule.next(), batch].into_iter().flatten().min()
    }

    /// The answer of a node to a batch; `None` is no usable answer.
    pub fn handle_answer(&mut self, id: BatchId, node: usize, reply: Option<&Reply>, now: Moment) {
        if let Some(batch) = self.batches.get_mut(&id) {
            batch.handle_answer(node, reply, now);
            for (lease, fence) in batch.stored(reply) {
                if let Some(held) = self.leases.get_mut(&lease) {
                    held.note_stored(node, fence, majority(self.nodes));
                }
            }
            self.settle(id, now);
        }
    }

    /// Something is due. `wall` is the time of the wall clock, `patience` as in [`Self::renew`].
    pub fn handle_timeout(&mut self, wall: Duration, patience: Patience<'_>, now: Moment) {
        // A timer that was set before something was put off has nothing to do.
        if self.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        if self.has_jumped(wall, now) {
            self.distrust_all(now);
        }
        self.handle_deadlines(now);
        let due: Vec<LeaseId> = self.schedule.take_renewals(now).into_iter().map(LeaseId).collect();
        self.renew(&due, patience, now);
    }

    /// Whether the answer of a node to a batch can still make a difference.
    pub(super) fn awaits(&self, id: BatchId, node: usize) -> bool {
        let batch = self.batches.get(&id).filter(|batch| self.is_wanted(batch));
        batch.is_some_and(|batch| batch.awaits(node))
    }

    /// The outcome of an entry makes a difference only to a lease that is held.
    fn is_wanted(&self, batch: &Batch) -> bool {
        let is_held = |lease| self.leases.get(&lease).is_some_and(|held| !held.is_loss_reported);
        batch.unsettled().any(is_held)
    }

    /// Shows every part that the outcome of a renewal may depend on.
    pub(super) fn observe(&self, to: &mut impl Observer) {
        let Self {
            nodes: _,
            builder: _,
            jitter: _,
            leases,
            schedule,
            batches,
            deadlines: _,
            last_number,
            clocks: _,
            unsent,
            events,
        } = self;
        to.whole(&(unsent.len(), events.len()));
        to.detail(&(schedule, last_number));
        for (lease, held) in leases {
            to.detail(lease);
            to.whole(held);
        }
        for (id, batch) in batches {
            to.detail(&(id, batch));
            if self.is_wanted(batch) {
                to.whole(batch);
                to.due(Some(batch.give_up_at));
            }
        }
    }

    /// Renewals that got no answer, and leases that have ended.
    fn handle_deadlines(&mut self, now: Moment) {
        while let Some((at, id)) = self.deadlines.first().copied()
            && at <= now
        {
            self.deadlines.remove(&(at, id));
            if let Some(batch) = self.batches.get_mut(&id) {
                batch.handle_timeout(now);
                self.settle(id, now);
            }
        }
        self.report_ended(now);
    }

    /// A clock jumped: every lease is renewed at once, and none ends by the jump itself.
    fn distrust_all(&mut self, now: Moment) {
        for (lease, held) in &mut self.leases {
            if held.lease.handle_risk(now) {
                self.events.push_back(Event::AtRisk { lease: *lease });
            }
            if self.schedule.renewal_of(lease.0).is_some() {
                self.schedule.renew_at(lease.0, now);
            }
        }
    }

    /// Leases whose end has come. Those that were extended meanwhile are looked at again later.
    fn report_ended(&mut self, now: Moment) {
        for lease in self.schedule.take_ended(now).into_iter().map(LeaseId) {
            let Some(held) = self.leases.get(&lease) else { continue };
            match held.lease.check(now) {
                _ if now < held.lease.valid_until() => {
                    self.schedule.end_at(lease.0, held.lease.valid_until());
                }
                Ok(()) => {}
                Err(reason) => {
                    self.lose(lease, reason);
                }
            }
        }
    }

    /// True if the wall clock moved against the lease's clock since the last timeout: a step, or a
    /// suspended machine on a system whose clock does not count that.
    fn has_jumped(&mut self, wall: Duration, now: Moment) -> bool {
        let Some((then, wall_then)) = self.clocks.replace((now, wall)) else { return false };
        let expected = wall_then.saturating_add(now.saturating_since(then));
        wall.abs_diff(expected) > CLOCK_JUMP_MIN
    }

    const fn next_number(&mut self) -> u64 {
        self.last_number = self.last_number.saturating_add(1);
        self.last_number
    }
}

/// Less than this is ordinary slewing and reading two clocks one after the other.
const CLOCK_JUMP_MIN: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
