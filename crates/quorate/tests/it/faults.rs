//! Servers that crash, stop, or become silent while locks are acquired.

pub(crate) mod fixture;
mod inspect;
mod minority;
mod no_majority;
mod node_errors;
mod paused;
mod refusals;
mod replies;
mod restarts;
mod ways_down;
