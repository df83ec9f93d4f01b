//! How a try ends: a round of requests that succeeds, or fails for a certain reason.

use super::{Acquire, Outcome};
use crate::moment::Moment;

impl Acquire {
    /// Ends a try when it cannot succeed and pending replies cannot change the reason.
    pub(super) fn decide_try(&mut self, now: Moment) {
        if !self.is_trying() || self.outcome.is_some() {
            return;
        }
        let open = self.unanswered();
        let answered = self.nodes_where(|state| state.grant.is_some() || state.is_refused);
        let may_win = self.granted().union(open).len() >= self.quorum();
        let is_settled =
            answered.len() >= self.quorum() || answered.union(open).len() < self.quorum();
        if !may_win && is_settled {
            self.end_try(now);
        }
    }

    pub(super) fn end_try(&mut self, now: Moment) {
        let is_contended = self.is_refused();
        self.undo();
        if self.is_waiting() {
            self.begin_incarnation();
            self.back_off(is_contended, now);
        } else {
            self.outcome = Some(if is_contended { Outcome::Contended } else { Outcome::NoQuorum });
        }
    }

    fn undo(&mut self) {
        mutate!(NoUndo => return);
        self.release_all();
    }

    /// Whether a majority has answered, and at least one of them that another owner holds the lock.
    /// Grants without a common fence do not prove contention. Nor does a majority that granted too
    /// late in classic mode.
    pub(super) fn is_refused(&self) -> bool {
        let answered = self.nodes_where(|state| state.grant.is_some() || state.is_refused);
        let is_won_late = self.is_classic() && self.granted().len() >= self.quorum();
        answered.len() >= self.quorum() && !self.refused().is_empty() && !is_won_late
    }
}
