//! Renewals: when they are due, what follows from their outcome, and when they are retried.

use std::time::Duration;

use super::{Batch, BatchId, Entry, Event, HeldLease, LeaseId, Patience, Settled, Watchdog};
use crate::{
    backoff::Jitter,
    lease::LostReason,
    moment::Moment,
    renew::{Outcome, Renew},
    schedule::{renewal_due, retry_delay},
};

impl Watchdog {
    pub(super) fn start_batch(&mut self, leases: &[LeaseId], patience: Patience<'_>, now: Moment) {
        let ttls = leases.iter().filter_map(|lease| Some(self.leases.get(lease)?.terms().ttl()));
        let Some(vote_timeout) = ttls.min().map(patience) else { return };
        let mut entries = Vec::new();
        for lease in leases {
            let Some(held) = self.leases.get_mut(lease) else { continue };
            let terms = held.terms().with_vote_timeout(vote_timeout);
            let Some(extension) = held.renew(&terms, now) else { continue };
            let held_until = held.lease.valid_until();
            let machine = Renew::start(terms, self.nodes, held_until, now);
            entries.push(Entry::new(*lease, extension, machine, held_until));
            self.events.push_back(Event::Valid { lease: *lease, until: held_until });
        }
        if entries.is_empty() {
            return;
        }
        let id = BatchId(self.next_number());
        let renewed = entries.iter().filter_map(|entry| self.leases.get(&entry.lease()));
        let renewed: Vec<_> = renewed.map(|held| (held.target(), held.fenced())).collect();
        let command = self.builder.extend(&renewed);
        let due_at = now.saturating_add(vote_timeout);
        let batch = Batch { command, sent_at: now, due_at, is_overdue: false, entries };
        self.batches.insert(id, batch);
        self.deadlines.insert((due_at, id));
        self.unsent.push_back(id);
    }

    /// Applies every outcome that has become certain.
    pub(super) fn settle(&mut self, id: BatchId, now: Moment) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let is_hopeless = |(renewal, can_win): (Settled, bool)| (!can_win).then_some(renewal);
        let hopeless: Vec<Settled> = match batch.is_overdue {
            true => batch.unsettled().filter_map(is_hopeless).collect(),
            false => Vec::new(),
        };
        let (sent_at, is_overdue, settled) =
            (batch.sent_at, batch.is_overdue, batch.take_settled());
        if batch.is_settled() {
            self.deadlines.remove(&(batch.due_at, id));
            self.batches.remove(&id);
        }
        for settled in settled {
            match settled.outcome {
                // It was reported when the vote timeout passed, or its lease has ended.
                Outcome::Unsure if is_overdue => self.retry_soon(settled, now),
                _ => self.apply(settled, sent_at, now),
            }
        }
        hopeless.into_iter().for_each(|renewal| self.retry_soon(renewal, now));
    }

    /// The vote timeout of a batch has passed, or the last deadline of its renewals.
    pub(super) fn handle_batch_due(&mut self, id: BatchId, now: Moment) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let late: Vec<(Settled, bool)> = batch.unsettled().collect();
        let is_waiting = !std::mem::replace(&mut batch.is_overdue, true);
        let last = late.iter().map(|(renewal, _)| renewal.held_until).max();
        let Some(until) = last.filter(|last| is_waiting && now < *last) else {
            batch.handle_timeout(now);
            return self.settle(id, now);
        };
        batch.due_at = until;
        self.deadlines.insert((until, id));
        for (renewal, can_win) in late {
            self.handle_overdue(renewal, if can_win { PENDING_PARTS } else { u32::MAX }, now);
        }
    }

    /// The vote timeout of a renewal has passed. Retries it when this part of the remaining time is
    /// gone. If nodes may still confirm it, that is not soon: one that is slow because it has much
    /// to do must not get the same again and again.
    fn handle_overdue(&mut self, renewal: Settled, parts: u32, now: Moment) {
        let Settled { lease, outcome, held_until, .. } = renewal;
        let Some(held) = self.leases.get(&lease).filter(|held| !held.is_loss_reported) else {
            return;
        };
        let margin = held.lease.remaining(now);
        self.events.push_back(Event::Renewed { lease, outcome, margin, held_until });
        self.retry(lease, margin.checked_div(parts).unwrap_or_default(), now);
    }

    pub(super) fn apply(&mut self, settled: Settled, sent_at: Moment, now: Moment) {
        let Settled { lease, extension, held_until, outcome } = settled;
        // If the guard was dropped in the meantime, the key may be gone because of the release.
        // That is not a loss.
        let is_held = |held: &&mut Box<HeldLease>| !held.is_loss_reported;
        let Some(held) = self.leases.get_mut(&lease).filter(is_held) else { return };
        let margin = match outcome {
            Outcome::Gone => Duration::ZERO,
            _ => held.lease.remaining(now),
        };
        let checked = held.lease.check(now);
        // Another extension, sent after this one, may have extended the lease.
        if outcome != Outcome::TooLate || checked.is_err() {
            self.events.push_back(Event::Renewed { lease, outcome, margin, held_until });
        }
        match outcome {
            Outcome::Extended { valid_until } => {
                self.handle_extended(lease, extension, valid_until, sent_at, now);
            }
            Outcome::Gone => {
                self.lose(lease, LostReason::Gone);
            }
            Outcome::TooLate => {
                if let Err(reason) = checked {
                    self.lose(lease, reason);
                }
            }
            Outcome::Unsure => self.retry(lease, Duration::ZERO, now),
        }
    }

    /// Schedules a retry after at least this time, because the last renewal was not confirmed.
    fn retry(&mut self, lease: LeaseId, least: Duration, now: Moment) {
        let Some(held) = self.leases.get_mut(&lease) else { return };
        if held.lease.handle_risk(now) {
            self.events.push_back(Event::AtRisk { lease });
        }
        mutate!(NoRenewalRetry => return);
        if held.is_renewed() {
            let delay = retry_delay(held.terms().ttl(), &mut self.jitter).max(least);
            self.schedule.renew_at(lease.0, &mut held.times, now.saturating_add(delay));
        }
    }

    /// Retries a renewal that no node can confirm any more, unless a later one was sent.
    fn retry_soon(&mut self, renewal: Settled, now: Moment) {
        let Settled { lease, extension, .. } = renewal;
        let Some(held) = self.leases.get_mut(&lease) else { return };
        if !held.is_renewed() || !held.lease.is_last(extension) {
            return;
        }
        let at = now.saturating_add(retry_delay(held.terms().ttl(), &mut self.jitter));
        if held.times.renewal().is_some_and(|known| at < known) {
            self.schedule.renew_at(lease.0, &mut held.times, at);
        }
    }

    pub(super) fn renew_after(&mut self, lease: LeaseId, sent_at: Moment, now: Moment) {
        let Some(held) = self.leases.get_mut(&lease) else { return };
        if let Some(due) = next_due(held, &mut self.jitter, sent_at, now) {
            self.schedule.renew_at(lease.0, &mut held.times, due);
        }
    }
}

/// A renewal that nodes may still confirm is retried when this part of the remaining time is gone.
/// So the retries of a lease get closer towards its end, and there are few.
const PENDING_PARTS: u32 = 4;

/// When the lease is renewed next, if at all: after a part of its ttl, but no later than halfway to
/// its end.
pub(super) fn next_due(
    held: &HeldLease,
    jitter: &mut Jitter,
    sent_at: Moment,
    now: Moment,
) -> Option<Moment> {
    if !held.is_renewed() || !held.lease.can_grow() {
        return None;
    }
    let due = renewal_due(sent_at, held.terms().ttl(), jitter);
    let left = held.lease.valid_until().saturating_since(now);
    let half = left.checked_div(2).unwrap_or_default();
    Some(due.min(now.saturating_add(half)))
}
