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
        let give_up_at = now.saturating_add(vote_timeout);
        self.batches.insert(id, Batch { command, sent_at: now, give_up_at, entries });
        self.deadlines.insert((give_up_at, id));
        self.unsent.push_back(id);
    }

    /// Applies every outcome that has become certain.
    pub(super) fn settle(&mut self, id: BatchId, now: Moment) {
        let Some(batch) = self.batches.get_mut(&id) else { return };
        let (sent_at, settled) = (batch.sent_at, batch.take_settled());
        if batch.is_settled() {
            self.deadlines.remove(&(batch.give_up_at, id));
            self.batches.remove(&id);
        }
        for settled in settled {
            self.apply(settled, sent_at, now);
        }
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
            Outcome::Unsure => self.retry(lease, now),
        }
    }

    /// Schedules a retry, because the last renewal was not confirmed.
    pub(super) fn retry(&mut self, lease: LeaseId, now: Moment) {
        let Some(held) = self.leases.get_mut(&lease) else { return };
        if held.lease.handle_risk(now) {
            self.events.push_back(Event::AtRisk { lease });
        }
        mutate!(NoRenewalRetry => return);
        if held.is_renewed() {
            let delay = retry_delay(held.terms().ttl(), &mut self.jitter);
            self.schedule.renew_at(lease.0, &mut held.times, now.saturating_add(delay));
        }
    }

    pub(super) fn renew_after(&mut self, lease: LeaseId, sent_at: Moment, now: Moment) {
        let Some(held) = self.leases.get_mut(&lease) else { return };
        if let Some(due) = next_due(held, &mut self.jitter, sent_at, now) {
            self.schedule.renew_at(lease.0, &mut held.times, due);
        }
    }
}

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
