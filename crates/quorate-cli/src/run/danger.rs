//! When the command must end so that it is dead before anybody else can have the lock.

use std::time::Duration;

use clap::ValueEnum;

/// What happens to the command when the lock is about to be lost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum OnLost {
    /// It is asked to end, and killed if it does not in time.
    #[default]
    Term,
    /// It is killed at the last moment.
    Kill,
    /// It goes on. That is safe only if what it works on checks the fence.
    Warn,
}

/// How the command is ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Danger {
    pub(super) on_lost: OnLost,
    /// How long before the end it is asked, and how long it has then.
    pub(super) kill_after: Duration,
    /// How long before the end it is killed: so long that all of it is dead by then.
    margin: Duration,
}

/// How things are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// How much of the lease is left.
    pub(super) left: Duration,
    /// How much longer the command may run, if that is limited.
    pub(super) allowed: Option<Duration>,
    /// How long ago it was asked to end, if it was.
    pub(super) asked: Option<Duration>,
    /// How long ago this process went on after it was stopped, if it was.
    pub(super) resumed: Option<Duration>,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    /// Nothing for so long.
    Wait(Duration),
    /// Ask it to end.
    Ask(Why),
    /// Kill all of it.
    Kill,
}

/// Why the command must end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Why {
    /// The lock can be another's soon.
    Danger,
    /// It has run for as long as it may.
    TooLong,
}

impl Danger {
    /// For locks with this ttl.
    pub(crate) fn new(on_lost: OnLost, kill_after: Duration, ttl: Duration) -> Self {
        Self { on_lost, kill_after, margin: (ttl / 20).clamp(MARGIN_MIN, MARGIN_MAX) }
    }

    /// What to do.
    pub(crate) fn step(&self, state: State) -> Step {
        let is_watched = self.on_lost != OnLost::Warn;
        if is_watched && state.left <= self.margin {
            return Step::Kill;
        }
        let until_end = is_watched.then(|| state.left - self.margin);
        let (until, step) = match (state.asked, state.allowed) {
            (Some(asked), _) => (Some(self.kill_after.saturating_sub(asked)), Step::Kill),
            (None, Some(allowed)) => (Some(allowed), self.ask(Why::TooLong)),
            (None, None) => (None, Step::Kill),
        };
        if until == Some(Duration::ZERO) {
            return step;
        }
        let mut wait = [until_end, until].into_iter().flatten().min().unwrap_or(LOOK_AGAIN);
        if is_watched && state.asked.is_none() && self.ask(Why::Danger) != Step::Kill {
            match state.left.checked_sub(self.kill_after).filter(|left| !left.is_zero()) {
                Some(left) => wait = wait.min(left),
                // What was not renewed because we were stopped is renewed just now.
                None => match state.resumed.and_then(|since| self.grace().checked_sub(since)) {
                    Some(grace) if !grace.is_zero() => wait = wait.min(grace),
                    Some(_) | None => return Step::Ask(Why::Danger),
                },
            }
        }
        Step::Wait(wait)
    }

    /// How long the command may run if nobody acts, so much of the lease being left: a little
    /// longer than until it is killed, so that two do not act at once.
    pub(crate) fn allowed(&self, left: Duration) -> Duration {
        match self.on_lost {
            OnLost::Warn => Duration::MAX,
            OnLost::Term | OnLost::Kill => left.saturating_sub(self.margin / 2),
        }
    }

    /// Whether the command goes on whatever happens to the lock.
    pub(crate) fn is_harmless(&self) -> bool {
        self.on_lost == OnLost::Warn
    }

    /// Whether a lease with this ttl, renewed at a third of it, would look lost while all is well.
    pub(crate) fn is_hasty(kill_after: Duration, ttl: Duration) -> bool {
        kill_after > ttl / 2
    }

    /// How long a renewal may take once this process goes on.
    fn grace(&self) -> Duration {
        self.kill_after / 4
    }

    /// It is asked only if it has time then.
    fn ask(&self, why: Why) -> Step {
        match self.on_lost == OnLost::Kill || self.kill_after <= self.margin {
            true => Step::Kill,
            false => Step::Ask(why),
        }
    }
}

const MARGIN_MIN: Duration = Duration::from_millis(50);
const MARGIN_MAX: Duration = Duration::from_millis(500);

/// How often somebody looks at a lease that may be lost.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const HALF: Duration = Duration::from_millis(500);

    fn state(left: Duration, allowed: Option<Duration>, asked: Option<Duration>) -> State {
        State { left, allowed, asked, resumed: None }
    }

    #[test]
    fn it_is_asked_first_and_killed_before_the_end() {
        let danger = Danger::new(OnLost::Term, 5 * SECOND, 10 * SECOND);
        let step = |left, asked| danger.step(state(left, None, asked));
        assert_eq!(step(9 * SECOND, None), Step::Wait(4 * SECOND));
        assert_eq!(step(5 * SECOND, None), Step::Ask(Why::Danger));
        assert_eq!(step(5 * SECOND, Some(Duration::ZERO)), Step::Wait(4 * SECOND + HALF));
        assert_eq!(step(HALF, Some(4 * SECOND)), Step::Kill);
        assert_eq!(step(Duration::ZERO, None), Step::Kill);
        // A renewal came through after all: it has no more time for that.
        assert_eq!(step(9 * SECOND, Some(SECOND)), Step::Wait(4 * SECOND));
        assert_eq!(step(9 * SECOND, Some(5 * SECOND)), Step::Kill);
    }

    #[test]
    fn a_process_that_was_stopped_renews_before_it_is_late() {
        let danger = Danger::new(OnLost::Term, 4 * SECOND, 10 * SECOND);
        let step = |left, resumed| {
            danger.step(State { resumed: Some(resumed), ..state(left, None, None) })
        };
        assert_eq!(step(3 * SECOND, Duration::ZERO), Step::Wait(SECOND));
        assert_eq!(step(SECOND, HALF), Step::Wait(HALF));
        assert_eq!(step(3 * SECOND, SECOND), Step::Ask(Why::Danger));
        assert_eq!(step(HALF, Duration::ZERO), Step::Kill);
    }

    #[test]
    fn it_can_be_killed_without_a_word_or_left_alone() {
        let danger = Danger::new(OnLost::Kill, 5 * SECOND, 10 * SECOND);
        assert_eq!(danger.step(state(5 * SECOND, None, None)), Step::Wait(4 * SECOND + HALF));
        assert_eq!(danger.step(state(HALF, None, None)), Step::Kill);
        let danger = Danger::new(OnLost::Warn, 5 * SECOND, 10 * SECOND);
        assert_eq!(danger.step(state(Duration::ZERO, None, None)), Step::Wait(SECOND));
        let danger = Danger::new(OnLost::Term, Duration::ZERO, SECOND);
        assert_eq!(danger.step(state(SECOND, None, None)), Step::Wait(SECOND - MARGIN_MIN));
    }

    #[test]
    fn one_that_runs_for_too_long_is_asked_then_and_killed_later() {
        for on_lost in [OnLost::Term, OnLost::Warn] {
            let danger = Danger::new(on_lost, 2 * SECOND, 10 * SECOND);
            let step = |allowed, asked| danger.step(state(9 * SECOND, Some(allowed), asked));
            assert_eq!(step(3 * SECOND, None), Step::Wait(3 * SECOND));
            assert_eq!(step(Duration::ZERO, None), Step::Ask(Why::TooLong));
            assert_eq!(step(Duration::ZERO, Some(SECOND)), Step::Wait(SECOND));
            assert_eq!(step(Duration::ZERO, Some(2 * SECOND)), Step::Kill);
        }
        let danger = Danger::new(OnLost::Kill, 2 * SECOND, 10 * SECOND);
        assert_eq!(danger.step(state(9 * SECOND, Some(Duration::ZERO), None)), Step::Kill);
    }
}
