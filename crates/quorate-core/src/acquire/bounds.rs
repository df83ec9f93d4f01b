//! How many nodes, and how much time, an attempt must have.

use std::time::Duration;

use super::{Acquire, Rule, Wait};
use crate::{
    moment::Moment,
    quorum::{NodeSet, majority},
};

impl Acquire {
    /// The nodes that have not answered the last question.
    #[must_use]
    pub fn unanswered(&self) -> NodeSet {
        self.nodes_where(|state| state.is_acquire)
    }

    pub(super) fn has_quorum_up(&self) -> bool {
        self.up.len() >= self.quorum()
    }

    pub(super) fn quorum(&self) -> usize {
        mutate!(SmallQuorum => return majority(self.nodes.len()).saturating_sub(1).max(1));
        majority(self.nodes.len())
    }

    pub(super) fn is_out_of_patience(&self, now: Moment) -> bool {
        let is_over = |since| now.saturating_since(since) >= self.patience();
        self.is_waiting() && self.short_since.is_some_and(is_over)
    }

    /// How long a waiter bears that too few nodes can be reached.
    pub(super) const fn patience(&self) -> Duration {
        match self.wait {
            Wait::Patiently(patience) => patience,
            Wait::Never => Duration::MAX,
        }
    }

    /// What must be left of a lease that was waited for. A try is won with whatever is left.
    pub(super) fn least_left(&self) -> Duration {
        mutate!(AlmostExpired => return Duration::ZERO);
        if !self.is_waiting() || self.rule == Rule::Classic {
            return Duration::ZERO;
        }
        self.terms.ttl().checked_div(4).unwrap_or_default()
    }
}
