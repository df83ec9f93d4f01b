//! The exhaustive model: small worlds in which every order of events is tried.
//!
//! The nodes are the core's [`Store`](quorate_core::store::Store), the clients run the core's
//! machines with its terms and leases. Only what is around them is made up: a network that keeps
//! each connection in order and takes any time, clocks that tick together, and faults.

use std::time::Instant;

use quorate_core::mutant;
use stateright::{Checker, HasDiscoveries, Model};

use self::world::World;
pub use self::{
    claims::Kind,
    report::{Finding, Report, table},
    rows::rows,
    settings::{Beginning, Clocks, Expected, Settings},
};

mod claims;
mod client;
mod desk;
mod link;
mod machine;
mod node;
mod print;
mod report;
mod rows;
mod settings;
mod state;
mod trace;
mod world;

/// Searches one world, until every state was seen or a claim is broken.
#[must_use]
pub fn run(settings: &Settings) -> Report {
    let started = Instant::now();
    let checker = World::new(settings.clone())
        .checker()
        .target_state_count(settings.steps_max)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let took = started.elapsed();
    let mut discoveries = checker.discoveries();
    // Paths are made by doing every step once more, on this thread.
    mutant::switch(None);
    let findings: Vec<Finding> = claims::claims(settings)
        .map(|claim| Finding {
            claim: claim.name,
            kind: claim.kind,
            path: discoveries.remove(claim.name).map(|path| trace::lines(&path)),
        })
        .collect();
    let is_violated = findings.iter().any(Finding::is_violation);
    Report {
        settings: settings.clone(),
        states: checker.state_count(),
        unique_states: checker.unique_state_count(),
        depth: checker.max_depth().saturating_sub(1),
        took,
        is_exhaustive: !is_violated && checker.state_count() < settings.steps_max,
        findings,
    }
}
