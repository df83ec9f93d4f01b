//! What nodes have granted: when that is the lock, and when it goes back.

use super::{
    Acquire, NodeAction, Outcome, Rule,
    node_state::{Grant, NodeState},
    polls,
};
use crate::{fence::Fence, moment::Moment};

/// What the grants amount to.
pub(super) enum Standing {
    /// Too few nodes have granted the lock.
    Short,
    /// Too little is left of the oldest grant that is needed.
    Old,
    /// No fence is stored at a majority; this is the largest.
    Divided(Fence),
    /// The lock can be taken.
    Ready(Outcome),
}

impl Acquire {
    pub(super) fn handle_granted(&mut self, node: usize, fence: Fence, since: Moment, now: Moment) {
        let is_given_back = fence <= self.nodes[node].seen;
        mutate!(CountAfterYield => let is_given_back = false);
        if is_given_back {
            // An old message, which the node will not heed; or it has forgotten what it granted.
            match self.rule {
                Rule::Reentrant => self.come_again(now),
                _ => self.say(node, NodeAction::Reject(fence)),
            }
            return;
        }
        mutate!(ValidFromReply => let since = now);
        self.nodes[node].handle_granted(fence, since);
        self.try_hold(now);
    }

    /// Nobody knows whether the fence was stored: whoever waits asks again soon.
    pub(super) fn handle_unconfirmed(&mut self, node: usize, now: Moment) {
        self.nodes[node].handle_unconfirmed();
        self.poll_after(polls::RETRY_MS, now);
    }

    /// Somebody with an earlier ticket waits for what `node` granted with `fence`.
    pub(super) fn give_way(&mut self, node: usize, known: Fence, now: Moment) {
        mutate!(NoYield => return);
        mutate!(ShareNeverYields if self.rule == Rule::Shared => return);
        if self.outcome.is_some() || !self.is_waiting() {
            return;
        }
        self.drop_dead(now);
        if self.rule == Rule::Reentrant {
            mutate!(EntryNeverYields => return);
            if self.nodes[node].grant.is_some() && !self.is_firm() {
                self.come_again(now);
            }
        } else if known > self.nodes[node].seen && !self.is_firm() {
            // A fence that is on its way to the node will be there before this is.
            let fence = known.max(self.nodes[node].confirming);
            mutate!(YieldBeforeConfirm => let fence = known);
            self.nodes[node].handle_yielded(fence);
            self.say(node, NodeAction::Yield(fence));
        }
    }

    /// Takes the lock, unless it is a member of a set, or asks for what is missing.
    fn try_hold(&mut self, now: Moment) {
        match self.standing(now) {
            Standing::Ready(held) if !self.is_member => self.outcome = Some(held),
            Standing::Ready(_) | Standing::Short => {}
            Standing::Old => self.ask_again(now),
            Standing::Divided(largest) => self.ask_to_store(largest),
        }
    }

    /// Whether a majority of grants is alive and agrees about the fence.
    pub(super) fn standing(&mut self, now: Moment) -> Standing {
        let mut grants = self.live_grants(now);
        grants.sort_unstable_by_key(|grant| std::cmp::Reverse(grant.since));
        let quorum = self.quorum();
        let Some(decisive) = grants.get(quorum.saturating_sub(1)) else { return Standing::Short };
        let valid_until = self.terms.valid_until(decisive.since);
        let left = valid_until.saturating_since(now);
        let is_over = left.is_zero();
        mutate!(NoLateCheck => let is_over = false);
        if is_over || left < self.least_left() {
            return Standing::Old;
        }
        let stored = |fence: Fence| grants.iter().filter(|grant| grant.fence == fence).count();
        let largest = grants.iter().map(|grant| grant.fence).max().unwrap_or(Fence::ZERO);
        let agreed = grants.iter().map(|grant| grant.fence).find(|fence| stored(*fence) >= quorum);
        let is_any = matches!(self.rule, Rule::Shared | Rule::Classic);
        mutate!(NoWriteBack => let is_any = true);
        match agreed.or_else(|| is_any.then_some(largest)) {
            Some(fence) => Standing::Ready(Outcome::Held { valid_until, fence }),
            None => Standing::Divided(largest),
        }
    }

    /// Asks nodes with a smaller fence to store this one.
    fn ask_to_store(&mut self, fence: Fence) {
        let behind = |state: &NodeState| state.grant.is_some_and(|it| it.fence < fence);
        let behind = self.nodes_where(|state| behind(state) && state.confirming != fence);
        for node in behind.iter() {
            self.nodes[node].confirming = fence;
            self.say(node, NodeAction::Confirm(fence));
        }
    }

    /// Whether a grant is kept although an earlier ticket waits for it: an attempt with a majority
    /// is about to hold the lock. A member of a set may still wait for other locks.
    fn is_firm(&self) -> bool {
        mutate!(MemberNeverYields => return self.has_majority());
        self.has_majority() && !self.is_member
    }

    fn live_grants(&mut self, now: Moment) -> Vec<Grant> {
        mutate!(DeadGrantCounts => let now = Moment::ZERO);
        self.drop_dead(now);
        self.nodes.iter().filter_map(|state| state.grant).collect()
    }

    /// Asks those nodes whose grants are too old to build on; the others have nothing to add.
    fn ask_again(&mut self, now: Moment) {
        let (terms, least) = (self.terms, self.least_left());
        let is_old = |grant: Grant| terms.valid_until(grant.since).saturating_since(now) < least;
        let old = self.nodes_where(|state| state.grant.is_some_and(is_old));
        old.iter().for_each(|node| self.ask(node, now));
    }

    /// A grant that has run out may lie before another holder's: it counts for nothing. The grants
    /// of a plain owner are all of one try, which is over with them.
    pub(super) fn drop_dead(&mut self, now: Moment) {
        if self.is_plain() {
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
