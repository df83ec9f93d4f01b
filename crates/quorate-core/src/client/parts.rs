//! Exposes the parts of a client to an exhaustive search of its states.

use std::hash::Hash;

use super::{
    About, Client,
    call::{Call, Caller, Work},
    round::{Claim, QuorumRound},
};
use crate::{moment::Moment, queue::Push, round::RoundKind};

/// Receives the parts of a client. Two clients with equal parts behave alike, except for the
/// numbers of the nodes, if the search chooses tickets and owners, the schedule renews no lease,
/// and the wall clock does not jump.
pub trait Observer {
    /// A part that belongs to no single node. It may contain sets of nodes.
    fn whole(&mut self, part: &impl Hash);

    /// A part that belongs to one node.
    fn of_node(&mut self, node: usize, part: &impl Hash);

    /// A part that makes no difference by itself: a name, a count, the time of a repetition to a
    /// node that can be reached, or something that has ended.
    fn detail(&mut self, part: &impl Hash);

    /// When the timer of the last part is due.
    fn due(&mut self, at: Option<Moment>);
}

impl<S> Client<S> {
    /// Reports every part on which the effect of the next inputs may depend.
    ///
    /// Leaves out constants, indexes and tickets, which a search chooses itself.
    pub fn observe(&self, to: &mut impl Observer) {
        let Self {
            config: _,
            naming: _,
            up,
            registry,
            calls,
            sets,
            deadlines: _,
            calls_begun,
            watchdog,
            outgoing,
            debts,
            events,
            is_closed,
        } = self;
        to.whole(&(up, registry, events.len(), is_closed));
        to.detail(calls_begun);
        to.detail(sets);
        for (id, call) in calls {
            to.detail(id);
            call.observe(to);
        }
        watchdog.observe(to);
        for (node, (outgoing, debts)) in outgoing.iter().zip(debts).enumerate() {
            to.of_node(node, &(outgoing, debts.owed()));
            to.detail(&debts.retry_at());
        }
    }

    /// Whether the reply of a node can still make a difference.
    #[must_use]
    pub fn awaits(&self, node: usize, about: &About) -> bool {
        match about {
            About::Waiter(question) => {
                let waiter = self.calls.get(&question.call).and_then(|call| call.waiter());
                waiter.is_some_and(|waiter| waiter.machine().expects_reply(question.node_call))
            }
            About::Batch(_) => true,
            About::Round(id) => self.calls.get(id).is_some_and(|call| {
                let awaits = |round: &QuorumRound| round.machine().tally().pending().contains(node);
                !call.is_settled() && call.round().is_some_and(awaits)
            }),
            About::Renewals(batch) => self.watchdog.awaits(*batch, node),
            About::Orphan | About::Debt(_) => false,
        }
    }

    /// Whether a push can make a difference.
    #[must_use]
    pub fn heeds(&self, push: &Push) -> bool {
        self.registry.route(push) != super::registry::Route::Ignore
    }

    /// Whether the node has not answered a release.
    #[must_use]
    pub fn owes(&self, node: usize, now: Moment) -> bool {
        self.debts.get(node).is_some_and(|debts| debts.is_owed(now))
    }

    /// Whether an owner waits or holds a lock, as far as the client knows.
    #[must_use]
    pub fn knows_owners(&self) -> bool {
        !self.registry.is_empty()
    }

    /// Whether no call is open.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }
}

impl Call {
    /// Whether nothing remains to be decided and only replies are outstanding.
    fn is_settled(&self) -> bool {
        let is_release = matches!(&self.work, Work::Round(round, _)
            if round.machine().kind() == RoundKind::Release);
        let is_over = self.ended().is_some() && self.due.is_none();
        self.caller == Caller::Gone && (is_over || is_release)
    }

    fn observe(&self, to: &mut impl Observer) {
        let Self { work, started_at, caller, open, due, reported, lease } = self;
        let purpose = self.purpose();
        to.whole(&caller);
        // `started_at` only determines when a lease is renewed next, and `open` follows from the
        // commands in transit.
        to.detail(&(started_at, open, purpose, due, reported, lease));
        match work {
            Work::Acquire(waiter) => waiter.observe(self.is_settled(), to),
            Work::Round(round, _) => {
                let Claim { name: _, owner, terms: _, from, untaken, fenced } = round.claim();
                let parts = (from, untaken, fenced, round.machine());
                to.whole(owner);
                if self.is_settled() { to.detail(&parts) } else { to.whole(&parts) }
            }
        }
        if !self.is_settled() {
            to.whole(&(purpose, reported));
            to.due(*due);
        }
    }
}
