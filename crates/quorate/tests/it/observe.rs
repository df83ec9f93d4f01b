//! The events of an observer, and what the adapters make of them.

mod callbacks;
mod debug;
mod leases;
#[cfg(feature = "metrics")]
mod metrics;
mod nodes;
mod rounds;
#[cfg(feature = "tracing")]
mod tracing;
