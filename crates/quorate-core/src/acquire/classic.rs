//! Plain owners: nodes that have neither a queue nor fences, and a waiter that tries again.

use std::time::Duration;

use super::{Acquire, NodeCall, NodeState, Outcome, Rule};
use crate::{
    backoff::{Backoff, Jitter},
    fence::Fence,
    moment::Moment,
    quorum::Vote,
};

/// When a waiter tries again.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Retry {
    backoff: Backoff,
    jitter: Jitter,
    /// A try has failed, and the next one has not begun.
    is_resting: bool,
    /// The last try that ended has met another owner.
    is_contended: bool,
}

impl Retry {
    pub(super) const fn new(seed: u64) -> Self {
        let (backoff, jitter) = (Backoff::new(DELAY_MIN, DELAY_MAX), Jitter::new(seed));
        Self { backoff, jitter, is_resting: false, is_contended: false }
    }
}

impl Acquire {
    /// Whether the owner uses neither fences nor queues.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.rule == Rule::Classic
    }

    /// True if another owner is in the way, for all that a majority has said last.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.is_refused() || self.retry.as_ref().is_some_and(|retry| retry.is_contended)
    }

    /// What the answer of `node` to `said`, which was sent at `sent_at`, means for a plain owner.
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
            // The first vote of a node stays.
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

    /// True while each node has one answer to give, until the vote timeout.
    pub(super) const fn is_trying(&self) -> bool {
        match self.retry {
            Some(_) => self.is_contending,
            None => !self.is_waiting(),
        }
    }

    /// True between two tries of a waiter.
    pub(super) fn is_resting(&self) -> bool {
        self.retry.as_ref().is_some_and(|retry| retry.is_resting)
    }

    pub(super) fn begin_rest(&mut self) {
        if let Some(retry) = &mut self.retry {
            retry.is_resting = true;
        }
    }

    pub(super) fn end_rest(&mut self) {
        if let Some(retry) = &mut self.retry {
            retry.is_resting = false;
        }
    }

    /// A waiter that tries again forgets what the last try has met.
    pub(super) fn begin_try(&mut self, now: Moment) {
        if self.retry.is_some() {
            self.started_at = now;
            self.nodes.fill(NodeState::default());
        }
    }

    /// A try of a waiter has failed, and is undone: the next one comes after a random delay. It is
    /// at least as long as it took to ask a majority, so that contenders do not split the vote for
    /// ever.
    pub(super) fn rest(&mut self, is_contended: bool, now: Moment) {
        let Some(retry) = &mut self.retry else { return };
        (retry.is_resting, retry.is_contended) = (true, is_contended);
        let took = now.saturating_since(self.started_at);
        let delay = took.saturating_add(retry.backoff.next(&mut retry.jitter));
        self.beat_at = now.saturating_add(delay);
        if is_contended {
            self.short_since = None;
        } else {
            self.short_since.get_or_insert(self.started_at);
        }
        if self.is_out_of_patience(now) {
            self.outcome = Some(Outcome::NoQuorum);
        }
    }
}

/// Stands for the fence of a plain grant. All are the same, so every majority agrees.
const NO_FENCE: Fence = Fence::new(1);

const DELAY_MIN: Duration = Duration::from_millis(4);
const DELAY_MAX: Duration = Duration::from_millis(100);
