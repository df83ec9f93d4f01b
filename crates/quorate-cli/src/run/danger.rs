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
    on_lost: OnLost,
    /// How long before the end it is asked.
    kill_after: Duration,
    /// How long before the end it is killed: so long that all of it is dead by then.
    margin: Duration,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    /// Nothing for so long.
    Wait(Duration),
    /// Ask it to end.
    Ask,
    /// Kill all of it.
    Kill,
}

impl Danger {
    /// For locks with this ttl.
    pub(crate) fn new(on_lost: OnLost, kill_after: Duration, ttl: Duration) -> Self {
        Self { on_lost, kill_after, margin: (ttl / 20).clamp(MARGIN_MIN, MARGIN_MAX) }
    }

    /// What to do if so much of the lease is left, and the command was asked already or not.
    pub(crate) fn step(&self, left: Duration, is_asked: bool) -> Step {
        if self.on_lost == OnLost::Warn {
            return Step::Wait(left.max(LOOK_AGAIN));
        }
        if left <= self.margin {
            return Step::Kill;
        }
        if is_asked || self.on_lost == OnLost::Kill || self.kill_after <= self.margin {
            return Step::Wait(left - self.margin);
        }
        match left <= self.kill_after {
            true => Step::Ask,
            false => Step::Wait(left - self.kill_after),
        }
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
}

const MARGIN_MIN: Duration = Duration::from_millis(50);
const MARGIN_MAX: Duration = Duration::from_millis(500);

/// How often somebody looks at a lease that is lost anyway.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_is_asked_first_and_killed_before_the_end() {
        let danger = Danger::new(OnLost::Term, 5 * SECOND, 10 * SECOND);
        assert_eq!(danger.step(9 * SECOND, false), Step::Wait(4 * SECOND));
        assert_eq!(danger.step(5 * SECOND, false), Step::Ask);
        assert_eq!(danger.step(5 * SECOND, true), Step::Wait(4 * SECOND + SECOND / 2));
        assert_eq!(danger.step(SECOND / 2, true), Step::Kill);
        assert_eq!(danger.step(Duration::ZERO, false), Step::Kill);
        // A renewal came through after all.
        assert_eq!(danger.step(9 * SECOND, true), Step::Wait(8 * SECOND + SECOND / 2));
    }

    #[test]
    fn it_can_be_killed_without_a_word_or_left_alone() {
        let danger = Danger::new(OnLost::Kill, 5 * SECOND, 10 * SECOND);
        assert_eq!(danger.step(5 * SECOND, false), Step::Wait(4 * SECOND + SECOND / 2));
        assert_eq!(danger.step(SECOND / 2, false), Step::Kill);
        let danger = Danger::new(OnLost::Warn, 5 * SECOND, 10 * SECOND);
        assert_eq!(danger.step(Duration::ZERO, false), Step::Wait(SECOND));
        let danger = Danger::new(OnLost::Term, Duration::ZERO, SECOND);
        assert_eq!(danger.step(SECOND, false), Step::Wait(SECOND - MARGIN_MIN));
    }
}
