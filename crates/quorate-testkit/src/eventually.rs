//! Waiting for a condition, with a bound.
//!
//! Responsible for the one way in which tests and this crate poll. Not for deciding what to wait
//! for.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Returns as soon as `condition` holds; checks every few milliseconds, and a last time at the
/// bound.
///
/// This blocks the calling thread. On a current-thread async runtime no other task makes progress
/// meanwhile, so call it there through `spawn_blocking`, or only for what the server does by
/// itself.
///
/// # Panics
///
/// If `condition` does not hold `within` that time; the message names `what` was waited for.
#[track_caller]
pub fn eventually(what: &str, within: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !condition() {
        let left = deadline.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "not within {within:?}: {what}");
        rest(left.min(BETWEEN_CHECKS));
    }
}

/// Lets `time` pass without keeping the processor busy.
///
/// A condition variable of its own rather than `park_timeout`: that could swallow a wake-up meant
/// for whatever else parks the calling thread.
pub(crate) fn rest(time: Duration) {
    let never = Mutex::new(());
    let guard = never.lock().unwrap_or_else(PoisonError::into_inner);
    drop(Condvar::new().wait_timeout_while(guard, time, |()| true));
}

const BETWEEN_CHECKS: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_once_the_condition_holds() {
        let mut checks = 0;
        eventually("three checks", Duration::from_secs(5), || {
            checks += 1;
            checks == 3
        });
        assert_eq!(checks, 3);
    }

    #[test]
    fn checks_once_even_without_any_time() {
        eventually("what holds already", Duration::ZERO, || true);
    }

    #[test]
    #[should_panic(expected = "not within 10ms: pigs fly")]
    fn names_what_did_not_happen() {
        eventually("pigs fly", Duration::from_millis(10), || false);
    }
}
