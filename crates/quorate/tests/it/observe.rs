//! What an observer is told, and what the adapters make of it.

mod callbacks;
mod debug;
mod leases;
#[cfg(feature = "metrics")]
mod metrics;
mod nodes;
mod rounds;
#[cfg(feature = "tracing")]
mod tracing;
