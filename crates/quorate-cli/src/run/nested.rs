//! Detects nested requests: a command under a lock that requested the same lock again would wait
//! for itself, unless both are entries of one identity.

use std::{collections::BTreeSet, env};

use quorate::{Client, Guard, inspect::Holder};

use super::request::{Mode, Request};
use crate::exit::Failure;

/// Fails if an ancestor of this process holds the lock, or a permit of the same semaphore. An
/// ancestor that has released it since does not matter.
pub(super) async fn check(client: &Client, request: &Request<'_>) -> Result<(), Failure> {
    let inherited = inherited_locks();
    let held = inherited.lines().filter_map(|line| line.split_once(' '));
    let is_requested = |name: &str| match request.mode {
        Mode::Exclusive | Mode::Reentrant | Mode::Shared => name == request.name,
        Mode::Permit(_) | Mode::Permits { .. } => request.permit_number(name).is_some(),
    };
    let held: Vec<(&str, &str)> = held.filter(|(_, name)| is_requested(name)).collect();
    let names: BTreeSet<&str> = held.iter().map(|(_, name)| *name).collect();
    for name in names {
        let owners: Vec<&str> =
            held.iter().filter(|(_, it)| *it == name).map(|(owner, _)| *owner).collect();
        if is_held_by(client, request, name, &owners).await {
            return Err(Failure::usage(hint(request)));
        }
    }
    Ok(())
}

/// Whether one of these owners still holds the lock, exclusively or shared, and blocks the request.
async fn is_held_by(client: &Client, request: &Request<'_>, name: &str, owners: &[&str]) -> bool {
    // If the nodes cannot report the holder, they cannot grant the lock either.
    let Ok(report) = client.inspect(name).await else { return false };
    let identity = report.holder.as_ref().and_then(|holder| holder.identity.as_deref());
    if request.mode == Mode::Reentrant && identity == Some(client.identity()) {
        return false;
    }
    if report.shared_with.len() >= HOLDERS_REPORTED {
        return true;
    }
    let is_inherited = |holder: &Holder| {
        let prefix = holder.owner_prefix.as_deref();
        let is_its_id =
            |id: &&str| prefix.is_some_and(|it| id.split(':').any(|id| id.starts_with(it)));
        owners.iter().any(is_its_id)
    };
    report.holder.iter().chain(&report.shared_with).any(is_inherited)
}

fn hint(request: &Request<'_>) -> String {
    let name = request.name;
    match request.mode {
        Mode::Exclusive | Mode::Reentrant => format!(
            "{name:?} is held by a process that started this one, so this one would wait for \
             itself: acquire the lock once, in the outer command, or {AS_ONE}"
        ),
        Mode::Shared => format!(
            "{name:?} is held by a process that started this one, so this one would wait for \
             itself as soon as another owner waits for the lock exclusively: acquire the lock \
             once, in the outer command, or {AS_ONE}"
        ),
        Mode::Permit(_) | Mode::Permits { .. } => format!(
            "a permit of {name:?} is held by a process that started this one: if all holders \
             requested another permit, each would wait for itself. Acquire the permits once, in \
             the outer command"
        ),
    }
}

/// The variable that lists the inherited locks for nested commands: one line each, with the owner
/// id and the name.
pub(super) fn value(guards: &[Guard]) -> String {
    let line = |guard: &Guard| format!("{} {}\n", guard.owner_id().expose_secret(), guard.name());
    inherited_locks() + &guards.iter().map(line).collect::<String>()
}

fn inherited_locks() -> String {
    env::var_os(VARIABLE).unwrap_or_default().to_string_lossy().into_owned()
}

/// How an outer and an inner command can hold the same lock.
const AS_ONE: &str = "set the same QUORATE_IDENTITY for both if each holds only this lock, \
                      exclusively";

pub(super) const VARIABLE: &str = "QUORATE_LOCKS";

/// A report lists at most this many holders of a shared lock, so an inherited holder may be
/// missing: it then counts as still holding. Failing is better than waiting for oneself.
const HOLDERS_REPORTED: usize = 90;
