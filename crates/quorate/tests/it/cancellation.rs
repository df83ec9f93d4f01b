//! Futures dropped at every point leave no key behind.

mod downgrades;
mod extends;
pub(crate) mod fixture;
mod guards;
mod locks;
mod servers;
