//! A command under a lock that wants the same lock again would wait for itself.

use std::env;

use quorate::{Client, Guard};

use crate::exit::Failure;

/// Fails if a process that this one descends from holds the lock. One that started us and has given
/// the lock back since is nobody to wait for.
pub(super) async fn check(client: &Client, name: &str) -> Result<(), Failure> {
    let held = held_above();
    let mut owners = held.lines().filter_map(|line| line.strip_suffix(name)?.strip_suffix(' '));
    if owners.clone().next().is_none() {
        return Ok(());
    }
    // If nobody can tell, the lock cannot be had either.
    let Ok(report) = client.inspect(name).await else { return Ok(()) };
    let prefix = report.holder.and_then(|holder| holder.owner_prefix);
    let is_above =
        |prefix: String| owners.any(|id| id.split(':').any(|it| it.starts_with(&prefix)));
    match prefix.is_some_and(is_above) {
        true => Err(Failure::usage(format!(
            "{name:?} is held by a process that started this one, which would wait for itself: \
             take the lock once, on the outside"
        ))),
        false => Ok(()),
    }
}

/// What tells the commands below which locks are held above them: one line each, with the owner id
/// and the name.
pub(super) fn variable(guards: &[Guard]) -> (&'static str, String) {
    let outer = held_above();
    let held = guards.iter().map(|guard| format!("{} {}\n", guard.owner_id(), guard.name()));
    (VARIABLE, outer + &held.collect::<String>())
}

fn held_above() -> String {
    env::var_os(VARIABLE).unwrap_or_default().to_string_lossy().into_owned()
}

const VARIABLE: &str = "QUORATE_LOCKS";
