//! A simulator and an exhaustive model of Quorate.
//!
//! Both run the very machines of `quorate-core`: what a client makes of the nodes' answers, and
//! what a node does with a command. Only what carries messages, keeps time and decides at random is
//! simulated.
//!
//! # A world
//!
//! One seed decides everything: how many nodes and clients there are, their clocks, what the users
//! do, and what goes wrong. [`world::run`] plays it in virtual time, event by event. The judge in
//! [`check`] knows true time, which nobody else does, and says when a promise is broken.
//!
//! - [`settings`] and [`fault`]: what a seed draws before anything happens.
//! - `dice`, `clock`, `event`, `net`, `node`, `client`: the parts of a world. `driver` drives the
//!   client machine of the core, for the model as well.
//! - [`members`]: the same worlds, where the set of nodes changes.
//! - [`campaign`]: many seeds on many threads.
//! - [`catalogue`]: deliberate bugs, each of which must be noticed; [`directed`]: schedules for
//!   those which random seeds do not reach.
//! - [`shrink`], [`story`], [`trace`], [`timeline`]: a violation, made small and shown to people.
//! - [`cli`]: the command.
//!
//! # The model
//!
//! [`model`] searches all schedules of small worlds, where [`world`] samples those of large ones.

pub mod campaign;
pub mod catalogue;
pub mod check;
pub mod cli;
mod client;
pub mod clock;
mod dice;
pub mod directed;
mod driver;
mod event;
pub mod fault;
pub mod full;
pub mod members;
pub mod model;
mod net;
mod node;
pub mod settings;
pub mod shrink;
pub mod story;
pub mod timeline;
pub mod trace;
pub mod world;
