//! The library from the outside: one binary, one file for each topic.

// All of it is tests, including the bodies that macros turn into several tests.
#![cfg(test)]

#[macro_use]
mod conformance;
#[macro_use]
mod mode;
#[macro_use]
mod rwlock;

mod blocking;
mod cancellation;
mod detach;
#[cfg(feature = "__simulation")]
mod differential;
mod faults;
mod fence;
mod full;
mod guidelines;
mod links;
#[cfg(feature = "local")]
mod local;
mod loss;
mod mutex_all;
mod observe;
mod permissions;
mod quarantine;
mod queue;
mod reentrant;
mod release;
mod semaphore;
mod shutdown;
#[cfg(feature = "tls")]
mod tls;
mod waiting;
mod watchdog;
