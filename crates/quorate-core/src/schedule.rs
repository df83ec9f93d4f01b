//! When each held lease is renewed and when it ends: the watchdog's memory.
//!
//! It holds two lists. A renewal may come a little early, so that those which are due at about the
//! same time travel together. The end of a lease is never early.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{backoff::Jitter, moment::Moment};

/// The leases of one client by number, with what is due when.
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

    /// The lease is to be renewed at `at`, and not at what was said before.
    pub fn renew_at(&mut self, lease: u64, at: Moment) {
        self.renewals.set(lease, at);
    }

    /// The lease is not to be renewed any more.
    pub fn renew_never(&mut self, lease: u64) {
        self.renewals.remove(lease);
    }

    /// When the lease is to be renewed, if it is.
    #[must_use]
    pub fn renewal_of(&self, lease: u64) -> Option<Moment> {
        self.renewals.times.get(&lease).copied()
    }

    /// The lease is to be looked at when it ends.
    pub fn look_at(&mut self, lease: u64, at: Moment) {
        self.ends.set(lease, at);
    }

    /// The lease is nobody's business any more.
    pub fn remove(&mut self, lease: u64) {
        self.renewals.remove(lease);
        self.ends.remove(lease);
    }

    /// Takes out the leases that are due for renewal at `now`, or will be within [`GATHER_WITHIN`].
    /// Nothing is taken out until one is really due.
    pub fn take_renewals(&mut self, now: Moment) -> Vec<u64> {
        if self.renewals.first().is_none_or(|first| now < first) {
            return Vec::new();
        }
        self.renewals.take_until(now.saturating_add(GATHER_WITHIN))
    }

    /// Takes out the leases whose end has come at `now`.
    pub fn take_ends(&mut self, now: Moment) -> Vec<u64> {
        mutate!(NoLossSignal => return { self.ends.take_until(now); Vec::new() });
        self.ends.take_until(now)
    }

    /// When something is due next.
    #[must_use]
    pub fn next(&self) -> Option<Moment> {
        match (self.renewals.first(), self.ends.first()) {
            (Some(renewal), Some(end)) => Some(renewal.min(end)),
            (renewal, end) => renewal.or(end),
        }
    }
}

/// When a lease that was taken or last renewed at `sent_at` is renewed: after a third of its ttl,
/// or a little before. A random part is taken off, so that leases of one burst spread out; what is
/// left is rounded down to a common beat, so that leases of the same ttl travel together.
#[must_use]
pub fn renewal_due(sent_at: Moment, ttl: Duration, jitter: &mut Jitter) -> Moment {
    let third = ttl.checked_div(3).unwrap_or(Duration::ZERO);
    let less = jitter.up_to(third.checked_div(3).unwrap_or(Duration::ZERO));
    on_beat(sent_at.saturating_add(third.saturating_sub(less)), ttl).max(sent_at)
}

/// When one who waits since `now` asks again: after a third of its ttl, or a little before, so that
/// those of the same ttl ask together.
#[must_use]
pub fn heartbeat_due(now: Moment, ttl: Duration) -> Moment {
    let third = ttl.checked_div(3).unwrap_or(Duration::ZERO);
    on_beat(now.saturating_add(third), ttl).max(now)
}

/// The last common beat of all leases of this ttl that is not after `due`.
fn on_beat(due: Moment, ttl: Duration) -> Moment {
    let beat = u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX) / BEATS_PER_TTL;
    let past_beat = due.as_nanos().checked_rem(beat).unwrap_or(0);
    Moment::from_nanos(due.as_nanos().saturating_sub(past_beat))
}

/// How long to wait before a renewal that was not confirmed is tried again.
#[must_use]
pub fn retry_delay(ttl: Duration, jitter: &mut Jitter) -> Duration {
    let twentieth = ttl.checked_div(20).unwrap_or(Duration::ZERO);
    let delay = twentieth.clamp(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
    delay.checked_div(2).unwrap_or(Duration::ZERO).saturating_add(jitter.up_to(delay))
}

const RETRY_DELAY_MIN: Duration = Duration::from_millis(5);
const RETRY_DELAY_MAX: Duration = Duration::from_millis(200);

/// How many times within a ttl a group of renewals may leave.
const BEATS_PER_TTL: u64 = 48;

/// Renewals that are due within this time of the first one travel with it.
pub const GATHER_WITHIN: Duration = Duration::from_millis(5);

/// Leases in the order of their times.
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
    fn renewals_that_are_due_soon_travel_with_the_first_one() {
        let mut schedule = Schedule::new();
        for (lease, ms) in [(1, 100), (2, 101), (3, 105), (4, 106)] {
            schedule.renew_at(lease, at(ms));
        }
        assert_eq!(schedule.take_renewals(at(99)), [], "nothing before one is really due");
        assert_eq!(schedule.take_renewals(at(100)), [1, 2, 3]);
        assert_eq!(schedule.next(), Some(at(106)));
    }

    #[test]
    fn the_end_of_a_lease_is_never_early() {
        let mut schedule = Schedule::new();
        schedule.look_at(1, at(100));
        assert_eq!(schedule.take_ends(at(99)), []);
        assert_eq!(schedule.take_ends(at(100)), [1]);
        assert_eq!(schedule.next(), None);
    }

    #[test]
    fn a_lease_has_one_time_for_each_and_can_be_taken_off() {
        let mut schedule = Schedule::new();
        schedule.renew_at(1, at(100));
        schedule.renew_at(1, at(50));
        schedule.look_at(1, at(300));
        assert_eq!(schedule.next(), Some(at(50)));
        schedule.renew_never(1);
        assert_eq!(schedule.next(), Some(at(300)));
        schedule.remove(1);
        assert_eq!(schedule, Schedule::new());
    }

    #[test]
    fn a_renewal_is_due_at_a_third_of_the_ttl_or_a_little_before() {
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
        assert!(at(1) <= tiny && tiny <= at(2), "no ttl is too short: {tiny:?}");
    }
}
