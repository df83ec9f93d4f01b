//! The random numbers of a seed.

use std::{
    ops::RangeInclusive,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    time::Duration,
};

use quorate_core::backoff::Jitter;
use quorate_sim::catalogue;

/// Runs `test` with each of `count` seeds, or as many as `QUORATE_SEEDS` says, from `QUORATE_FROM`
/// on, or only with `QUORATE_SEED`. `QUORATE_MUTANT` switches on a deliberate bug of the core. A
/// failure reports its seed and how to run that seed again. Returns how many seeds were run.
pub(crate) fn for_seeds(count: u64, test: impl Fn(u64)) -> u64 {
    let from = number("QUORATE_FROM").unwrap_or(0);
    let seeds = match (number("QUORATE_SEED"), number("QUORATE_SEEDS")) {
        (Some(alone), _) => alone..alone + 1,
        (None, many) => from..from + many.unwrap_or(count),
    };
    let _on = std::env::var("QUORATE_MUTANT").ok().map(|name| {
        catalogue::find(&name).unwrap_or_else(|error| panic!("QUORATE_MUTANT: {error}")).switch_on()
    });
    for seed in seeds.clone() {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let Some(text) = text.or_else(|| panic.downcast_ref::<&str>().copied()) else {
                resume_unwind(panic);
            };
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            panic!(
                "seed {seed}: {text}\n\
                 alone: QUORATE_SEED={seed} cargo test -p quorate-sim --test stack {name}"
            );
        }
    }
    seeds.end - seeds.start
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

/// A stream of decisions that follows from its seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Jitter);

impl Dice {
    /// Different purposes of one seed draw different numbers.
    pub(crate) fn new(seed: u64, purpose: &str) -> Self {
        let mixed = purpose.bytes().fold(Jitter::new(seed).next(), |mixed, byte| {
            Jitter::new(mixed ^ u64::from(byte)).next()
        });
        Self(Jitter::new(mixed))
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }

    pub(crate) fn chance(&mut self, per_cent: usize) -> bool {
        self.below(100) < per_cent
    }

    /// A number of whole milliseconds.
    pub(crate) fn ms(&mut self, range: RangeInclusive<u64>) -> Duration {
        let (first, last) = range.into_inner();
        Duration::from_millis(first + self.next() % (last - first + 1))
    }
}
