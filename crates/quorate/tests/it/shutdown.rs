//! Clients that end, by a shutdown or because their last handle is dropped.

mod memory;
mod races;
mod servers;
