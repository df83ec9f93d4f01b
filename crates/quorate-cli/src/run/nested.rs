//! A command under a lock that wants the same lock again would wait for itself, unless both are
//! entries of one identity.

use std::{collections::BTreeSet, env};

use quorate::{Client, Guard, inspect::Holder};

use super::want::{How, Want};
use crate::exit::Failure;

/// Fails if a process that this one descends from holds the lock, or a permit of the same
/// semaphore. One that started us and has given it back since is nobody to wait for.
pub(super) async fn check(client: &Client, want: &Want<'_>) -> Result<(), Failure> {
    let above = held_above();
    let held = above.lines().filter_map(|line| line.split_once(' '));
    let is_wanted = |name: &str| match want.how {
        How::Alone | How::Reentrant | How::Shared => name == want.name,
        How::Permit(_) | How::Permits { .. } => want.permit(name).is_some(),
    };
    let held: Vec<(&str, &str)> = held.filter(|(_, name)| is_wanted(name)).collect();
    let names: BTreeSet<&str> = held.iter().map(|(_, name)| *name).collect();
    for name in names {
        let owners: Vec<&str> =
            held.iter().filter(|(_, it)| *it == name).map(|(owner, _)| *owner).collect();
        if is_held_by(client, want, name, &owners).await {
            return Err(Failure::usage(hint(want)));
        }
    }
    Ok(())
}

/// Whether one of these owners has the lock still, alone or together with others, and is in the way
/// of what is wanted.
async fn is_held_by(client: &Client, want: &Want<'_>, name: &str, owners: &[&str]) -> bool {
    // If nobody can tell, the lock cannot be had either.
    let Ok(report) = client.inspect(name).await else { return false };
    let identity = report.holder.as_ref().and_then(|holder| holder.identity.as_deref());
    if want.how == How::Reentrant && identity == Some(client.identity()) {
        return false;
    }
    if report.shared_with.len() >= SHARES_TOLD {
        return true;
    }
    let is_above = |holder: &Holder| {
        let prefix = holder.owner_prefix.as_deref();
        let is_its =
            |id: &&str| prefix.is_some_and(|it| id.split(':').any(|id| id.starts_with(it)));
        owners.iter().any(is_its)
    };
    report.holder.iter().chain(&report.shared_with).any(is_above)
}

fn hint(want: &Want<'_>) -> String {
    let name = want.name;
    match want.how {
        How::Alone | How::Reentrant => format!(
            "{name:?} is held by a process that started this one, which would wait for itself: \
             take the lock once, on the outside, or {AS_ONE}"
        ),
        How::Shared => format!(
            "{name:?} is held by a process that started this one, which would wait for itself, \
             at the latest when another wants it alone: take the lock once, on the outside, or \
             {AS_ONE}"
        ),
        How::Permit(_) | How::Permits { .. } => format!(
            "a permit of {name:?} is held by a process that started this one: if all who have \
             one waited for another, each would wait for itself: take a permit once, on the \
             outside"
        ),
    }
}

/// What tells the commands below which locks are held above them: one line each, with the owner id
/// and the name.
pub(super) fn value(guards: &[Guard]) -> String {
    let line = |guard: &Guard| format!("{} {}\n", guard.owner_id().expose_secret(), guard.name());
    held_above() + &guards.iter().map(line).collect::<String>()
}

fn held_above() -> String {
    env::var_os(VARIABLE).unwrap_or_default().to_string_lossy().into_owned()
}

/// How a lock can be held on the outside and on the inside.
const AS_ONE: &str = "set the same QUORATE_IDENTITY for both, if both hold only this lock, and \
                      hold it exclusively";

pub(super) const VARIABLE: &str = "QUORATE_LOCKS";

/// If so many share a lock, not all of them are told: then whoever was started by one that shared
/// it is taken for one that is so still. To be refused is better than to wait for oneself.
const SHARES_TOLD: usize = 90;
