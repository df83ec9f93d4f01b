//! The whole stack in simulation: the real engine, links and clients of the library, over simulated
//! sockets, against servers in front of the core's store. One seed decides everything.
//!
//! `QUORATE_SEED=n` runs only seed `n`, and `QUORATE_SEEDS=n` runs `n` seeds.

mod batch;
mod cancellation;
mod chaos;
mod claims;
mod copies;
mod counter;
mod determinism;
mod dice;
mod fixture;
mod full;
mod language;
mod mix;
mod network;
mod node_errors;
mod quarantine;
mod queue;
mod renewals;
mod rolling;
mod rwlock;
mod semaphore;
mod server;
mod stragglers;
mod timeouts;
mod trace;
mod waiting;
