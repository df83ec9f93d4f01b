//! `quorate run`.

mod codes;
mod crowd;
mod danger;
mod flags;
mod permits;
mod shared;
mod signals;
mod terminal;
mod tree;
