//! `quorate run`.

mod codes;
mod crowd;
mod danger;
mod flags;
mod signals;
mod terminal;
mod tree;
