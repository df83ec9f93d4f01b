//! `quorate run`.

mod codes;
mod contention;
mod flags;
mod nodes_down;
mod permits;
mod queue;
mod reentrant;
mod several;
mod shared;
mod signals;
pub(crate) mod terminal;
mod termination;
mod tree;
