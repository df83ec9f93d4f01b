//! The library from the outside: one binary, one file for each topic.

mod cancellation;
mod conformance;
mod differential;
mod faults;
mod links;
