//! `rediss://`: trusted and untrusted servers, and errors in the settings.

mod certificates;
mod refusals;
mod secured;
mod settings;
