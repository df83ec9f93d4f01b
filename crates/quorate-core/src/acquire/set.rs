//! An attempt that is one of several for different locks: all of them win, or none does.
//!
//! Until all of them are ready, each gives way to earlier tickets, even with a majority of grants.
//! All members have the same ticket. So a set only ever waits for sets with earlier tickets, and
//! sets that overlap never deadlock.
//!
//! Plain owners have no tickets. There a try ends for all members when it fails for one, and they
//! try again together after a random delay.

use super::{Acquire, grants::Standing};
use crate::moment::Moment;

impl Acquire {
    /// The same, as a member of a set: it does not end by itself once it is ready.
    #[must_use]
    pub const fn member(mut self) -> Self {
        self.is_member = true;
        self
    }

    /// Whether enough nodes have granted the lock for it to be ready soon.
    #[must_use]
    pub fn has_majority(&self) -> bool {
        self.granted().len() >= self.quorum()
    }

    /// Whether it has what it needs, as far as nodes go, and waits for the other members of its
    /// set.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.is_member && self.has_majority()
    }

    /// Whether the lock could be taken at `now`.
    pub fn is_ready(&mut self, now: Moment) -> bool {
        self.outcome.is_none() && matches!(self.standing(now), Standing::Ready(_))
    }

    /// Takes the lock, if it is ready. All members of the set are, at the same moment.
    pub fn conclude(&mut self, now: Moment) {
        if self.outcome.is_none()
            && let Standing::Ready(held) = self.standing(now)
        {
            self.outcome = Some(held);
        }
    }

    /// Until when a plain waiter rests after a try that failed.
    #[must_use]
    pub fn rests_until(&self, now: Moment) -> Option<Moment> {
        Some(self.beat_at).filter(|at| self.is_resting() && now < *at)
    }

    /// The try of another member failed: this one gives back what it has, and rests as long.
    pub fn rest_until(&mut self, at: Moment) {
        if self.outcome.is_some() || self.retry.is_none() {
            return;
        }
        if self.is_resting() {
            self.beat_at = self.beat_at.max(at);
            return;
        }
        self.leave();
        self.begin_incarnation();
        self.begin_rest();
        // Not the later of the two: until now it was the time of the next heartbeat.
        self.beat_at = at;
    }

    /// Whether a try that never waits has only to wait for the other members. They began with it,
    /// so they end by its deadline, and the one that fails says why.
    pub(super) fn awaits_others(&mut self, now: Moment) -> bool {
        self.is_member && !self.is_waiting() && self.is_ready(now)
    }
}
