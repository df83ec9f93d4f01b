//! The library from the outside: one binary, one file for each topic.

#[macro_use]
mod mode;

mod blocking;
mod cancellation;
mod conformance;
mod differential;
mod faults;
mod fence;
mod handover;
mod keeper;
mod known_defects;
mod links;
mod loss;
mod observe;
mod regressions;
mod review;
#[cfg(feature = "tls")]
mod tls;
