//! The rules that were tried, and what came of them.

use super::settings::{Decide, Forget, Settings, Store};
use crate::model::{claims::UNIQUE, settings::Expected};

/// All of them. The letters are those of the design.
#[must_use]
pub fn rows() -> Vec<Settings> {
    let mut rows = broken();
    rows.extend(kept());
    rows
}

/// Each of these is broken from the plainest beginning in which it is.
fn broken() -> Vec<Settings> {
    let row = |name, what, vanishings| Settings {
        expected: Expected::Broken(UNIQUE),
        vanishings,
        ..Settings::new(name, what)
    };
    vec![
        Settings {
            store: Store::Always,
            decide: Decide::Largest,
            ..row("fence-a", "the largest fence is stored always", 3)
        },
        Settings {
            store: Store::IfOwned,
            fences: vec![[0, 0, 1]],
            ..row("fence-b", "a fence is stored where the key is ours", 2)
        },
        Settings {
            store: Store::IfNotPast,
            ..row("fence-c", "a fence is stored where none is larger", 3)
        },
        Settings {
            forget: Forget::VotesAtOnce,
            ..row("fence-e", "both; a node forgets and votes at once", 0)
        },
        Settings {
            forget: Forget::Waits,
            ..row("fence-f", "both; a node that forgot waits before it votes", 0)
        },
    ]
}

fn kept() -> Vec<Settings> {
    let one = |name, what| Settings::new(name, what);
    vec![
        Settings {
            heals: true,
            vanishings: 2,
            ..one("fence-h", "both; holders heal, 2 keys vanish")
        },
        Settings {
            vanishings: 2,
            forget: Forget::WaitsAndAsks,
            is_full: true,
            ..one("fence-g", "both; a node that forgot waits and asks the others, 2 keys vanish")
        },
        Settings {
            vanishings: 1,
            is_late: true,
            forget: Forget::WaitsAndAsks,
            ..one("fence-g-late", "the same with late grants, a key vanishes")
        },
        Settings {
            is_late: true,
            ..one("fence-d", "stored only where both is so; late grants, 3 keys vanish")
        },
        Settings {
            vanishings: 2,
            is_late: true,
            is_full: true,
            fences: vec![[0, 0, 1], [0, 1, 2]],
            proposals: vec![[0, 0, 0], [1, 2, 0]],
            ..one("fence-d-uneven", "both; late grants, 2 keys vanish, uneven beginnings")
        },
        Settings {
            decide: Decide::Largest,
            is_late: true,
            ..one("fence-d-largest", "as fence-d, but only the largest fence is taken")
        },
        Settings {
            attempts: 3,
            heals: true,
            vanishings: 1,
            is_full: true,
            ..one("fence-d-three", "both; 3 attempts, holders heal, a key vanishes")
        },
    ]
}
