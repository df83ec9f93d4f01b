//! When a waiter asks again before its next heartbeat.

use std::time::Duration;

use super::Acquire;
use crate::moment::Moment;

impl Acquire {
    /// Polls a lock that may expire without a notification: after it should have expired, in the
    /// order of the queue.
    pub(super) fn schedule_poll(
        &mut self,
        expires_in_ms: Option<u64>,
        rank: Option<u64>,
        foreign: bool,
        now: Moment,
    ) {
        let rank = rank.unwrap_or(0);
        if rank > POLL_RANK_MAX {
            return;
        }
        let gone = expires_in_ms.map_or(u64::MAX, |remaining| remaining.saturating_add(2));
        let after_ms = match foreign {
            true => gone.min(FOREIGN_POLL_MS.saturating_mul(rank.saturating_add(1))),
            false => gone.saturating_add(rank.saturating_mul(POLL_STEP_MS)),
        };
        self.poll_after(after_ms, now);
    }

    /// Retries a node that returned an error soon, and then less and less often.
    pub(super) fn schedule_retry(&mut self, node: usize, now: Moment) {
        let doublings = self.nodes[node].failures.saturating_sub(1).min(RETRY_DOUBLINGS_MAX);
        self.poll_after(RETRY_MS.saturating_mul(1 << doublings), now);
    }

    pub(super) fn poll_after(&mut self, after_ms: u64, now: Moment) {
        let at = now.saturating_add(Duration::from_millis(after_ms));
        self.poll_at = Some(self.poll_at.map_or(at, |known| known.min(at)));
    }
}

/// A foreign holder sends no notifications, so the first waiter polls at this interval.
const FOREIGN_POLL_MS: u64 = 20;

/// Each waiter further back polls this much later.
const POLL_STEP_MS: u64 = 3;

/// Waiters further back rely on those ahead of them, and on their own heartbeat.
const POLL_RANK_MAX: u64 = 8;

/// The delay before a node that returned an error is asked again. It doubles each time.
pub(super) const RETRY_MS: u64 = 50;
const RETRY_DOUBLINGS_MAX: u32 = 6;
