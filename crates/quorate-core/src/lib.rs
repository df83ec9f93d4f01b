//! The pure core of Quorate: the state machine of a lock node, and the state machines of a client
//! that talks to N nodes.
//!
//! Nothing in this crate performs I/O, reads a clock or draws a random number. Time and randomness
//! are arguments. Therefore the same code runs under tokio against real servers, behind a mutex as
//! in-memory nodes, and in a simulator where one seed determines every event.
//!
//! # Modules
//!
//! - [`moment`]: points in time, with one type for the client's clock and one for a node's clock.
//! - [`terms`]: ttl, vote timeout and drift. The validity formula is defined only here.
//! - [`quorum`]: majorities, node sets and the tally of votes.
//! - [`name`] and [`command`]: the commands and replies of a node.
//! - [`queue`] and [`fence`]: waiters in the queue of a lock, and fences.
//! - [`tickets`]: the order of waiters in the queue.
//! - [`share`]: locks with several holders.
//! - [`membership`]: which nodes may vote, and the config on which the nodes agree.
//! - [`inspect`]: read-only reports about locks.
//! - [`store`]: how a node executes a command. It is the reference for every kind of node.
//! - [`acquire`]: the machine that acquires a lock. It waits in the queue, or tries once.
//! - [`round`] and [`renew`]: one request to all nodes.
//! - [`dialect`]: the commands of a lock with a queue, and of classic mode.
//! - [`lease`]: the state of a held lock. A lost lease stays lost.
//! - [`schedule`]: when each held lease is renewed and when it ends.
//! - [`client`]: a complete client, composed of these machines.
//! - [`backoff`]: random delays from randomness that the caller passes in.
//! - [`time_text`]: durations for people.
//! - [`mutant`]: deliberate bugs that prove that the tests detect them.
//!
//! # How to drive a machine
//!
//! Every machine has `handle_*` methods that take inputs and one `poll_output` that returns the
//! next action. After every `handle_*` the caller drains `poll_output` until it returns `Wait` or
//! `Idle`. Inputs that arrive too late are no-ops.

#![deny(clippy::cast_possible_truncation, clippy::float_arithmetic)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

// The macro of this module is used in all modules below.
#[macro_use]
pub mod mutant;

pub mod acquire;
pub mod backoff;
pub mod client;
pub mod command;
pub mod dialect;
pub mod fence;
mod hex;
pub mod inspect;
pub mod lease;
pub mod membership;
pub mod moment;
pub mod name;
pub mod queue;
pub mod quorum;
pub mod renew;
pub mod round;
pub mod schedule;
pub mod share;
pub mod store;
pub mod terms;
pub mod tickets;
pub mod time_text;
