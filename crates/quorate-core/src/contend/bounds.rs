//! How many nodes, and how much time, an attempt must have.

use std::time::Duration;

use super::{Contend, Rule, Wait};
use crate::{
    moment::Moment,
    mutant::{self, Mutant},
    quorum::{NodeSet, majority},
};

impl Contend {
    /// The nodes that have not answered the last question.
    #[must_use]
    pub fn unanswered(&self) -> NodeSet {
        self.nodes_where(|seat| seat.is_asking)
    }

    pub(super) fn has_quorum_up(&self) -> bool {
        self.up.len() >= self.quorum()
    }

    pub(super) fn quorum(&self) -> usize {
        let quorum = majority(self.seats.len());
        if mutant::is_on(Mutant::SmallQuorum) { quorum.saturating_sub(1).max(1) } else { quorum }
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
        let is_try = !self.is_waiting() || self.rule == Rule::Plain;
        if is_try || mutant::is_on(Mutant::LittleLeft) {
            return Duration::ZERO;
        }
        self.terms.ttl().checked_div(4).unwrap_or_default()
    }
}
