//! The library from the outside: one binary, one file for each topic.

mod blocking;
mod cancellation;
mod conformance;
mod differential;
mod faults;
mod handover;
mod keeper;
mod links;
mod loss;
mod regressions;
