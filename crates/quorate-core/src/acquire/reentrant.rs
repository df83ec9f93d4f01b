//! An entry of a reentrant lock.
//!
//! All entries of an identity hold a node together, with one fence. So a fence does not identify
//! one grant, and a late yield could hit a later grant. Where an exclusive owner yields one grant,
//! an entry withdraws from all nodes and continues as a new owner with the same ticket.
//!
//! If several entries yielded in turn, they would join each other again and again. So a node asks
//! an entry to yield only if the entry is alone on it. The others learn from a reply that an
//! earlier ticket waits. They withdraw if that does not change, and back off. An entry that was
//! granted less than a majority polls for that reply: its next heartbeat may be far away, and no
//! owner holds the lock meanwhile. If the last entry has not withdrawn when the first one asks
//! again, they back off for twice as long.

use std::time::Duration;

use super::{Acquire, NodeCall, Rule, polls};
use crate::moment::Moment;

impl Acquire {
    /// Releases all grants and asks again as a new owner.
    pub(super) fn restart(&mut self, now: Moment) {
        self.withdraw();
        self.heartbeat(now);
    }

    /// Polls soon, and then less and less often, whether an earlier ticket waits for the grants of
    /// this entry. This applies if all nodes have answered and the entry has some grants but no
    /// majority.
    pub(super) fn poll_if_split(&mut self, now: Moment) {
        let is_entry = self.rule == Rule::Reentrant && self.is_waiting();
        if !is_entry || self.outcome.is_some() || self.is_pending() || self.has_majority() {
            return;
        }
        if !self.granted().is_empty() {
            self.poll_after(SPLIT_POLL_MS << self.split_polls.min(DOUBLINGS_MAX), now);
            self.split_polls = self.split_polls.saturating_add(1);
        }
    }

    /// Withdraws because an earlier ticket waits, and asks again later.
    pub(super) fn withdraw_and_back_off(&mut self, now: Moment) {
        self.withdraw();
        let back_off = Duration::from_millis(BACKOFF_MS << self.backoffs.min(DOUBLINGS_MAX));
        self.backoffs = self.backoffs.saturating_add(1);
        self.heartbeat_at = self.heartbeat_at.min(now.saturating_add(back_off));
    }

    /// `node` granted the lock, but an earlier ticket waits for it there. This is irrelevant if the
    /// identity holds the lock. In that case a majority will grant in a moment.
    pub(super) fn note_earlier_waiter(&mut self, call: NodeCall, node: usize, now: Moment) {
        let is_waiting =
            self.is_waiting() && self.outcome.is_none() && call.incarnation == self.incarnation;
        if is_waiting && self.nodes[node].grant.is_some() && !self.has_majority() {
            self.nodes[node].has_earlier_waiter = true;
            self.poll_after(SPLIT_POLL_MS, now);
        }
    }

    /// Whether it must withdraw and back off: an earlier ticket waits, and all nodes have answered
    /// without a majority for this entry.
    pub(super) fn must_withdraw(&mut self, now: Moment) -> bool {
        if self.rule != Rule::Reentrant {
            return false;
        }
        mutate!(EntryNeverYields => return false);
        self.drop_expired_grants(now);
        let overtaken = self.nodes_where(|state| state.has_earlier_waiter && state.grant.is_some());
        if overtaken.is_empty() || self.has_majority() {
            return false;
        }
        let is_pending = self.is_pending();
        if is_pending {
            self.poll_after(polls::RETRY_MS, now);
        }
        !is_pending
    }
}

/// The first poll of an entry with less than a majority. Meanwhile no owner holds the lock, and new
/// entries that come more often than earlier ones withdraw would keep the earlier ticket waiting.
const SPLIT_POLL_MS: u64 = 10;
/// The first backoff of an entry. The other entries of its identity poll several times meanwhile.
const BACKOFF_MS: u64 = 4 * polls::RETRY_MS;
const DOUBLINGS_MAX: u32 = 10;
