//! The rules that were tried, and the result of each.

use super::settings::{Decide, Forget, Settings, Store};
use crate::model::{claims::UNIQUE, row::About, settings::Expected};

/// All of them. The letters are those of the design.
#[must_use]
pub fn rows() -> Vec<Settings> {
    let one = Settings::new;
    vec![
        Settings {
            store: Store::Always,
            decide: Decide::Largest,
            ..broken("fence-a", "the largest fence is stored always")
        },
        Settings {
            store: Store::IfOwned,
            fences: vec![[0, 0, 1]],
            vanishings: 2,
            ..broken("fence-b", "a fence is stored where the key is ours")
        },
        Settings {
            store: Store::IfNotPast,
            ..broken("fence-c", "a fence is stored where none is larger")
        },
        Settings {
            forget: Forget::VotesAtOnce,
            vanishings: 0,
            ..broken("fence-e", "both; a node forgets and votes at once")
        },
        Settings {
            forget: Forget::Waits,
            vanishings: 0,
            ..broken("fence-f", "both; a node that forgot waits before it votes")
        },
        Settings {
            heals: true,
            vanishings: 2,
            ..one("fence-h", "both; holders heal, 2 keys vanish")
        },
        Settings {
            vanishings: 2,
            forget: Forget::WaitsAndAsks,
            ..full("fence-g", "both; a node that forgot waits and asks the others, 2 keys vanish")
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
            fences: vec![[0, 0, 1], [0, 1, 2]],
            proposals: vec![[0, 0, 0], [1, 2, 0]],
            ..full("fence-d-uneven", "both; late grants, 2 keys vanish, uneven beginnings")
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
            ..full("fence-d-three", "both; 3 attempts, holders heal, a key vanishes")
        },
    ]
}

/// A row that is too large for every test run.
fn full(name: &'static str, what: &'static str) -> Settings {
    let row = Settings::new(name, what);
    Settings { about: About { is_full: true, ..row.about }, ..row }
}

/// Rules that are broken, from the plainest beginning in which they are.
fn broken(name: &'static str, what: &'static str) -> Settings {
    let row = Settings::new(name, what);
    Settings { about: About { expected: Expected::Broken(UNIQUE), ..row.about }, ..row }
}
