//! The exhaustive model: small systems in which every order of events is tried.
//!
//! A client is the machine that is shipped ([`Client`](quorate_core::client::Client)), a node is
//! the core's [`Store`](quorate_core::store::Store). Only their environment is simulated: a network
//! that keeps each connection in order and takes any time, sessions, clocks that tick together, and
//! faults. In classic mode clocks always tick. In most rows with a queue time stands still: a lease
//! never expires by time, a timer may fire at any moment, and a vanishing key stands for everything
//! that ends too early.

use std::{fmt::Debug, hash::Hash, time::Instant};

use quorate_core::mutant;
use stateright::{Checker, HasDiscoveries};

pub use self::{
    claims::{BACKED, IN_ORDER, KEPT_GRANTS, NO_LEAK, ONE_HOLDER, PROGRESS, UNIQUE},
    property::Kind,
    report::{Finding, Report, table},
    row::{About, Row, all},
    settings::{ANY_NUMBER, Beginning, Clocks, Dialect, Expected, Settings, Tickets},
};
use self::{
    product::ProductModel,
    property::{Checked, claims},
};

mod claims;
mod fair;
pub mod fences;
mod link;
mod member;
mod memo;
mod node;
mod print;
mod product;
mod property;
mod report;
mod row;
mod rows;
pub mod sets;
mod settings;
mod state;
mod step;
mod trace;

/// Searches one row, until every state was reached or a claim is broken.
#[must_use]
pub fn run(row: &Row) -> Report {
    let about = row.about();
    match row {
        Row::Product(settings) => search(about, ProductModel::new(settings.clone())),
        Row::Fences(settings) => fences::run(about, settings),
        Row::Sets(settings) => sets::run(about, settings),
    }
}

fn search<M>(about: About, model: M) -> Report
where
    M: Checked + Send + Sync,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let started = Instant::now();
    let checker = model
        .checker()
        .threads(1)
        .target_state_count(about.steps_max)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let took = started.elapsed();
    let model = checker.model();
    let mut discoveries = checker.discoveries();
    // Paths are rebuilt on this thread by running every step again.
    mutant::switch(None);
    let findings: Vec<Finding> = claims::<M>(model.settings())
        .map(|claim| Finding {
            claim: claim.name,
            kind: claim.kind,
            path: discoveries.remove(claim.name).map(|path| model.lines(&path)),
        })
        .collect();
    let is_violated = findings.iter().any(Finding::is_violation);
    Report {
        about,
        states: checker.state_count(),
        unique_states: checker.unique_state_count(),
        depth: checker.max_depth().saturating_sub(1),
        took,
        is_exhaustive: !is_violated && checker.state_count() < about.steps_max,
        findings,
    }
}
