//! Members of a set: acquires of several locks, of which all succeed or none.
//!
//! Until all members are ready, each yields to earlier tickets, even with a majority of grants. All
//! members have the same ticket. So a set waits only for sets with earlier tickets, and overlapping
//! sets never deadlock.
//!
//! Classic mode has no tickets. There a try ends for all members when it fails for one, and they
//! retry together after a random delay.

use super::{Acquire, grants::GrantState};
use crate::moment::Moment;

impl Acquire {
    /// The same as a member of a set: it does not acquire the lock on its own when it is ready.
    #[must_use]
    pub const fn member(mut self) -> Self {
        self.is_member = true;
        self
    }

    /// Whether a majority of the nodes has granted the lock.
    #[must_use]
    pub fn has_majority(&self) -> bool {
        self.granted().len() >= self.quorum()
    }

    /// Whether it has a majority, and waits for the other members of its set.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.is_member && self.has_majority()
    }

    /// Whether the lock can be acquired at `now`.
    pub fn is_ready(&mut self, now: Moment) -> bool {
        self.outcome.is_none() && matches!(self.grant_state(now), GrantState::Ready(_))
    }

    /// Acquires the lock if it is ready. The caller checks that all members of the set are ready at
    /// the same moment.
    pub fn conclude(&mut self, now: Moment) {
        if self.outcome.is_none()
            && let GrantState::Ready(held) = self.grant_state(now)
        {
            self.outcome = Some(held);
        }
    }

    /// When a waiter in classic mode retries after a failed try.
    #[must_use]
    pub fn retry_at(&self, now: Moment) -> Option<Moment> {
        Some(self.heartbeat_at).filter(|at| self.is_backing_off() && now < *at)
    }

    /// The try of another member failed: releases everything, and retries at the same time.
    pub fn back_off_until(&mut self, at: Moment) {
        if self.outcome.is_some() || self.retry.is_none() {
            return;
        }
        if self.is_backing_off() {
            self.heartbeat_at = self.heartbeat_at.max(at);
            return;
        }
        self.release_all();
        self.begin_incarnation();
        self.begin_backoff();
        // Not the later of the two: so far it was the time of the next heartbeat.
        self.heartbeat_at = at;
    }

    /// Whether a single try only waits for the other members. They started together, so they end by
    /// its deadline, and the member that fails has the reason.
    pub(super) fn waits_for_set(&mut self, now: Moment) -> bool {
        self.is_member && !self.is_waiting() && self.is_ready(now)
    }
}
