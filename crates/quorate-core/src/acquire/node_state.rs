//! What one attempt knows about one node.

use crate::{fence::Fence, moment::Moment};

/// One node, as the attempt sees it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct NodeState {
    /// The last time at which the node is known not to have granted: when the owner was first asked
    /// for, or when what was refused or given back was sent.
    pub(super) asked_at: Option<Moment>,
    /// No grant of this fence or below is ours any more.
    pub(super) seen: Fence,
    pub(super) grant: Option<Grant>,
    /// A question is on its way.
    pub(super) is_acquire: bool,
    /// How often in a row the node has answered with an error, or not at all.
    pub(super) failures: u32,
    /// The last answer was that the key is another's.
    pub(super) is_refused: bool,
    /// The fence that the node was last asked to store.
    pub(super) confirming: Fence,
    /// An earlier ticket waits for what the node granted to all entries of an identity.
    pub(super) is_passed: bool,
}

/// The node's key is ours, at least from `since` for a ttl of the node's clock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Grant {
    pub(super) fence: Fence,
    pub(super) since: Moment,
}

impl Default for NodeState {
    fn default() -> Self {
        Self {
            asked_at: None,
            seen: Fence::ZERO,
            grant: None,
            is_acquire: false,
            failures: 0,
            is_refused: false,
            confirming: Fence::ZERO,
            is_passed: false,
        }
    }
}

impl NodeState {
    pub(super) fn handle_asked(&mut self, now: Moment) {
        self.asked_at.get_or_insert(now);
        self.is_acquire = true;
    }

    /// Whether the question of a plain owner has an answer, or will have none.
    pub(super) const fn has_voted(&self) -> bool {
        self.grant.is_some() || self.is_refused || self.failures > 0
    }

    pub(super) const fn handle_answer(&mut self) {
        self.is_acquire = false;
        self.is_refused = false;
        self.is_passed = false;
        self.failures = 0;
    }

    /// The node did not say anything that is of use.
    pub(super) const fn handle_failure(&mut self) {
        self.handle_silence();
        self.failures = self.failures.saturating_add(1);
    }

    /// No answer will come to what was asked.
    pub(super) const fn handle_silence(&mut self) {
        self.is_acquire = false;
        self.handle_unconfirmed();
    }

    /// Nobody knows whether the fence was stored: the next grant asks for it again.
    pub(super) const fn handle_unconfirmed(&mut self) {
        self.confirming = Fence::ZERO;
    }

    pub(super) fn handle_granted(&mut self, fence: Fence, since: Moment) {
        let since = match self.grant {
            Some(known) => known.since.max(since),
            None => since,
        };
        self.grant = Some(Grant { fence, since });
        self.is_refused = false;
    }

    /// What was sent at `sent_at` found the key in another's hand.
    pub(super) fn handle_refused(&mut self, fence: Fence, sent_at: Moment) {
        self.handle_answer();
        self.is_refused = true;
        self.asked_at = Some(sent_at);
        self.seen = self.seen.max(fence);
        self.drop_grant(fence);
    }

    /// The grant of `fence` goes back.
    pub(super) fn handle_yielded(&mut self, fence: Fence) {
        mutate!(CountAfterYield => return);
        self.seen = self.seen.max(fence);
        self.drop_grant(fence);
        self.handle_unconfirmed();
    }

    /// The node took back a grant of a smaller fence than one that was seen: it has forgotten what
    /// it granted, and begins anew.
    pub(super) fn handle_forgotten(&mut self, fence: Fence, sent_at: Moment) {
        self.asked_at = Some(sent_at);
        mutate!(EndlessReject => return);
        self.seen = fence;
    }

    /// No grant of `fence` or below is ours any more.
    pub(super) fn drop_grant(&mut self, fence: Fence) {
        if self.grant.is_some_and(|grant| grant.fence <= fence) {
            self.grant = None;
        }
    }
}
