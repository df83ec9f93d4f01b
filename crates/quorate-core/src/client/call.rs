//! One call of a client: its state machine and its caller.

use std::num::NonZeroU64;

use super::{
    Config, Debt,
    round::{self, QuorumRound},
    waiter::Waiter,
    watchdog::{Acquired, Extending, LeaseId, Renewal},
};
use crate::{
    acquire,
    command::{Command, Reply},
    moment::Moment,
    renew,
    round::{RoundKind, RoundOutcome},
};

/// Identifies a call of one client. Later calls have larger ids.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CallId(NonZeroU64);

impl CallId {
    /// Larger than the id of any call.
    pub(super) const LAST: Self = Self(NonZeroU64::MAX);

    /// The id of the call after the first `calls` ones.
    pub(super) const fn after(calls: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(calls))
    }

    #[cfg(test)]
    pub(super) const fn number(self) -> u64 {
        self.0.get()
    }
}

/// One call. It exists until its caller is done with it and every node has answered.
#[derive(Clone, Debug)]
pub struct Call {
    pub(super) work: Work,
    pub(super) started_at: Moment,
    pub(super) caller: Caller,
    /// The number of commands without a reply.
    pub(super) open: u32,
    pub(super) due: Option<Moment>,
    /// The outcome that was reported last.
    pub(super) reported: Option<Ended>,
    /// The lease that was made from the lock that it acquired.
    pub(super) lease: Option<LeaseId>,
}

/// The state machine of a call.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// Acquires a lock or adopts a lease.
    Acquire(Waiter),
    /// Asks each node once.
    Round(QuorumRound, Purpose),
}

/// Whether the caller waits for the outcome.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Caller {
    Waits,
    /// It has taken the outcome.
    Took,
    Gone,
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug, Hash)]
pub enum Purpose {
    /// Acquire a lock, or adopt the lease of another owner.
    Acquire,
    /// Extend this lease.
    Extend(LeaseId, Extending),
    /// Check whether the nodes have this lease.
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
    /// A release or a check.
    Round(RoundKind, RoundOutcome),
}

/// How long to hold a lock.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    /// Whether it is renewed.
    pub renewal: Renewal,
    /// The limit that the holder has set.
    pub until: Moment,
}

impl Call {
    pub(super) const fn new(work: Work, now: Moment) -> Self {
        let (caller, open, due, reported) = (Caller::Waits, 0, None, None);
        Self { work, started_at: now, caller, open, due, reported, lease: None }
    }

    /// The state machine of an acquire.
    #[must_use]
    pub const fn waiter(&self) -> Option<&Waiter> {
        match &self.work {
            Work::Acquire(waiter) => Some(waiter),
            Work::Round(..) => None,
        }
    }

    /// The state machine of a round.
    #[must_use]
    pub const fn round(&self) -> Option<&QuorumRound> {
        match &self.work {
            Work::Acquire(_) => None,
            Work::Round(round, _) => Some(round),
        }
    }

    /// Its purpose.
    #[must_use]
    pub const fn purpose(&self) -> Purpose {
        match &self.work {
            Work::Acquire(_) => Purpose::Acquire,
            Work::Round(_, purpose) => *purpose,
        }
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

    /// The outcome, as soon as it is certain.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        match &self.work {
            Work::Acquire(waiter) => waiter.machine().outcome().map(Ended::Acquire),
            Work::Round(round, _) => round.machine().ended().map(|ended| match ended {
                round::Ended::Renew(outcome) => Ended::Renew(outcome),
                round::Ended::Round(kind, outcome) => Ended::Round(kind, outcome),
            }),
        }
    }

    pub(super) const fn is_waiter(&self) -> bool {
        matches!(self.work, Work::Acquire(_))
    }

    /// Whether the caller is done with it and no reply is outstanding.
    pub(super) fn is_done(&self) -> bool {
        let is_over = self.ended().is_some() && self.due.is_none();
        self.caller == Caller::Gone && self.open == 0 && is_over
    }

    /// The lock that it has acquired, if it has.
    pub(super) fn acquired(&self, hold: Hold) -> Option<Acquired> {
        let Hold { renewal, until: hold_until } = hold;
        let waiter = self.waiter()?;
        let Some(acquire::Outcome::Held { valid_until, fence }) = waiter.machine().outcome() else {
            return None;
        };
        let want = waiter.want();
        Some(Acquired {
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
            Work::Round(round, _) => round.handle_timeout(now),
        }
    }

    pub(super) fn handle_abandon(&mut self) {
        match &mut self.work {
            Work::Acquire(waiter) => waiter.handle_abandon(),
            // A round continues without its caller.
            Work::Round(..) => {}
        }
    }

    /// Whether the nodes know the owner of an acquire only by its keys, and not as a waiter. `None`
    /// while replies may change that.
    pub(super) fn has_only_keys(&self) -> Option<bool> {
        let Some(waiter) = self.waiter().filter(|waiter| waiter.want().adopts.is_none()) else {
            return Some(false); // Another process may have left something.
        };
        let side_effects = waiter.machine().side_effects();
        side_effects.are_settled().then(|| side_effects.are_none())
    }

    /// Whether a node has not answered a command.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.open > 0
    }

    /// Handles the reply to a command of a round.
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
            Work::Round(round, _) => round.handle_answer(config, node, command, reply, now),
        }
    }
}
