//! `rediss://`: what is trusted and what is not, and the errors of the caller.

mod certificates;
mod refusals;
mod secured;
mod settings;
