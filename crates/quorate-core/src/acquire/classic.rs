//! Classic mode: nodes have neither a queue nor fences, and a waiter retries.

use std::time::Duration;

use super::{Acquire, NodeCall, NodeState, Outcome, Rule};
use crate::{
    backoff::{Backoff, Jitter},
    fence::Fence,
    moment::Moment,
    quorum::Vote,
};

/// When a waiter retries.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Retry {
    backoff: Backoff,
    jitter: Jitter,
    /// A try has failed, and the next one has not begun.
    is_backing_off: bool,
    /// The last finished try found another owner.
    is_contended: bool,
}

impl Retry {
    pub(super) const fn new(seed: u64) -> Self {
        let (backoff, jitter) = (Backoff::new(DELAY_MIN, DELAY_MAX), Jitter::new(seed));
        Self { backoff, jitter, is_backing_off: false, is_contended: false }
    }
}

impl Acquire {
    /// Whether this is classic mode, with neither fences nor queues.
    #[must_use]
    pub fn is_classic(&self) -> bool {
        self.rule == Rule::Classic
    }

    /// Whether another owner holds the lock, according to the last replies of a majority.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.is_refused() || self.retry.as_ref().is_some_and(|retry| retry.is_contended)
    }

    /// The vote of `node` on `call`, which was sent at `sent_at`, in classic mode.
    pub fn handle_vote(
        &mut self,
        node: usize,
        call: NodeCall,
        sent_at: Moment,
        vote: Vote,
        now: Moment,
    ) {
        if call.incarnation != self.incarnation || !call.is_acquire() || self.outcome.is_some() {
            return;
        }
        mutate!(UnknownIsRefusal if vote == Vote::Unknown => let vote = Vote::Refuse);
        match vote {
            // Only the first vote of a node counts.
            _ if self.nodes[node].has_voted() => {}
            Vote::Grant => {
                self.nodes[node].handle_answer();
                self.handle_granted(node, NO_FENCE, sent_at, now);
            }
            Vote::Refuse => self.nodes[node].handle_refused(Fence::ZERO, sent_at),
            Vote::Unknown => self.nodes[node].handle_failure(),
        }
        self.decide_try(now);
    }

    /// Whether each node has one reply to give, until the vote timeout.
    pub(super) const fn is_trying(&self) -> bool {
        match self.retry {
            Some(_) => self.is_contending,
            None => !self.is_waiting(),
        }
    }

    /// Whether it waits for the next try.
    pub(super) fn is_backing_off(&self) -> bool {
        self.retry.as_ref().is_some_and(|retry| retry.is_backing_off)
    }

    pub(super) fn begin_backoff(&mut self) {
        if let Some(retry) = &mut self.retry {
            retry.is_backing_off = true;
        }
    }

    pub(super) fn end_backoff(&mut self) {
        if let Some(retry) = &mut self.retry {
            retry.is_backing_off = false;
        }
    }

    /// Resets the nodes for the next try of a waiter in classic mode.
    pub(super) fn begin_try(&mut self, now: Moment) {
        if self.retry.is_some() {
            self.started_at = now;
            self.nodes.fill(NodeState::default());
        }
    }

    /// A waiter's try has failed and is undone. The next try starts after a random delay. The delay
    /// is at least as long as the try took, so that contenders do not split the vote forever.
    pub(super) fn back_off(&mut self, is_contended: bool, now: Moment) {
        let Some(retry) = &mut self.retry else { return };
        (retry.is_backing_off, retry.is_contended) = (true, is_contended);
        let took = now.saturating_since(self.started_at);
        let delay = took.saturating_add(retry.backoff.next(&mut retry.jitter));
        self.heartbeat_at = now.saturating_add(delay);
        if is_contended {
            self.no_quorum_since = None;
        } else {
            self.no_quorum_since.get_or_insert(self.started_at);
        }
        if self.is_out_of_patience(now) {
            self.outcome = Some(Outcome::NoQuorum);
        }
    }
}

/// Stands for the fence of a grant in classic mode. All are equal, so every majority agrees.
const NO_FENCE: Fence = Fence::new(1);

const DELAY_MIN: Duration = Duration::from_millis(4);
const DELAY_MAX: Duration = Duration::from_millis(100);
