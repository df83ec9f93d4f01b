//! One call of a client: what it asks the nodes, and who waits for the outcome.

use super::{
    Config, Debt,
    round::{self, QuorumRound},
    waiter::Waiter,
    watchdog::{Extending, LeaseId, Renewal, Won},
};
use crate::{
    acquire,
    command::{Command, Reply},
    moment::Moment,
    renew,
    round::{RoundKind, RoundOutcome},
};

/// Names a call of one client. Later calls have larger ones.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CallId(pub(super) u64);

/// One call. It lives until its caller is done with it and every node has answered.
#[derive(Clone, Debug)]
pub struct Call {
    pub(super) work: Work,
    pub(super) purpose: Purpose,
    pub(super) started_at: Moment,
    pub(super) caller: Caller,
    /// Commands that are not answered.
    pub(super) open: usize,
    pub(super) due: Option<Moment>,
    /// The outcome that was reported last.
    pub(super) reported: Option<Ended>,
}

/// The machine of a call.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a call is boxed, and most wait for a lock")]
pub(super) enum Work {
    /// Whatever acquires a lock.
    Acquire(Waiter),
    /// Everything that asks each node once.
    Round(QuorumRound),
}

/// Who waits for the outcome.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Caller {
    Waits,
    /// It has the outcome.
    Took,
    Gone,
}

/// What a call is for.
#[derive(Clone, Copy, Debug, Hash)]
pub enum Purpose {
    /// A lock, or the lease of another owner.
    Acquire,
    /// More time for this lease.
    Extend(LeaseId, Extending),
    /// Whether the nodes have this lease.
    Verify(LeaseId),
    /// Anything else.
    Round,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Ended {
    /// An acquire.
    Acquire(acquire::Outcome),
    /// An extension.
    Renew(renew::Outcome),
    /// A release, or a question whether the lock is held.
    Round(RoundKind, RoundOutcome),
}

/// How long what is won is to be held.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    /// Whether it is renewed.
    pub renewal: Renewal,
    /// The holder's own limit.
    pub until: Moment,
}

impl Call {
    pub(super) const fn new(work: Work, purpose: Purpose, now: Moment) -> Self {
        let (caller, open, due, reported) = (Caller::Waits, 0, None, None);
        Self { work, purpose, started_at: now, caller, open, due, reported }
    }

    /// The machine of an acquire.
    #[must_use]
    pub const fn waiter(&self) -> Option<&Waiter> {
        match &self.work {
            Work::Acquire(waiter) => Some(waiter),
            Work::Round(_) => None,
        }
    }

    /// The machine of everything else.
    #[must_use]
    pub const fn round(&self) -> Option<&QuorumRound> {
        match &self.work {
            Work::Acquire(_) => None,
            Work::Round(round) => Some(round),
        }
    }

    /// What it is for.
    #[must_use]
    pub const fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// When it began.
    #[must_use]
    pub const fn started_at(&self) -> Moment {
        self.started_at
    }

    /// When its timer is due.
    #[must_use]
    pub const fn due(&self) -> Option<Moment> {
        self.due
    }

    /// How it ended, as soon as that is certain.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        match &self.work {
            Work::Acquire(waiter) => waiter.machine().outcome().map(Ended::Acquire),
            Work::Round(round) => round.machine().ended().map(|ended| match ended {
                round::Ended::Renew(outcome) => Ended::Renew(outcome),
                round::Ended::Round(kind, finding) => Ended::Round(kind, finding),
            }),
        }
    }

    pub(super) const fn is_waiter(&self) -> bool {
        matches!(self.work, Work::Acquire(_))
    }

    /// Nobody waits for it, and no answer is to come.
    pub(super) fn is_done(&self) -> bool {
        let is_over = self.ended().is_some() && self.due.is_none();
        self.caller == Caller::Gone && self.open == 0 && is_over
    }

    /// What it has won, if it has won something.
    pub(super) fn won(&self, hold: Hold) -> Option<Won> {
        let Hold { renewal, until: hold_until } = hold;
        let waiter = self.waiter()?;
        let Some(acquire::Outcome::Held { valid_until, fence }) = waiter.machine().outcome() else {
            return None;
        };
        let want = waiter.want();
        Some(Won {
            name: want.name.clone(),
            owner: waiter.owner().clone(),
            terms: want.terms,
            fenced: want.fenced(fence),
            untaken: waiter.untaken(),
            renewal,
            valid_until,
            hold_until,
            granted_at: want.terms.granted_at(valid_until),
        })
    }

    pub(super) fn handle_timeout(&mut self, now: Moment) {
        match &mut self.work {
            Work::Acquire(waiter) => waiter.handle_timeout(now),
            Work::Round(round) => round.handle_timeout(now),
        }
    }

    pub(super) fn handle_abandon(&mut self) {
        match &mut self.work {
            Work::Acquire(waiter) => waiter.handle_abandon(),
            // It goes on without its caller.
            Work::Round(_) => {}
        }
    }

    /// True while a node has not answered something that was sent to it.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.open > 0
    }

    /// The answer to a question of a round.
    pub(super) fn handle_vote(
        &mut self,
        config: &Config,
        node: usize,
        command: &Command,
        reply: Option<&Reply>,
        now: Moment,
    ) -> Option<Debt> {
        self.open = self.open.saturating_sub(1);
        match &mut self.work {
            Work::Acquire(_) => None,
            Work::Round(round) => round.handle_answer(config, node, command, reply, now),
        }
    }
}
