//! How a try ends: one round of questions that is won, or lost for a reason that is certain.

use super::{Acquire, Outcome};
use crate::moment::Moment;

impl Acquire {
    /// One try ends when it cannot be won any more and what that is called does not depend on those
    /// who have not answered.
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
            self.rest(is_contended, now);
        } else {
            self.outcome = Some(if is_contended { Outcome::Contended } else { Outcome::NoQuorum });
        }
    }

    fn undo(&mut self) {
        mutate!(NoUndo => return);
        self.leave();
    }

    /// True if a majority has answered, and one of them that another owner is in the way. Grants
    /// alone, whose fence is not decided, say nothing about others; nor does a majority that
    /// granted a plain owner too late.
    pub(super) fn is_refused(&self) -> bool {
        let answered = self.nodes_where(|state| state.grant.is_some() || state.is_refused);
        let is_won_late = self.is_plain() && self.granted().len() >= self.quorum();
        answered.len() >= self.quorum() && !self.refused().is_empty() && !is_won_late
    }
}
