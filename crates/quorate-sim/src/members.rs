//! Runs in which the set of nodes changes under faults: nodes are added, removed and replaced,
//! clients have old lists, nodes forget locks, and operators disagree.
//!
//! Clients, network and checker are those of the other runs. In addition there are spare servers, a
//! list of nodes for each client, and operators that use the `plan` of the core. No second node
//! loses its data before the first one is enrolled again: a set without durable nodes does not
//! tolerate that.

pub(crate) mod directed;
mod faults;
mod handshakes;
mod operator;
mod run;

use std::fmt;

use self::{
    faults::Fault,
    operator::Operator,
    run::{Later, STREAM},
};
use crate::{
    clock::{MS, Nanos},
    dice::Dice,
    settings::{Fixed, QuarantineSettings, Settings},
    trace::Trace,
};

const TTL_MS: u64 = 400;
const SESSION_MS: u64 = 300;
const QUARANTINE_MS: u64 = TTL_MS + TTL_MS / 50 + SESSION_MS + 2 * WALL_MS;

/// By how much the wall clock of a client may be wrong.
const WALL_MS: u64 = 16;

const TTL: Nanos = TTL_MS * MS;
const QUARANTINE_TIME: Nanos = QUARANTINE_MS * MS;

/// How long a server may be silent.
const LINK_TIMEOUT: Nanos = 120 * MS;

/// The additional state of a run in which the set of nodes changes.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) operators: Vec<Operator>,
    /// All lists that were agreed upon, as far as operators know.
    lists: Vec<Vec<usize>>,
    faults: Vec<(Nanos, Fault)>,
    later: Vec<(Nanos, Later)>,
    /// Servers that have lost their data and may not be enrolled again yet.
    forgetful: Vec<usize>,
}

/// The result of one run.
#[derive(Debug)]
pub struct Report {
    /// How often the lock was held.
    pub holds: u64,
    /// The number of the last change of the set.
    pub changes: u64,
    /// Why an operator was needed in the end.
    pub needs: Option<String>,
    /// The broken promise.
    pub violation: Option<String>,
    /// The trace, if it was recorded.
    pub trace: Trace,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.trace.lines().iter().try_for_each(|line| writeln!(f, "{line}"))?;
        self.violation.iter().try_for_each(|seen| writeln!(f, "{seen}"))
    }
}

/// Simulates one seed.
#[must_use]
pub fn run(seed: u64, is_traced: bool) -> Report {
    run::play(settings(seed), is_traced)
}

/// Simulates the first seeds, for the catalogue of deliberate bugs.
///
/// # Errors
///
/// The first seed that broke a promise, and which one.
pub fn hunt() -> Result<(), String> {
    hunt_in(HUNTED)
}

fn hunt_in(seeds: u64) -> Result<(), String> {
    let seen = |seed| run(seed, false).violation.map(|seen| format!("seed {seed}: {seen}"));
    (0..seeds).find_map(seen).map_or(Ok(()), Err)
}

/// Every mutant that seeds can detect is detected by one of this number of seeds.
const HUNTED: u64 = 500;

/// Clients acquire one lock again and again, on nodes with quarantine.
fn settings(seed: u64) -> Settings {
    let mut dice = Dice::new(seed, STREAM);
    let nodes = dice.pick(&[2, 3, 3, 3, 3, 4, 5, 5]);
    let spares = dice.between(1, 3) as usize;
    let clients = dice.between(2, 4) as usize;
    let fixed = Fixed {
        nodes: Some(nodes),
        clients: Some(clients),
        has_queue: Some(true),
        has_quarantine: Some(false),
        is_shared: Some(false),
    };
    let mut rates = |count, rates| (0..count).map(|_| dice.pick(rates)).collect();
    Settings {
        spares,
        tasks: 1,
        locks: 1,
        session_ms: SESSION_MS,
        is_calm: false,
        ttls_ms: vec![TTL_MS],
        beyond: None,
        is_hoarding: true,
        hold_max: 5 * TTL,
        think_max: 250 * MS,
        is_coarse: false,
        client_rates: rates(clients, &[-5_000, -1_000, 0, 1_000, 5_000]),
        node_rates: rates(nodes + spares, &[-500, 0, 500]),
        latency: MS / 2,
        jitter: 2 * MS,
        link_timeout: LINK_TIMEOUT,
        faults: 0,
        fulls: Vec::new(),
        quarantine: Some(QuarantineSettings {
            quarantine_ms: QUARANTINE_MS,
            wall_ms: WALL_MS,
            is_durable: false,
        }),
        is_forgetful: true,
        ..Settings::draw(seed, &fixed)
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::mutant::{self, Mutant};

    use super::*;

    #[test]
    fn seed_decides_everything() {
        let (one, two) = (run(7, true), run(7, true));
        assert_eq!(one.to_string(), two.to_string());
        assert!(one.holds > 0 && !one.trace.lines().is_empty());
    }

    #[test]
    fn nothing_goes_wrong_in_many_worlds() {
        assert_eq!(hunt_in(1_500), Ok(()));
    }

    /// Seeds hardly ever notice `AnyMark`, which has a schedule of its own.
    #[test]
    fn mutants_are_noticed_by_seeds() {
        for bug in [Mutant::AnyConfig, Mutant::AnyLabel, Mutant::WritingInspect] {
            mutant::switch(Some(bug));
            let seen = hunt();
            mutant::switch(None);
            assert!(seen.is_err(), "{bug:?}");
        }
    }
}
