//! How many nodes and how much time an acquire needs.

use std::time::Duration;

use super::{Acquire, Rule, Wait};
use crate::{
    moment::Moment,
    quorum::{NodeSet, majority},
};

impl Acquire {
    /// The nodes that have not answered the last request.
    #[must_use]
    pub fn unanswered(&self) -> NodeSet {
        self.nodes_where(|state| state.is_pending)
    }

    pub(super) fn has_quorum_up(&self) -> bool {
        self.up.len() >= self.quorum()
    }

    pub(super) fn quorum(&self) -> usize {
        mutate!(SmallQuorum => return majority(self.nodes.len()).saturating_sub(1).max(1));
        majority(self.nodes.len())
    }

    pub(super) fn is_out_of_patience(&self, now: Moment) -> bool {
        let is_finished = |since| now.saturating_since(since) >= self.patience();
        self.is_waiting() && self.no_quorum_since.is_some_and(is_finished)
    }

    /// How long a waiter accepts that too few nodes are reachable.
    pub(super) const fn patience(&self) -> Duration {
        match self.wait {
            Wait::Patiently(patience) => patience,
            Wait::Never => Duration::MAX,
        }
    }

    /// The time that must remain of a lease that was waited for. A single try accepts any remaining
    /// time.
    pub(super) fn min_remaining(&self) -> Duration {
        mutate!(AlmostExpired => return Duration::ZERO);
        if !self.is_waiting() || self.rule == Rule::Classic {
            return Duration::ZERO;
        }
        self.terms.ttl().checked_div(4).unwrap_or_default()
    }
}
