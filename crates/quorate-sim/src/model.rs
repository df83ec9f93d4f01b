//! The exhaustive model.
