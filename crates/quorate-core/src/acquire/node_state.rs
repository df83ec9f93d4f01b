//! What an acquire knows about one node.

use crate::{fence::Fence, moment::Moment};

/// The state of one node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct NodeState {
    /// The latest time at which the node is known not to have granted: when the owner was first
    /// sent, or when a request was sent that was refused, or a grant released.
    pub(super) not_granted_at: Option<Moment>,
    /// No grant up to this fence counts any more.
    pub(super) void_fence: Fence,
    pub(super) grant: Option<Grant>,
    /// A request is unanswered.
    pub(super) is_pending: bool,
    /// How many consecutive requests failed or got no reply.
    pub(super) failures: u32,
    /// The last reply was that another owner holds the key.
    pub(super) is_refused: bool,
    /// The fence that the node was last asked to store.
    pub(super) confirming: Fence,
    /// An earlier ticket waits for what the node granted to the entries of an identity.
    pub(super) has_earlier_waiter: bool,
}

/// The owner holds the node's key, at least from `since` for a ttl of the node's clock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Grant {
    pub(super) fence: Fence,
    pub(super) since: Moment,
}

impl Default for NodeState {
    fn default() -> Self {
        Self {
            not_granted_at: None,
            void_fence: Fence::ZERO,
            grant: None,
            is_pending: false,
            failures: 0,
            is_refused: false,
            confirming: Fence::ZERO,
            has_earlier_waiter: false,
        }
    }
}

impl NodeState {
    pub(super) fn handle_sent(&mut self, now: Moment) {
        self.not_granted_at.get_or_insert(now);
        self.is_pending = true;
    }

    /// Whether the request of a classic try has a reply or has failed.
    pub(super) const fn has_voted(&self) -> bool {
        self.grant.is_some() || self.is_refused || self.failures > 0
    }

    pub(super) const fn handle_answer(&mut self) {
        self.is_pending = false;
        self.is_refused = false;
        self.has_earlier_waiter = false;
        self.failures = 0;
    }

    /// The node returned no usable reply.
    pub(super) const fn handle_failure(&mut self) {
        self.handle_silence();
        self.failures = self.failures.saturating_add(1);
    }

    /// The request will get no reply.
    pub(super) const fn handle_silence(&mut self) {
        self.is_pending = false;
        self.handle_unconfirmed();
    }

    /// It is unknown whether the fence was stored. The next grant asks for it again.
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

    /// The request that was sent at `sent_at` found another holder.
    pub(super) fn handle_refused(&mut self, fence: Fence, sent_at: Moment) {
        self.handle_answer();
        self.is_refused = true;
        self.not_granted_at = Some(sent_at);
        self.void_fence = self.void_fence.max(fence);
        self.drop_grant(fence);
    }

    /// The grant of `fence` is released.
    pub(super) fn handle_yielded(&mut self, fence: Fence) {
        mutate!(CountAfterYield => return);
        self.void_fence = self.void_fence.max(fence);
        self.drop_grant(fence);
        self.handle_unconfirmed();
    }

    /// The node released a grant with a smaller fence than one seen before. So it lost its data,
    /// and its fences start over.
    pub(super) fn handle_forgotten(&mut self, fence: Fence, sent_at: Moment) {
        self.not_granted_at = Some(sent_at);
        mutate!(EndlessReject => return);
        self.void_fence = fence;
    }

    /// No grant up to `fence` counts any more.
    pub(super) fn drop_grant(&mut self, fence: Fence) {
        if self.grant.is_some_and(|grant| grant.fence <= fence) {
            self.grant = None;
        }
    }
}
