//! Grants of nodes: when they suffice for the lock, and when they are remaining.

use super::{
    Acquire, NodeAction, Outcome, Rule,
    node_state::{Grant, NodeState},
    polls,
};
use crate::{fence::Fence, moment::Moment};

/// The state of all grants together.
pub(super) enum GrantState {
    /// Too few nodes have granted the lock.
    TooFew,
    /// The oldest grant that is needed expires too soon.
    TooOld,
    /// No majority stores the same fence. This is the largest fence.
    NoCommonFence(Fence),
    /// The lock can be acquired.
    Ready(Outcome),
}

impl Acquire {
    pub(super) fn handle_granted(&mut self, node: usize, fence: Fence, since: Moment, now: Moment) {
        let is_void = fence <= self.nodes[node].void_fence;
        mutate!(CountAfterYield => let is_void = false);
        if is_void {
            // Either a delayed message, in which case the node ignores the rejection, or the node
            // lost its data.
            match self.rule {
                Rule::Reentrant => self.restart(now),
                _ => self.send(node, NodeAction::Reject(fence)),
            }
            return;
        }
        mutate!(ValidFromReply => let since = now);
        self.nodes[node].handle_granted(fence, since);
        self.try_hold(now);
    }

    /// It is unknown whether the fence was stored. A waiter asks again soon.
    pub(super) fn handle_unconfirmed(&mut self, node: usize, now: Moment) {
        self.nodes[node].handle_unconfirmed();
        self.poll_after(polls::RETRY_MS, now);
    }

    /// A waiter with an earlier ticket waits for what `node` granted with `fence`.
    pub(super) fn yield_grant(&mut self, node: usize, known: Fence, now: Moment) {
        mutate!(NoYield => return);
        mutate!(ShareNeverYields if self.rule == Rule::Shared => return);
        if self.outcome.is_some() || !self.is_waiting() {
            return;
        }
        self.drop_expired_grants(now);
        if self.rule == Rule::Reentrant {
            mutate!(EntryNeverYields => return);
            if self.nodes[node].grant.is_some() && !self.keeps_grants() {
                self.restart(now);
            }
        } else if known > self.nodes[node].void_fence && !self.keeps_grants() {
            // Yield the fence that the node is about to store: it will arrive there first.
            let fence = known.max(self.nodes[node].confirming);
            mutate!(YieldBeforeConfirm => let fence = known);
            self.nodes[node].handle_yielded(fence);
            self.send(node, NodeAction::Yield(fence));
        }
    }

    /// Acquires the lock, unless this is a member of a set, or requests what is missing.
    fn try_hold(&mut self, now: Moment) {
        match self.grant_state(now) {
            GrantState::Ready(held) if !self.is_member => self.outcome = Some(held),
            GrantState::Ready(_) | GrantState::TooFew => {}
            GrantState::TooOld => self.refresh_old_grants(now),
            GrantState::NoCommonFence(largest) => self.confirm_fence(largest),
        }
    }

    /// Checks whether a majority of grants is alive and has the same fence.
    pub(super) fn grant_state(&mut self, now: Moment) -> GrantState {
        let mut grants = self.live_grants(now);
        grants.sort_unstable_by_key(|grant| std::cmp::Reverse(grant.since));
        let quorum = self.quorum();
        let Some(decisive) = grants.get(quorum.saturating_sub(1)) else {
            return GrantState::TooFew;
        };
        let valid_until = self.terms.valid_until(decisive.since);
        let remaining = valid_until.saturating_since(now);
        let is_expired = remaining.is_zero();
        mutate!(NoLateCheck => let is_expired = false);
        if is_expired || remaining < self.min_remaining() {
            return GrantState::TooOld;
        }
        let stored = |fence: Fence| grants.iter().filter(|grant| grant.fence == fence).count();
        let largest = grants.iter().map(|grant| grant.fence).max().unwrap_or(Fence::ZERO);
        let agreed = grants.iter().map(|grant| grant.fence).find(|fence| stored(*fence) >= quorum);
        let is_any = matches!(self.rule, Rule::Shared | Rule::Classic);
        mutate!(NoWriteBack => let is_any = true);
        match agreed.or_else(|| is_any.then_some(largest)) {
            Some(fence) => GrantState::Ready(Outcome::Held { valid_until, fence }),
            None => GrantState::NoCommonFence(largest),
        }
    }

    /// Asks nodes with a smaller fence to store this one.
    fn confirm_fence(&mut self, fence: Fence) {
        let behind = |state: &NodeState| state.grant.is_some_and(|it| it.fence < fence);
        let behind = self.nodes_where(|state| behind(state) && state.confirming != fence);
        for node in behind.iter() {
            self.nodes[node].confirming = fence;
            self.send(node, NodeAction::Confirm(fence));
        }
    }

    /// Whether grants are kept although an earlier ticket waits for them: an acquire with a
    /// majority is about to hold the lock. A member of a set may still wait for other locks.
    fn keeps_grants(&self) -> bool {
        mutate!(MemberNeverYields => return self.has_majority());
        self.has_majority() && !self.is_member
    }

    fn live_grants(&mut self, now: Moment) -> Vec<Grant> {
        mutate!(ExpiredGrantCounts => let now = Moment::ZERO);
        self.drop_expired_grants(now);
        self.nodes.iter().filter_map(|state| state.grant).collect()
    }

    /// Asks only the nodes whose grants expire too soon.
    fn refresh_old_grants(&mut self, now: Moment) {
        let (terms, least) = (self.terms, self.min_remaining());
        let is_old = |grant: Grant| terms.valid_until(grant.since).saturating_since(now) < least;
        let old = self.nodes_where(|state| state.grant.is_some_and(is_old));
        old.iter().for_each(|node| self.send_acquire(node, now));
    }

    /// Drops expired grants: another owner's grant may follow them. In classic mode all grants
    /// belong to one try, and end with it.
    pub(super) fn drop_expired_grants(&mut self, now: Moment) {
        if self.is_classic() {
            return;
        }
        let terms = self.terms;
        for state in &mut self.nodes {
            if state.grant.is_some_and(|grant| terms.valid_until(grant.since) <= now) {
                state.grant = None;
            }
        }
    }
}
