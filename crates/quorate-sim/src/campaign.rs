//! Simulates many seeds on several threads.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use crate::{
    catalogue::Entry,
    check::Violation,
    fault::Bound,
    run::{self, Counts, Options, Without},
    settings::{Fixed, Settings},
};

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The first seed.
    pub from: u64,
    /// The number of seeds.
    pub seeds: u64,
    /// Settings that override what the seeds draw.
    pub fixed: Fixed,
    /// The number of threads.
    pub threads: usize,
    /// The deliberate bug to switch on, if any.
    pub mutant: Option<&'static Entry>,
}

/// The results so far.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// The number of runs.
    pub seeds: u64,
    /// What happened in them.
    pub count: Counts,
    /// The number of runs with an overlap after a bound was broken, by bound.
    pub beyond: [u64; Bound::ALL.len()],
    /// The lowest seed that broke a promise.
    pub first: Option<(u64, Violation)>,
}

impl Campaign {
    /// Runs all seeds, or until a promise is broken. Calls `progress` after every chunk.
    pub fn run(&self, progress: impl Fn(&Totals) + Sync) -> Totals {
        let totals = Mutex::new(Totals::default());
        let next = AtomicU64::new(0);
        let is_over = AtomicBool::new(false);
        let work = || {
            let _on = self.mutant.map(Entry::switch_on);
            // A thread finishes the chunk it has begun, so that the lowest failing seed is found.
            while !is_over.load(Ordering::Relaxed) {
                let done = next.fetch_add(CHUNK, Ordering::Relaxed);
                if done >= self.seeds {
                    return;
                }
                let seen = self.run_chunk(done, CHUNK.min(self.seeds - done));
                if seen.first.is_some() {
                    is_over.store(true, Ordering::Relaxed);
                }
                let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
                totals.add(seen);
                progress(&totals);
            }
        };
        thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(work);
            }
        });
        totals.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_chunk(&self, done: u64, seeds: u64) -> Totals {
        let mut seen = Totals::default();
        // The seeds end at `u64::MAX`.
        for seed in (done..done + seeds).map_while(|done| self.from.checked_add(done)) {
            let report = self.run_one(seed, self.fixed, &Without::default(), false);
            seen.seeds += 1;
            seen.count.add(&report.count);
            if let Some(bound) = report.beyond.first() {
                seen.beyond[*bound as usize] += 1;
            }
            if let Some(violation) = report.violation {
                seen.first = Some((seed, violation));
                break;
            }
        }
        seen
    }

    /// Simulates one seed. The mutant must already be switched on.
    #[must_use]
    pub fn run_one(
        &self,
        seed: u64,
        fixed: Fixed,
        without: &Without,
        is_traced: bool,
    ) -> run::Report {
        let is_clock_stopping = self.mutant.is_some_and(Entry::stops_clocks);
        let options = Options { is_traced, is_clock_stopping };
        run::run(Settings::draw(seed, &fixed), without, options)
    }
}

impl Totals {
    fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.count.add(&other.count);
        for (sum, more) in self.beyond.iter_mut().zip(other.beyond) {
            *sum += more;
        }
        let is_lower = match (&self.first, &other.first) {
            (Some((known, _)), Some((seed, _))) => seed < known,
            (None, _) => true,
            (Some(_), None) => false,
        };
        if is_lower {
            self.first = other.first;
        }
    }
}

/// The number of seeds a thread takes at a time.
const CHUNK: u64 = 64;
