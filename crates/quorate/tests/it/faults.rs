//! Servers that die, stop, or go silent while locks are taken.

pub(crate) mod cluster;
mod inspect;
mod minority;
mod no_majority;
mod node_errors;
mod refusals;
mod replies;
mod restarts;
mod ways_down;
