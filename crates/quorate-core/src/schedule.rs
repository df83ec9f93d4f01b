//! When each held lease is renewed and when it ends.
//!
//! Renewals may be early, so that renewals which are due at about the same time share a batch. The
//! end of a lease is never early.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{backoff::Jitter, moment::Moment};

/// Renewals and ends of the leases of one client, by lease number.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Schedule {
    renewals: Deadlines,
    ends: Deadlines,
}

impl Schedule {
    /// An empty schedule.
    #[must_use]
    pub const fn new() -> Self {
        Self { renewals: Deadlines::new(), ends: Deadlines::new() }
    }

    /// Renews the lease at `at`, instead of at an earlier choice.
    pub fn renew_at(&mut self, lease: u64, at: Moment) {
        self.renewals.set(lease, at);
    }

    /// Stops renewing the lease.
    pub fn cancel_renewal(&mut self, lease: u64) {
        self.renewals.remove(lease);
    }

    /// When the lease is due for renewal, if it is.
    #[must_use]
    pub fn renewal_of(&self, lease: u64) -> Option<Moment> {
        self.renewals.times.get(&lease).copied()
    }

    /// Reports the lease in [`take_ended`](Self::take_ended) at `at`.
    pub fn end_at(&mut self, lease: u64, at: Moment) {
        self.ends.set(lease, at);
    }

    /// Removes the lease.
    pub fn remove(&mut self, lease: u64) {
        self.renewals.remove(lease);
        self.ends.remove(lease);
    }

    /// Removes and returns the leases that are due for renewal at `now` or within [`BATCH_WINDOW`].
    /// Returns none unless at least one is due at `now`.
    pub fn take_renewals(&mut self, now: Moment) -> Vec<u64> {
        if self.renewals.first().is_none_or(|first| now < first) {
            return Vec::new();
        }
        self.renewals.take_until(now.saturating_add(BATCH_WINDOW))
    }

    /// Removes and returns the leases whose end has passed at `now`.
    pub fn take_ended(&mut self, now: Moment) -> Vec<u64> {
        mutate!(NoLossSignal => return { self.ends.take_until(now); Vec::new() });
        self.ends.take_until(now)
    }

    /// When the next renewal or end is due.
    #[must_use]
    pub fn next(&self) -> Option<Moment> {
        match (self.renewals.first(), self.ends.first()) {
            (Some(renewal), Some(end)) => Some(renewal.min(end)),
            (renewal, end) => renewal.or(end),
        }
    }
}

/// When to renew a lease that was acquired or last renewed at `sent_at`: after a third of its ttl,
/// or a little earlier. A random part is subtracted, which spreads leases that were acquired in one
/// burst. The rest is rounded down to a common slot, so that leases of the same ttl share a batch.
#[must_use]
pub fn renewal_due(sent_at: Moment, ttl: Duration, jitter: &mut Jitter) -> Moment {
    let third = ttl.checked_div(3).unwrap_or(Duration::ZERO);
    let less = jitter.up_to(third.checked_div(3).unwrap_or(Duration::ZERO));
    align_to_slot(sent_at.saturating_add(third.saturating_sub(less)), ttl).max(sent_at)
}

/// When a waiter repeats its request after `now`: after a third of its ttl, or a little earlier, so
/// that waiters with the same ttl share a batch.
#[must_use]
pub fn heartbeat_due(now: Moment, ttl: Duration) -> Moment {
    let third = ttl.checked_div(3).unwrap_or(Duration::ZERO);
    align_to_slot(now.saturating_add(third), ttl).max(now)
}

/// The last common slot of all leases of this ttl that is not after `due`.
fn align_to_slot(due: Moment, ttl: Duration) -> Moment {
    let slot = u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX) / SLOTS_PER_TTL;
    let past_slot = due.as_nanos().checked_rem(slot).unwrap_or(0);
    Moment::from_nanos(due.as_nanos().saturating_sub(past_slot))
}

/// The delay before an unconfirmed renewal is retried.
#[must_use]
pub fn retry_delay(ttl: Duration, jitter: &mut Jitter) -> Duration {
    let twentieth = ttl.checked_div(20).unwrap_or(Duration::ZERO);
    let delay = twentieth.clamp(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
    delay.checked_div(2).unwrap_or(Duration::ZERO).saturating_add(jitter.up_to(delay))
}

const RETRY_DELAY_MIN: Duration = Duration::from_millis(5);
const RETRY_DELAY_MAX: Duration = Duration::from_millis(200);

/// How many slots for batches of renewals a ttl has.
const SLOTS_PER_TTL: u64 = 48;

/// Renewals that are due within this time of the first one share its batch.
pub const BATCH_WINDOW: Duration = Duration::from_millis(5);

/// Leases ordered by time.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Deadlines {
    by_time: BTreeSet<(Moment, u64)>,
    times: BTreeMap<u64, Moment>,
}

impl Deadlines {
    const fn new() -> Self {
        Self { by_time: BTreeSet::new(), times: BTreeMap::new() }
    }

    fn set(&mut self, lease: u64, at: Moment) {
        self.remove(lease);
        self.by_time.insert((at, lease));
        self.times.insert(lease, at);
    }

    fn remove(&mut self, lease: u64) {
        if let Some(at) = self.times.remove(&lease) {
            self.by_time.remove(&(at, lease));
        }
    }

    fn first(&self) -> Option<Moment> {
        self.by_time.first().map(|(at, _)| *at)
    }

    fn take_until(&mut self, until: Moment) -> Vec<u64> {
        let mut taken = Vec::new();
        while let Some((at, lease)) = self.by_time.first().copied() {
            if until < at {
                break;
            }
            self.remove(lease);
            taken.push(lease);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::ZERO.saturating_add(Duration::from_millis(ms))
    }

    #[test]
    fn renewals_within_the_batch_window_are_taken_together() {
        let mut schedule = Schedule::new();
        for (lease, ms) in [(1, 100), (2, 101), (3, 105), (4, 106)] {
            schedule.renew_at(lease, at(ms));
        }
        assert_eq!(schedule.take_renewals(at(99)), [], "none is due yet");
        assert_eq!(schedule.take_renewals(at(100)), [1, 2, 3]);
        assert_eq!(schedule.next(), Some(at(106)));
    }

    #[test]
    fn end_of_a_lease_is_never_early() {
        let mut schedule = Schedule::new();
        schedule.end_at(1, at(100));
        assert_eq!(schedule.take_ended(at(99)), []);
        assert_eq!(schedule.take_ended(at(100)), [1]);
        assert_eq!(schedule.next(), None);
    }

    #[test]
    fn lease_has_one_renewal_and_one_end_and_can_be_removed() {
        let mut schedule = Schedule::new();
        schedule.renew_at(1, at(100));
        schedule.renew_at(1, at(50));
        schedule.end_at(1, at(300));
        assert_eq!(schedule.next(), Some(at(50)));
        schedule.cancel_renewal(1);
        assert_eq!(schedule.next(), Some(at(300)));
        schedule.remove(1);
        assert_eq!(schedule, Schedule::new());
    }

    #[test]
    fn renewal_is_due_at_a_third_of_the_ttl_or_earlier() {
        let mut jitter = Jitter::new(1);
        let ttl = Duration::from_secs(12);
        let mut due: Vec<Moment> =
            (0..1_000).map(|_| renewal_due(at(10), ttl, &mut jitter)).collect();
        assert!(due.iter().all(|due| (at(2_426)..=at(4_010)).contains(due)));
        let early = due.iter().filter(|due| **due < at(3_300)).count();
        assert!((350..650).contains(&early), "spread evenly: {early}");
        due.sort_unstable();
        due.dedup();
        assert!((5..=7).contains(&due.len()), "in groups: {due:?}");
        let tiny = renewal_due(at(1), Duration::from_nanos(3), &mut jitter);
        assert!(at(1) <= tiny && tiny <= at(2), "handles a tiny ttl: {tiny:?}");
    }
}
