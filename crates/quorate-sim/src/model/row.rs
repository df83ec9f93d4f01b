//! One row of the table: a model of any kind with its settings.

use quorate_core::mutant::Mutant;

use super::{
    fences, rows, sets,
    settings::{Expected, Settings},
};

/// A model and its settings.
#[derive(Clone, Debug)]
pub enum Row {
    /// Clients and nodes that the product ships.
    Product(Settings),
    /// Rules for fences alone.
    Fences(fences::Settings),
    /// Clients that acquire several locks at once.
    Sets(sets::Settings),
}

/// What all rows have.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// A short name for tables.
    pub name: &'static str,
    /// A description for tables.
    pub what: &'static str,
    /// What the search must end with.
    pub expected: Expected,
    /// True if the row is too large for every test run.
    pub is_full: bool,
    /// The search stops after this many steps, and reports that it is not exhaustive.
    pub steps_max: usize,
}

impl Row {
    /// Its name, its limits and its expected result.
    #[must_use]
    pub const fn about(&self) -> About {
        match self {
            Self::Product(Settings { name, what, expected, is_full, steps_max, .. }) => {
                let (expected, is_full, steps_max) = (*expected, *is_full, *steps_max);
                About { name, what, expected, is_full, steps_max }
            }
            Self::Fences(settings) => settings.about,
            Self::Sets(settings) => settings.about,
        }
    }

    /// The same with a deliberate bug, if one is given. Some rows have one of their own.
    #[must_use]
    pub fn with_mutant(self, mutant: Option<Mutant>) -> Self {
        if mutant.is_none() {
            return self;
        }
        match self {
            Self::Product(settings) => Self::Product(Settings { mutant, ..settings }),
            Self::Sets(settings) => Self::Sets(sets::Settings { mutant, ..settings }),
            // It contains no code of the core that a bug could change.
            Self::Fences(settings) => Self::Fences(settings),
        }
    }
}

/// All rows, small ones first.
#[must_use]
pub fn all() -> Vec<Row> {
    let fences = fences::rows().into_iter().map(Row::Fences);
    let sets = sets::rows().into_iter().map(Row::Sets);
    rows::rows().map(Row::Product).chain(sets).chain(fences).collect()
}
