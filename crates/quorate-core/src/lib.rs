//! The pure core of Quorate: what one lock node does with one command, and what a client makes of
//! the replies of N nodes.
//!
//! Nothing in this crate performs I/O, reads a clock or draws a random number: time and randomness
//! are arguments. That is why the same code can run under tokio against real servers, behind a
//! mutex as the memory engine, and in a simulator where one seed decides everything.
//!
//! # The rooms
//!
//! - [`moment`]: points in time as numbers, one type for the client and one for the nodes.
//! - [`terms`]: ttl, vote timeout, drift; the only place with the validity formula.
//! - [`quorum`]: majority, node sets, the tally of votes.
//! - [`name`] and [`command`]: the whole language that is spoken to a node.
//! - [`line`](mod@line) and [`fence`]: waiting in line, and the numbers of holders.
//! - [`tickets`]: where a waiter stands in the queue.
//! - [`share`]: holding a lock together with others.
//! - [`membership`]: which node may vote, and what the nodes have agreed upon.
//! - [`inspect`]: what a node tells people about its locks.
//! - [`store`]: what a node does with a command, the reference for every engine.
//! - [`contend`]: the machine that acquires a lock: it waits in line, or tries once.
//! - [`round`] and [`renew`]: one question to all nodes.
//! - [`dialect`]: which commands those are, with and without a queue.
//! - [`lease`]: the life of a held lock, in which lost stays lost.
//! - [`schedule`]: when each held lease is renewed and when it ends.
//! - [`client`]: what composes these machines into a client.
//! - [`backoff`]: delays drawn from randomness that is passed in.
//! - [`mutant`]: deliberate bugs for showing that the tests notice them.
//!
//! # How a machine is used
//!
//! Every machine has `handle_*` methods that take facts in and one `poll_output` that hands out
//! what to do next. After every `handle_*` the caller drains `poll_output` until it says `Wait` or
//! `Idle`. Facts that come too late are no-ops.

#![deny(clippy::cast_possible_truncation, clippy::float_arithmetic)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

// The modules below it know its macro.
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
