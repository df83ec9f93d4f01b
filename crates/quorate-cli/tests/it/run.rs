//! `quorate run`.

mod codes;
mod crowd;
mod danger;
mod flags;
mod nodes_down;
mod permits;
mod queue;
mod reentrant;
mod several;
mod shared;
mod signals;
mod terminal;
mod tree;
