//! End-to-end tests of the HTTP service: real `quorate serve` processes on real servers.

#![cfg(test)]

mod downgrade;
mod errors;
mod events;
mod fixture;
mod health;
mod idempotency;
mod inspect;
mod leases;
mod list;
mod names;
mod openapi;
mod reentrant;
mod several;
mod sharing;
mod shutdown;
mod waiting;
