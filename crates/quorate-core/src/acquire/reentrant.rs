//! An entry of a reentrant lock.
//!
//! All entries of an identity hold a node together, under one fence. So a fence does not name one
//! grant, and a late message that gives a grant back could hit a later one. Where another owner
//! gives one grant back, an entry withdraws from all nodes and comes again as a new owner, with
//! the same ticket.
//!
//! Several entries that gave way by turns would join each other again and again. So a node asks
//! only an entry that is alone on it. The others learn with an answer that an earlier ticket waits;
//! they withdraw if that does not change, and rest. One that was granted less than a majority asks
//! for that answer: its next heartbeat may be far away, and meanwhile nobody has the lock. If the
//! last of them has not withdrawn when the first one comes again, they rest for twice as long.

use std::time::Duration;

use super::{Acquire, NodeCall, Rule, polls};
use crate::moment::Moment;

impl Acquire {
    /// Gives all grants back and asks again as a new owner.
    pub(super) fn come_again(&mut self, now: Moment) {
        self.withdraw();
        self.beat(now);
    }

    /// Looks soon, and then less and less often, whether an earlier ticket waits for what it has,
    /// if that is less than a majority for all that the nodes have said.
    pub(super) fn look_if_split(&mut self, now: Moment) {
        let is_entry = self.rule == Rule::Reentrant && self.is_waiting();
        if !is_entry || self.outcome.is_some() || self.is_acquire() || self.has_majority() {
            return;
        }
        if !self.granted().is_empty() {
            self.poll_after(polls::RETRY_MS << self.looks.min(DOUBLINGS_MAX), now);
            self.looks = self.looks.saturating_add(1);
        }
    }

    /// Goes, since an earlier ticket waits, and comes again later.
    pub(super) fn give_up_place(&mut self, now: Moment) {
        self.withdraw();
        let rest = Duration::from_millis(REST_MS << self.rests.min(DOUBLINGS_MAX));
        self.rests = self.rests.saturating_add(1);
        self.beat_at = self.beat_at.min(now.saturating_add(rest));
    }

    /// `node` granted the lock, but an earlier ticket waits for it there. That means nothing if the
    /// identity holds the lock, and if so a majority will tell in a moment.
    pub(super) fn note_passed(&mut self, call: NodeCall, node: usize, now: Moment) {
        let is_waiting =
            self.is_waiting() && self.outcome.is_none() && call.incarnation == self.incarnation;
        if is_waiting && self.nodes[node].grant.is_some() && !self.has_majority() {
            self.nodes[node].is_passed = true;
            self.poll_after(polls::RETRY_MS, now);
        }
    }

    /// Whether it has to withdraw, and rest: an earlier ticket waits, and all nodes have answered
    /// without a majority for this entry.
    pub(super) fn is_passed_over(&mut self, now: Moment) -> bool {
        if self.rule != Rule::Reentrant {
            return false;
        }
        mutate!(EntryNeverYields => return false);
        self.drop_dead(now);
        let passed = self.nodes_where(|state| state.is_passed && state.grant.is_some());
        if passed.is_empty() || self.has_majority() {
            return false;
        }
        let is_acquire = self.is_acquire();
        if is_acquire {
            self.poll_after(polls::RETRY_MS, now);
        }
        !is_acquire
    }
}

/// So long rests an entry at first: the others of its identity look twice in this time.
const REST_MS: u64 = 4 * polls::RETRY_MS;
const DOUBLINGS_MAX: u32 = 10;
