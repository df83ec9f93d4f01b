//! The watchdog: renews leases in batches, and reports losses.
//!
//! Renewals that are due at about the same time are sent together, up to [`EXTEND_MAX`] in one
//! command. The loss of a lease is reported at its local deadline, even if no node ever answers.

mod batch;
mod renewal;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use self::{
    batch::{Batch, Entry, Settled},
    renewal::next_due,
};
pub use super::held::{Acquired, HeldLease, LeaseId, Renewal};
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

/// All leases of one client.
#[derive(Clone, Debug)]
pub struct Watchdog {
    nodes: usize,
    builder: CommandBuilder,
    jitter: Jitter,
    /// Boxed, because a map has room for more values than it contains.
    leases: BTreeMap<LeaseId, Box<HeldLease>>,
    schedule: Schedule,
    batches: BTreeMap<BatchId, Batch>,
    deadlines: BTreeSet<(Moment, BatchId)>,
    /// The terms of the last lease. Usually they are the same for all.
    last_terms: Option<Arc<Terms>>,
    /// The last number of a lease or batch.
    last_number: u64,
    /// The lease clock and the wall clock at the last timeout.
    clocks: Option<(Moment, Duration)>,
    unsent: VecDeque<BatchId>,
    events: VecDeque<Event>,
}

/// Identifies a batch of renewals.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BatchId(u64);

/// An extension by the holder.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Extending {
    /// The extension.
    pub extension: Extension,
    /// The deadline that it must meet.
    pub held_until: Moment,
}

/// An event of the watchdog.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// The end of the lease has changed.
    Valid {
        /// The lease.
        lease: LeaseId,
        /// When it ends.
        until: Moment,
    },
    /// A renewal has ended.
    Renewed {
        /// The lease.
        lease: LeaseId,
        /// The outcome.
        outcome: Outcome,
        /// The time that the lease had left just before.
        margin: Duration,
        /// The deadline that the renewal had to meet.
        held_until: Moment,
    },
    /// The lease is still held, but its renewal is at risk.
    AtRisk {
        /// The lease.
        lease: LeaseId,
    },
    /// The lease is lost. Reported once.
    Lost {
        /// The lease.
        lease: LeaseId,
        /// The reason.
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
            last_terms: None,
            last_number: 0,
            clocks: None,
            unsent: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Starts to renew a lock that was acquired.
    pub fn keep(&mut self, acquired: Acquired, now: Moment) -> LeaseId {
        let lease = LeaseId(self.next_number());
        let granted_at = acquired.granted_at;
        let mut held = HeldLease::new(acquired, self.last_terms.as_ref());
        self.last_terms = Some(held.shared_terms().clone());
        let ends_at = held.lease.valid_until();
        self.schedule.end_at(lease.0, &mut held.times, ends_at);
        self.leases.insert(lease, Box::new(held));
        self.renew_after(lease, granted_at, now);
        lease
    }

    /// Records whether the nodes know the owner only by its keys, and not as a waiter.
    pub(super) fn set_only_keys(&mut self, lease: LeaseId, has_only_keys: bool) {
        if let Some(held) = self.leases.get_mut(&lease) {
            held.has_only_keys = has_only_keys;
        }
    }

    /// A lease, lost or not, until its guard is dropped.
    #[must_use]
    pub fn lease(&self, lease: LeaseId) -> Option<&HeldLease> {
        self.leases.get(&lease).map(|held| &**held)
    }

    /// Every lease whose guard was not dropped.
    pub fn leases(&self) -> impl Iterator<Item = (LeaseId, &HeldLease)> {
        self.leases.iter().map(|(lease, held)| (*lease, &**held))
    }

    /// Checks whether the holder may act at `now`. A lost lease stays lost.
    ///
    /// # Errors
    ///
    /// The reason for which the lease ended.
    pub fn check(&mut self, lease: LeaseId, now: Moment) -> Result<(), LostReason> {
        let held = self.leases.get_mut(&lease).ok_or(LostReason::ShutDown)?;
        held.lease.check(now).inspect_err(|reason| held.lease.handle_lost(*reason))
    }

    /// Removes a lease, which is released or detached.
    pub fn remove_lease(&mut self, lease: LeaseId) -> Option<HeldLease> {
        mutate!(ReleasedRenews => return self.lease(lease).cloned());
        let mut held = *self.leases.remove(&lease)?;
        self.schedule.remove(lease.0, &mut held.times);
        held.retire();
        Some(held)
    }

    /// Sets whether the lease is renewed, and limits it to `hold_until`. An earlier limit stays.
    pub fn set_hold(&mut self, lease: LeaseId, renewal: Renewal, hold_until: Moment) {
        let Some(held) = self.leases.get_mut(&lease).filter(|it| !it.is_loss_reported) else {
            return;
        };
        held.set_hold(renewal, hold_until);
        let until = held.lease.valid_until();
        if !held.is_renewed() || !held.lease.can_grow() {
            self.schedule.cancel_renewal(lease.0, &mut held.times);
        }
        self.schedule.end_at(lease.0, &mut held.times, until);
        self.events.push_back(Event::Valid { lease, until });
    }

    /// Sends no extension of the lease from now on. The lease is still held.
    pub fn retire(&mut self, lease: LeaseId) {
        if let Some(held) = self.leases.get_mut(&lease) {
            held.retire();
        }
    }

    /// Retires the lease if no extension was ever sent and at least half of its ttl is left.
    /// Returns false otherwise.
    pub fn retire_unextended(&mut self, lease: LeaseId, now: Moment) -> bool {
        self.leases.get_mut(&lease).is_some_and(|held| held.retire_unextended(now))
    }

    /// Records that the holder is about to send an extension. A shorter ttl applies immediately. No
    /// renewal is postponed before the extension is confirmed.
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
            self.schedule.end_at(lease.0, &mut held.times, held_until);
            let known = held.times.renewal();
            let due = next_due(held, &mut self.jitter, now, now);
            if let Some(due) = due.filter(|due| known.is_none_or(|known| *due < known)) {
                self.schedule.renew_at(lease.0, &mut held.times, due);
            }
        }
        Ok(Extending { extension, held_until })
    }

    /// Handles the confirmation of an extension that was sent at `sent_at`.
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

    /// Handles the outcome of an extension by the holder that was sent at `sent_at`.
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
            // A renewal that was sent later may have extended the lease.
            Outcome::TooLate => {
                if let Some(Err(reason)) = self.leases.get(&lease).map(|it| it.lease.check(now)) {
                    self.lose(lease, reason);
                }
            }
            Outcome::Unsure => {}
        }
    }

    /// Records that the lease is lost. Returns the first known reason.
    pub fn lose(&mut self, lease: LeaseId, reason: LostReason) -> LostReason {
        let Some(held) = self.leases.get_mut(&lease) else { return reason };
        self.schedule.remove(lease.0, &mut held.times);
        held.lease.handle_lost(reason);
        let reason = held.lease.lost().unwrap_or(reason);
        if !std::mem::replace(&mut held.is_loss_reported, true) {
            self.events.push_back(Event::Lost { lease, reason });
        }
        reason
    }

    /// Ends all leases. Returns what must be released. This includes leases that were lost before,
    /// because nodes may still have their keys.
    pub fn lose_all(&mut self, reason: LostReason) -> Vec<HeldLease> {
        let released: Vec<HeldLease> = self.leases.values().map(|held| (**held).clone()).collect();
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

    /// Renews every lease that may heal, because a node is back and may lack keys.
    pub fn renew_all(&mut self, patience: Patience<'_>, now: Moment) {
        let leases = self.leases().filter(|(_, held)| held.is_renewed() && held.may_heal());
        let leases: Vec<LeaseId> = leases.map(|(lease, _)| lease).collect();
        self.renew(&leases, patience, now);
    }

    /// Renews these leases. `patience` returns the vote timeout for a ttl.
    pub fn renew(&mut self, leases: &[LeaseId], patience: Patience<'_>, now: Moment) {
        for leases in leases.chunks(EXTEND_MAX) {
            self.start_batch(leases, patience, now);
        }
    }

    /// The next batch to send to every node, in the order in which batches must arrive.
    pub fn poll_transmit(&mut self) -> Option<(BatchId, Command)> {
        loop {
            let id = self.unsent.pop_front()?;
            if let Some(batch) = self.batches.get(&id) {
                return Some((id, batch.command.clone()));
            }
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When to call `handle_timeout` next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Moment> {
        let batch = self.deadlines.first().map(|(at, _)| *at);
        [self.schedule.next(), batch].into_iter().flatten().min()
    }

    /// Handles the reply of a node to a batch. `None`: there was no usable reply.
    pub fn handle_answer(&mut self, id: BatchId, node: usize, reply: Option<&Reply>, now: Moment) {
        if let Some(batch) = self.batches.get_mut(&id) {
            batch.handle_answer(node, reply, now);
            for (lease, fence) in batch.larger_fences(reply) {
                if let Some(held) = self.leases.get_mut(&lease) {
                    held.record_fence(node, fence, majority(self.nodes));
                }
            }
            self.settle(id, now);
        }
    }

    /// Does what is due at `now`. `wall` is the time of the wall clock; `patience` is as in
    /// [`Self::renew`].
    pub fn handle_timeout(&mut self, wall: Duration, patience: Patience<'_>, now: Moment) {
        // A deadline may have been postponed after the caller set its timer.
        if self.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        if self.has_jumped(wall, now) {
            self.renew_all_after_jump(now);
        }
        self.handle_deadlines(now);
        let due: Vec<LeaseId> = self.schedule.take_renewals(now).into_iter().map(LeaseId).collect();
        for lease in &due {
            if let Some(held) = self.leases.get_mut(lease) {
                held.times.handle_renewal_taken();
            }
        }
        self.renew(&due, patience, now);
    }

    /// Whether the reply of a node to a batch can still make a difference.
    pub(super) fn awaits(&self, id: BatchId, node: usize) -> bool {
        let batch = self.batches.get(&id).filter(|batch| self.is_wanted(batch));
        batch.is_some_and(|batch| batch.awaits(node))
    }

    /// Whether the outcome of an entry can make a difference: its lease is still held.
    fn is_wanted(&self, batch: &Batch) -> bool {
        let is_held = |lease| self.leases.get(&lease).is_some_and(|held| !held.is_loss_reported);
        batch.unsettled().any(|(renewal, _)| is_held(renewal.lease))
    }

    /// Reports every part on which the outcome of a renewal may depend.
    pub(super) fn observe(&self, to: &mut impl Observer) {
        let Self {
            nodes: _,
            builder: _,
            jitter: _,
            leases,
            schedule,
            batches,
            deadlines: _,
            last_terms: _,
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
                to.due(Some(batch.due_at));
            }
        }
    }

    /// Ends renewals that have timed out, and reports leases that have ended.
    fn handle_deadlines(&mut self, now: Moment) {
        while let Some((at, id)) = self.deadlines.first().copied()
            && at <= now
        {
            self.deadlines.remove(&(at, id));
            self.handle_batch_due(id, now);
        }
        self.report_ended(now);
    }

    /// Renews every lease immediately, because a clock has jumped. The jump itself ends no lease.
    fn renew_all_after_jump(&mut self, now: Moment) {
        for (lease, held) in &mut self.leases {
            if held.lease.handle_risk(now) {
                self.events.push_back(Event::AtRisk { lease: *lease });
            }
            if held.times.renewal().is_some() {
                self.schedule.renew_at(lease.0, &mut held.times, now);
            }
        }
    }

    /// Reports leases that have ended. If a lease was extended in the meantime, schedules its new
    /// end.
    fn report_ended(&mut self, now: Moment) {
        for lease in self.schedule.take_ended(now).into_iter().map(LeaseId) {
            let Some(held) = self.leases.get_mut(&lease) else { continue };
            held.times.handle_end_taken();
            match held.lease.check(now) {
                _ if now < held.lease.valid_until() => {
                    let ends_at = held.lease.valid_until();
                    self.schedule.end_at(lease.0, &mut held.times, ends_at);
                }
                Ok(()) => {}
                Err(reason) => {
                    self.lose(lease, reason);
                }
            }
        }
    }

    /// Whether the wall clock has moved against the lease clock since the last timeout: it was set,
    /// or the machine was suspended and the lease clock does not count that time.
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

/// Smaller differences come from slewing, and from reading the two clocks one after the other.
const CLOCK_JUMP_MIN: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
