//! A held lock stays held: renewals, their interval, and what ends them.

mod batches;
mod clocks;
mod endings;
mod extends;
mod extensions;
pub(crate) mod fixture;
pub(crate) mod journal;
mod pace;
mod renewals;
mod servers;
mod timers;
