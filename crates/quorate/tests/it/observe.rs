//! The events of an observer, and how the adapters report them.

mod callbacks;
mod debug;
mod leases;
#[cfg(feature = "metrics")]
mod metrics;
mod nodes;
mod rounds;
#[cfg(feature = "tracing")]
mod tracing;
