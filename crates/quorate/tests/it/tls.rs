//! `rediss://`: what is trusted and what is not, and what the caller is told about it.

mod certificates;
mod refusals;
mod secured;
mod settings;
