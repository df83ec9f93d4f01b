//! Clients that want several locks at once, in every order of events.
//!
//! Time stands still and nothing fails, so whatever has to happen must follow from messages. A set
//! that waited for a timer, or for another set that waits for it, would be found here.

use quorate_core::mutant::Mutant;

use self::model::SetModel;
use super::{About, Expected, Report, search};

mod model;
mod state;

/// Who wants which locks, and on how many nodes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What all rows have.
    pub about: About,
    /// How many nodes there are.
    pub nodes: usize,
    /// The locks of each client.
    pub wants: &'static [&'static [&'static str]],
    /// How many callers may go away while they wait.
    pub cancels: u8,
    /// A deliberate bug of the core.
    pub mutant: Option<Mutant>,
}

impl Settings {
    const fn new(
        (name, what): (&'static str, &'static str),
        nodes: usize,
        wants: &'static [&'static [&'static str]],
    ) -> Self {
        let (expected, is_full, steps_max) = (Expected::Safe, false, 400_000_000);
        let about = About { name, what, expected, is_full, steps_max };
        Self { about, nodes, wants, cancels: 0, mutant: None }
    }

    const fn full(mut self) -> Self {
        self.about.is_full = true;
        self
    }
}

/// All of them.
#[must_use]
pub fn rows() -> Vec<Settings> {
    const SAME: &[&[&str]] = &[&["a", "b"], &["b", "a"]];
    const OVERLAP: &[&[&str]] = &[&["a", "b"], &["b"]];
    const CIRCLE: &[&[&str]] = &[&["a", "b"], &["b", "c"], &["c", "a"]];
    // Each of the sets can be the first to have one of the locks.
    const CROSSED: &[&[&str]] = &[&["a"], &["b"], &["a", "b"], &["a", "b"]];
    vec![
        Settings {
            cancels: 1,
            ..Settings::new(("sets-n1", "1 node, 2 sets of 2 locks, a caller goes"), 1, SAME)
        },
        Settings::new(("sets-n1-circle", "1 node, 3 sets that overlap in a circle"), 1, CIRCLE),
        Settings::new(
            ("sets-n1-crossed", "1 node, 2 sets of 2 locks that others hold"),
            1,
            CROSSED,
        ),
        Settings::new(("sets-n3", "3 nodes, a set of 2 locks and one of them"), 3, OVERLAP),
        Settings::new(("sets-n3-same", "3 nodes, 2 sets of 2 locks"), 3, SAME).full(),
    ]
}

pub(super) fn run(about: About, settings: &Settings) -> Report {
    search(about, SetModel::new(settings.clone()))
}
