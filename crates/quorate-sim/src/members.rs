//! The set of nodes changes while everything goes wrong: nodes are added, removed and replaced,
//! clients have old lists, nodes forget, and operators are at odds.
//!
//! The servers run the very commands of `quorate-core`, clients judge them by its `Council`, and
//! operators go by its `plan`. What is simulated is the network and who does what when. No second
//! node loses its memory before the first has its place again: that is beyond what a set whose
//! data is not written at once can bear.

mod client;
pub mod directed;
mod faults;
mod lock;
mod mutants;
mod net;
mod operator;
mod world;

use std::sync::Arc;

pub use self::mutants::MUTANTS;

/// Milliseconds of true time, which all clocks show here.
type Ms = u64;

const TTL: Ms = 400;
const LIFE: Ms = 300;
const GUARD: Ms = TTL + TTL / 50 + LIFE + 32;

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

    /// One in ten thousand notices `AnyMark`, which has a schedule of its own.
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
