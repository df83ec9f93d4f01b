//! One model of any kind, to be searched.

use quorate_core::mutant::Mutant;

use super::{
    fences, rows, sets,
    settings::{Expected, Settings},
};

/// A model to be searched.
#[derive(Clone, Debug)]
pub enum Row {
    /// Clients and nodes of the product.
    Product(Settings),
    /// Rules for fences, without the product.
    Fences(fences::Settings),
    /// Clients that want several locks at once.
    Sets(sets::Settings),
}

/// What all rows have.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// A short name for tables.
    pub name: &'static str,
    /// What this row is about.
    pub what: &'static str,
    /// What the search must end with.
    pub expected: Expected,
    /// True if the row is too large for every test run.
    pub is_full: bool,
    /// The search stops after this many steps, and says that it is not exhaustive.
    pub steps_max: usize,
}

impl Row {
    /// What it is called and what must come of it.
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
            // There is nothing of the core in it that a bug could be in.
            Self::Fences(settings) => Self::Fences(settings),
        }
    }
}

/// All models, small ones first.
#[must_use]
pub fn all() -> Vec<Row> {
    let fences = fences::rows().into_iter().map(Row::Fences);
    let sets = sets::rows().into_iter().map(Row::Sets);
    rows::rows().map(Row::Product).chain(sets).chain(fences).collect()
}
