//! When each held lease is renewed and when it ends.
//!
//! Renewals may be early, so that renewals which are due at about the same time share a batch. The
//! end of a lease is never early.

use std::{collections::BTreeSet, time::Duration};

use crate::{backoff::Jitter, moment::Moment};

/// Renewals and ends of the leases of one client, ordered by time. Each lease has its own
/// [`Times`].
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Schedule {
    renewals: BTreeSet<(Moment, u64)>,
    ends: BTreeSet<(Moment, u64)>,
}

/// When one lease is due. The owner of the lease keeps them next to it.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Times {
    renewal: Option<Moment>,
    end: Option<Moment>,
}

impl Times {
    /// When the lease is due for renewal, if it is.
    #[must_use]
    pub const fn renewal(&self) -> Option<Moment> {
        self.renewal
    }

    /// The lease was returned by [`Schedule::take_renewals`].
    pub const fn handle_renewal_taken(&mut self) {
        self.renewal = None;
    }

    /// The lease was returned by [`Schedule::take_ended`].
    pub const fn handle_end_taken(&mut self) {
        self.end = None;
    }
}

impl Schedule {
    /// An empty schedule.
    #[must_use]
    pub const fn new() -> Self {
        Self { renewals: BTreeSet::new(), ends: BTreeSet::new() }
    }

    /// Renews the lease at `at`, instead of at an earlier choice.
    pub fn renew_at(&mut self, lease: u64, times: &mut Times, at: Moment) {
        set(&mut self.renewals, lease, &mut times.renewal, Some(at));
    }

    /// Stops renewing the lease.
    pub fn cancel_renewal(&mut self, lease: u64, times: &mut Times) {
        set(&mut self.renewals, lease, &mut times.renewal, None);
    }

    /// Reports the lease in [`take_ended`](Self::take_ended) at `at`.
    pub fn end_at(&mut self, lease: u64, times: &mut Times, at: Moment) {
        set(&mut self.ends, lease, &mut times.end, Some(at));
    }

    /// Removes the lease.
    pub fn remove(&mut self, lease: u64, times: &mut Times) {
        self.cancel_renewal(lease, times);
        set(&mut self.ends, lease, &mut times.end, None);
    }

    /// Removes and returns the leases that are due for renewal at `now` or within [`BATCH_WINDOW`].
    /// Returns none unless at least one is due at `now`.
    pub fn take_renewals(&mut self, now: Moment) -> Vec<u64> {
        if self.renewals.first().is_none_or(|(first, _)| now < *first) {
            return Vec::new();
        }
        take_until(&mut self.renewals, now.saturating_add(BATCH_WINDOW))
    }

    /// Removes and returns the leases whose end has passed at `now`.
    pub fn take_ended(&mut self, now: Moment) -> Vec<u64> {
        mutate!(NoLossSignal => return { take_until(&mut self.ends, now); Vec::new() });
        take_until(&mut self.ends, now)
    }

    /// When the next renewal or end is due.
    #[must_use]
    pub fn next(&self) -> Option<Moment> {
        let firsts = [self.renewals.first(), self.ends.first()];
        firsts.into_iter().flatten().map(|(at, _)| *at).min()
    }
}

/// Moves a lease to another time.
fn set(
    by_time: &mut BTreeSet<(Moment, u64)>,
    lease: u64,
    known: &mut Option<Moment>,
    at: Option<Moment>,
) {
    if *known == at {
        return;
    }
    if let Some(before) = std::mem::replace(known, at) {
        by_time.remove(&(before, lease));
    }
    by_time.extend(at.map(|at| (at, lease)));
}

fn take_until(by_time: &mut BTreeSet<(Moment, u64)>, until: Moment) -> Vec<u64> {
    let mut taken = Vec::new();
    while by_time.first().is_some_and(|(at, _)| *at <= until) {
        taken.extend(by_time.pop_first().map(|(_, lease)| lease));
    }
    taken
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
            schedule.renew_at(lease, &mut Times::default(), at(ms));
        }
        assert_eq!(schedule.take_renewals(at(99)), [], "none is due yet");
        assert_eq!(schedule.take_renewals(at(100)), [1, 2, 3]);
        assert_eq!(schedule.next(), Some(at(106)));
    }

    #[test]
    fn end_of_a_lease_is_never_early() {
        let mut schedule = Schedule::new();
        schedule.end_at(1, &mut Times::default(), at(100));
        assert_eq!(schedule.take_ended(at(99)), []);
        assert_eq!(schedule.take_ended(at(100)), [1]);
        assert_eq!(schedule.next(), None);
    }

    #[test]
    fn lease_has_one_renewal_and_one_end_and_can_be_removed() {
        let (mut schedule, mut times) = (Schedule::new(), Times::default());
        schedule.renew_at(1, &mut times, at(100));
        schedule.renew_at(1, &mut times, at(50));
        schedule.end_at(1, &mut times, at(300));
        assert_eq!(schedule.next(), Some(at(50)));
        schedule.cancel_renewal(1, &mut times);
        assert_eq!(schedule.next(), Some(at(300)));
        schedule.remove(1, &mut times);
        assert_eq!((schedule, times), (Schedule::new(), Times::default()));
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
