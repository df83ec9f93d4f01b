//! Who waits although nothing is in the way.

use super::{Checker, Promise};
use crate::{clock::Nanos, trace::millis};

/// Those who wait for one lock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stall {
    /// How many want it alone, and how many would share it.
    alone: u32,
    shared: u32,
    /// Since when somebody waits in vain.
    pub(super) since: Option<Nanos>,
}

impl Stall {
    const fn count(&mut self, is_shared: bool) -> &mut u32 {
        if is_shared { &mut self.shared } else { &mut self.alone }
    }
}

impl Checker {
    pub(crate) fn add_waiter(&mut self, now: Nanos, lock: usize, is_shared: bool) {
        *self.stalled[lock].count(is_shared) += 1;
        self.start_stall(now, lock);
    }

    pub(crate) fn remove_waiter(&mut self, now: Nanos, lock: usize, is_shared: bool) {
        self.check_stall(now, lock);
        *self.stalled[lock].count(is_shared) -= 1;
        let Stall { alone, shared, .. } = self.stalled[lock];
        if (alone, shared) == (0, 0) {
            self.stalled[lock].since = None;
        }
        self.start_stall(now, lock);
    }

    /// Whether somebody waits for a lock who would share it.
    pub(crate) fn is_wanted_together(&self, lock: usize) -> bool {
        self.stalled[lock].shared > 0
    }

    /// A lock that nobody holds is anybody's; one that is shared is of those who would share it, if
    /// nobody waits who wants it alone.
    pub(super) fn start_stall(&mut self, now: Nanos, lock: usize) {
        // Where sets are wanted, a waiter may wait for a set that waits for any other lock.
        let locks = if self.has_sets { &self.open[..] } else { &self.open[lock..=lock] };
        let claims = locks.iter().flatten().map(|claim| &self.claims[*claim as usize]);
        let (mut is_free, mut is_shared) = (true, true);
        for holder in claims.filter(|claim| now < claim.end) {
            is_free = false;
            is_shared &= holder.is_shared;
        }
        let stall = &mut self.stalled[lock];
        let is_in_vain = match is_free {
            true => stall.alone + stall.shared > 0,
            false => is_shared && stall.shared > 0 && stall.alone == 0,
        };
        if self.healed_at.is_some() && is_in_vain && !self.is_suspended {
            stall.since.get_or_insert(now);
        } else if !is_free {
            stall.since = None;
        }
    }

    /// Says whether somebody new can get a lock at all; when it can, all who wait count anew.
    pub(crate) fn suspend_stalls(&mut self, now: Nanos, is_suspended: bool) {
        self.is_suspended = is_suspended;
        self.stalled.iter_mut().for_each(|stall| stall.since = None);
        (0..self.open.len()).for_each(|lock| self.start_stall(now, lock));
    }

    /// What happened now may keep a lock from those who wait for another ttl.
    pub(crate) fn delay_stalls(&mut self, now: Nanos) {
        self.stalled.iter_mut().for_each(|stall| stall.since = stall.since.map(|_| now));
    }

    /// True if somebody waits for a lock that nobody keeps from it.
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_within_bounds() && self.stalled.iter().any(|stall| stall.since.is_some())
    }

    /// Says so if somebody has waited for too long although nobody keeps the lock from it.
    pub(crate) fn check_stall(&mut self, now: Nanos, lock: usize) {
        let Some(since) = self.stalled[lock].since else { return };
        if now.saturating_sub(since) > self.progress_within && self.is_within_bounds() {
            let text =
                format!("nobody is in the way since {}, and no waiter gets it", millis(since));
            self.report(now, Promise::Progress, Some(lock), Vec::new(), text);
        }
    }
}
