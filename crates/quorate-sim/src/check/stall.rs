//! Detects waiters that get no lock although nothing blocks them.

use super::{Checker, Promise};
use crate::{
    clock::Nanos,
    trace::{Group, millis},
};

/// The waiters for one lock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stall {
    /// How many want the lock exclusively, how many want to share it, and how many are entries of
    /// each identity.
    alone: u32,
    shared: u32,
    entries: [u32; 2],
    /// Since when a waiter has been stalled.
    pub(super) since: Option<Nanos>,
}

impl Stall {
    const fn count(&mut self, group: Option<Group>) -> &mut u32 {
        match group {
            None => &mut self.alone,
            Some(Group::Readers) => &mut self.shared,
            Some(Group::Identity(identity)) => &mut self.entries[at(identity)],
        }
    }

    const fn total(&self) -> u32 {
        self.alone + self.shared + self.entries[0] + self.entries[1]
    }
}

/// The index of an identity.
const fn at(identity: char) -> usize {
    identity as usize % 2
}

impl Checker {
    pub(crate) fn add_waiter(&mut self, now: Nanos, lock: usize, group: Option<Group>) {
        *self.stalled[lock].count(group) += 1;
        self.start_stall(now, lock);
    }

    pub(crate) fn remove_waiter(&mut self, now: Nanos, lock: usize, group: Option<Group>) {
        self.check_stall(now, lock);
        *self.stalled[lock].count(group) -= 1;
        if self.stalled[lock].total() == 0 {
            self.stalled[lock].since = None;
        }
        self.start_stall(now, lock);
    }

    /// True if a waiter for the lock would share it.
    pub(crate) fn is_wanted_together(&self, lock: usize) -> bool {
        self.stalled[lock].shared > 0
    }

    /// Starts the clock if a waiter could be served: a lock without a holder can go to any waiter,
    /// a shared lock to waiters that would share it if no others wait, and a lock of an identity to
    /// its entries.
    pub(super) fn start_stall(&mut self, now: Nanos, lock: usize) {
        let held = |locks: &[Vec<u32>]| {
            let claims = locks.iter().flatten().map(|claim| &self.claims[*claim as usize]);
            claims.filter(|claim| now < claim.end).map(|claim| claim.group).collect::<Vec<_>>()
        };
        // With sets, a waiter may depend on a set that waits for any other lock.
        let locks = if self.has_sets { &self.open[..] } else { &self.open[lock..=lock] };
        let is_free = held(locks).is_empty();
        let mut groups = held(&self.open[lock..=lock]);
        groups.dedup();
        let stall = &mut self.stalled[lock];
        let is_in_vain = match groups[..] {
            [] => is_free && stall.total() > 0,
            [Some(Group::Readers)] => stall.shared > 0 && stall.shared == stall.total(),
            [Some(Group::Identity(identity))] => stall.entries[at(identity)] > 0,
            _ => false,
        };
        if self.healed_at.is_some() && is_in_vain && !self.is_suspended {
            stall.since.get_or_insert(now);
        } else if !is_free {
            stall.since = None;
        }
    }

    /// Sets whether new locks can be granted at all. The clocks of all waiters start again.
    pub(crate) fn suspend_stalls(&mut self, now: Nanos, is_suspended: bool) {
        self.is_suspended = is_suspended;
        self.stalled.iter_mut().for_each(|stall| stall.since = None);
        (0..self.open.len()).for_each(|lock| self.start_stall(now, lock));
    }

    /// An event just now may block waiters for another ttl.
    pub(crate) fn delay_stalls(&mut self, now: Nanos) {
        self.stalled.iter_mut().for_each(|stall| stall.since = stall.since.map(|_| now));
    }

    /// True if a waiter is stalled.
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_within_bounds() && self.stalled.iter().any(|stall| stall.since.is_some())
    }

    /// Reports a violation if a waiter has been stalled for too long.
    pub(crate) fn check_stall(&mut self, now: Nanos, lock: usize) {
        let Some(since) = self.stalled[lock].since else { return };
        if now.saturating_sub(since) > self.progress_within && self.is_within_bounds() {
            let text = format!(
                "nothing has blocked the waiters since {}, and none gets the lock",
                millis(since)
            );
            self.report(now, Promise::Progress, Some(lock), Vec::new(), text);
        }
    }
}
