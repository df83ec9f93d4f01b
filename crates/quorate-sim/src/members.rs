//! The set of nodes changes while everything goes wrong: nodes are added, removed and replaced,
//! clients have old lists, nodes forget, and operators are at odds.
//!
//! Clients run the client machine of `quorate-core`, with the links and the network of the other
//! worlds. Servers run its store, and operators its `plan`. The judge knows true time. No second
//! node loses its memory before the first has its place again: that is more than a set can bear
//! whose data is not written to disk at once.

mod client;
pub mod directed;
mod env;
mod faults;
mod judge;
mod mutants;
mod operator;
mod world;

use std::sync::Arc;

pub use self::mutants::MUTANTS;
use crate::clock::{MS, Nanos};

const TTL_MS: u64 = 400;
const LIFE_MS: u64 = 300;
const GUARD_MS: u64 = TTL_MS + TTL_MS / 50 + LIFE_MS + 2 * WALL_MS;

/// By how much the wall clock of a client may be wrong.
const WALL_MS: u64 = 16;

const TTL: Nanos = TTL_MS * MS;
const GUARD: Nanos = GUARD_MS * MS;

/// How long a server may be silent.
const LINK_TIMEOUT: Nanos = 120 * MS;

fn label(server: usize) -> Arc<str> {
    format!("s{server}").into()
}

/// What became of one world.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How often the lock was held.
    pub holds: u64,
    /// The number of the last change of the set.
    pub changes: u64,
    /// Why the set came to rest only when an operator had settled it.
    pub needs: Option<String>,
    /// What went wrong.
    pub violation: Option<String>,
    /// What happened, if that was wanted.
    pub trace: Vec<String>,
}

/// Plays the world of one seed.
#[must_use]
pub fn run(seed: u64, is_traced: bool) -> Report {
    world::World::new(seed, is_traced).run()
}

/// Plays the worlds of the first seeds, for the catalogue of deliberate bugs.
///
/// # Errors
///
/// The first seed that went wrong, and how.
pub fn hunt() -> Result<(), String> {
    let seen = |seed| run(seed, false).violation.map(|seen| format!("seed {seed}: {seen}"));
    (0..HUNTED).find_map(seen).map_or(Ok(()), Err)
}

/// Every mutant that seeds can notice is noticed by one of so many.
const HUNTED: u64 = 1_500;

#[cfg(test)]
mod tests {
    use quorate_core::mutant::{self, Mutant};

    use super::*;

    #[test]
    fn a_seed_decides_everything() {
        let (one, two) = (run(7, true), run(7, true));
        assert_eq!(one.trace, two.trace);
        assert!(one.holds > 0 && !one.trace.is_empty());
    }

    #[test]
    fn nothing_goes_wrong_in_many_worlds() {
        assert_eq!(hunt(), Ok(()));
    }

    /// Seeds hardly ever notice `AnyMark`, which has a schedule of its own.
    #[test]
    fn mutants_are_noticed_by_seeds() {
        for bug in [Mutant::AnyPact, Mutant::AnyLabel, Mutant::WritingLook] {
            mutant::switch(Some(bug));
            let seen = hunt();
            mutant::switch(None);
            assert!(seen.is_err(), "{bug:?}");
        }
    }
}
