//! Full servers: `maxmemory` is reached and nothing is evicted. What is held or queued stays, and
//! nothing new is stored.

mod fixture;
mod held;
mod reconnects;
mod refusals;
