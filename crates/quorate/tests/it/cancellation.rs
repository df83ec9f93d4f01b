//! Futures dropped at every point leave no key behind.

pub(crate) mod bench;
mod downgrades;
mod extends;
mod guards;
mod locks;
mod servers;
