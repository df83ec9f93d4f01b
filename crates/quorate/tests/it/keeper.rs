//! What is held stays held: renewals, their pace, and what ends them.

mod batches;
pub(crate) mod bench;
mod endings;
pub(crate) mod journal;
mod pace;
mod servers;
