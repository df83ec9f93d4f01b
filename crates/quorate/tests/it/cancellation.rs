//! Futures dropped at every point leave no key behind.
