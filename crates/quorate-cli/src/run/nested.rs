//! A command under a lock that wants the same lock again would wait for itself.

use std::env;

use quorate::{Client, Guard};

use crate::exit::Failure;

/// Fails if a process that this one descends from holds the lock.
#[expect(clippy::unused_async, reason = "it will look whether the lock is held still")]
pub(super) async fn check(_client: &Client, name: &str) -> Result<(), Failure> {
    let held = env::var(VARIABLE).unwrap_or_default();
    match held.lines().any(|held| held == name) {
        true => Err(Failure::usage(format!(
            "{name:?} is held by a process that started this one, which would wait for itself: \
             take the lock once, on the outside"
        ))),
        false => Ok(()),
    }
}

/// What tells the commands below which locks are held above them.
pub(super) fn variable(guards: &[Guard]) -> (&'static str, String) {
    let outer = env::var(VARIABLE).unwrap_or_default();
    let held = outer.lines().chain(guards.iter().map(Guard::name));
    (VARIABLE, held.collect::<Vec<_>>().join("\n"))
}

const VARIABLE: &str = "QUORATE_LOCKS";
