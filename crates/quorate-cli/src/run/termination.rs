//! When the command must be terminated, so that all of it has ended before another owner can
//! acquire the lock.

use std::time::Duration;

use clap::ValueEnum;

/// What to do with the command when the lock is about to be lost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum OnLost {
    /// Terminate it with --signal, and kill it if it does not end in time
    #[default]
    Term,
    /// Kill it just before the lock expires
    Kill,
    /// Only warn: the command keeps running. Safe only if the resource that it uses checks the
    /// fence
    Warn,
}

/// When and how the command is stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TerminationPolicy {
    pub(super) on_lost: OnLost,
    /// How long before the lock expires the command is terminated, and how long it may take to end.
    pub(super) kill_after: Duration,
    /// How long before the lock expires the command is killed: enough for all its processes to end.
    margin: Duration,
}

/// The state that the next action depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// The remaining validity of the lease.
    pub(super) left: Duration,
    /// How much longer `--max-hold` allows the command to run.
    pub(super) allowed: Option<Duration>,
    /// How long ago the command was terminated, if it was.
    pub(super) terminated: Option<Duration>,
    /// How long ago this process resumed after it was stopped, if it was.
    pub(super) resumed: Option<Duration>,
}

/// What to do now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    /// Nothing for this long.
    Wait(Duration),
    /// Ask the command to end.
    Terminate(Reason),
    /// Kill all processes of the command.
    Kill,
}

/// Why the command must end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reason {
    /// The lock was not renewed in time and is about to expire.
    LeaseExpiring,
    /// The command has run for `--max-hold`.
    MaxHoldReached,
}

impl TerminationPolicy {
    /// The policy for locks with this ttl.
    pub(crate) fn new(on_lost: OnLost, kill_after: Duration, ttl: Duration) -> Self {
        Self { on_lost, kill_after, margin: (ttl / 20).clamp(MARGIN_MIN, MARGIN_MAX) }
    }

    /// The next action.
    pub(crate) fn next_action(&self, state: State) -> Action {
        let is_enforced = self.on_lost != OnLost::Warn;
        if is_enforced && state.left <= self.margin {
            return Action::Kill;
        }
        let until_end = is_enforced.then(|| state.left - self.margin);
        let (limit, action) = match (state.terminated, state.allowed) {
            (Some(elapsed), _) => (Some(self.kill_after.saturating_sub(elapsed)), Action::Kill),
            (None, Some(allowed)) => (Some(allowed), self.terminate(Reason::MaxHoldReached)),
            (None, None) => (None, Action::Kill),
        };
        if limit == Some(Duration::ZERO) {
            return action;
        }
        let mut wait = [until_end, limit].into_iter().flatten().min().unwrap_or(RECHECK_AFTER);
        if is_enforced
            && state.terminated.is_none()
            && self.terminate(Reason::LeaseExpiring) != Action::Kill
        {
            match state.left.checked_sub(self.kill_after).filter(|left| !left.is_zero()) {
                Some(left) => wait = wait.min(left),
                // A lease that was not renewed because this process was stopped is being renewed
                // now.
                None => match state.resumed.and_then(|since| self.grace().checked_sub(since)) {
                    Some(grace) if !grace.is_zero() => wait = wait.min(grace),
                    Some(_) | None => return Action::Terminate(Reason::LeaseExpiring),
                },
            }
        }
        Action::Wait(wait)
    }

    /// How long the guardian lets the command run without a new deadline, given the remaining
    /// validity: slightly longer than until this process kills it, so that they do not act at the
    /// same time.
    pub(crate) fn run_limit(&self, left: Duration) -> Duration {
        match self.on_lost {
            OnLost::Warn => Duration::MAX,
            OnLost::Term | OnLost::Kill => left.saturating_sub(self.margin / 2),
        }
    }

    /// Whether the command keeps running even if the lock is lost.
    pub(crate) fn lets_command_continue(&self) -> bool {
        self.on_lost == OnLost::Warn
    }

    /// Whether a lease with this ttl, renewed every third of it, would look lost although every
    /// renewal succeeds.
    pub(crate) fn is_too_early(kill_after: Duration, ttl: Duration) -> bool {
        kill_after > ttl / 2
    }

    /// How long a renewal may take after this process has resumed.
    fn grace(&self) -> Duration {
        self.kill_after / 4
    }

    /// Terminates the command only if it then has time to end; otherwise kills it.
    fn terminate(&self, reason: Reason) -> Action {
        match self.on_lost == OnLost::Kill || self.kill_after <= self.margin {
            true => Action::Kill,
            false => Action::Terminate(reason),
        }
    }
}

const MARGIN_MIN: Duration = Duration::from_millis(50);
const MARGIN_MAX: Duration = Duration::from_millis(500);

/// How often a lease that may be lost is checked.
const RECHECK_AFTER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const HALF: Duration = Duration::from_millis(500);

    fn state(left: Duration, allowed: Option<Duration>, terminated: Option<Duration>) -> State {
        State { left, allowed, terminated, resumed: None }
    }

    #[test]
    fn command_is_terminated_first_and_killed_before_the_lock_expires() {
        let policy = TerminationPolicy::new(OnLost::Term, 5 * SECOND, 10 * SECOND);
        let action = |left, terminated| policy.next_action(state(left, None, terminated));
        assert_eq!(action(9 * SECOND, None), Action::Wait(4 * SECOND));
        assert_eq!(action(5 * SECOND, None), Action::Terminate(Reason::LeaseExpiring));
        assert_eq!(action(5 * SECOND, Some(Duration::ZERO)), Action::Wait(4 * SECOND + HALF));
        assert_eq!(action(HALF, Some(4 * SECOND)), Action::Kill);
        assert_eq!(action(Duration::ZERO, None), Action::Kill);
        // A late renewal does not give a terminated command more time.
        assert_eq!(action(9 * SECOND, Some(SECOND)), Action::Wait(4 * SECOND));
        assert_eq!(action(9 * SECOND, Some(5 * SECOND)), Action::Kill);
    }

    #[test]
    fn resumed_process_renews_before_it_terminates_the_command() {
        let policy = TerminationPolicy::new(OnLost::Term, 4 * SECOND, 10 * SECOND);
        let action = |left, resumed| {
            policy.next_action(State { resumed: Some(resumed), ..state(left, None, None) })
        };
        assert_eq!(action(3 * SECOND, Duration::ZERO), Action::Wait(SECOND));
        assert_eq!(action(SECOND, HALF), Action::Wait(HALF));
        assert_eq!(action(3 * SECOND, SECOND), Action::Terminate(Reason::LeaseExpiring));
        assert_eq!(action(HALF, Duration::ZERO), Action::Kill);
    }

    #[test]
    fn command_is_killed_at_once_or_left_running_if_configured() {
        let policy = TerminationPolicy::new(OnLost::Kill, 5 * SECOND, 10 * SECOND);
        assert_eq!(
            policy.next_action(state(5 * SECOND, None, None)),
            Action::Wait(4 * SECOND + HALF)
        );
        assert_eq!(policy.next_action(state(HALF, None, None)), Action::Kill);
        let policy = TerminationPolicy::new(OnLost::Warn, 5 * SECOND, 10 * SECOND);
        assert_eq!(policy.next_action(state(Duration::ZERO, None, None)), Action::Wait(SECOND));
        let policy = TerminationPolicy::new(OnLost::Term, Duration::ZERO, SECOND);
        assert_eq!(
            policy.next_action(state(SECOND, None, None)),
            Action::Wait(SECOND - MARGIN_MIN)
        );
    }

    #[test]
    fn command_beyond_max_hold_is_terminated_then_killed() {
        for on_lost in [OnLost::Term, OnLost::Warn] {
            let policy = TerminationPolicy::new(on_lost, 2 * SECOND, 10 * SECOND);
            let action = |allowed, terminated| {
                policy.next_action(state(9 * SECOND, Some(allowed), terminated))
            };
            assert_eq!(action(3 * SECOND, None), Action::Wait(3 * SECOND));
            assert_eq!(action(Duration::ZERO, None), Action::Terminate(Reason::MaxHoldReached));
            assert_eq!(action(Duration::ZERO, Some(SECOND)), Action::Wait(SECOND));
            assert_eq!(action(Duration::ZERO, Some(2 * SECOND)), Action::Kill);
        }
        let policy = TerminationPolicy::new(OnLost::Kill, 2 * SECOND, 10 * SECOND);
        assert_eq!(policy.next_action(state(9 * SECOND, Some(Duration::ZERO), None)), Action::Kill);
    }
}
