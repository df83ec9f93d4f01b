//! A simulator and an exhaustive model of Quorate.
//!
//! Both run the production state machines of `quorate-core`: how a client handles the nodes'
//! answers, and how a node executes a command. Only the network, the clocks and the random numbers
//! are simulated.
//!
//! # A run
//!
//! One seed decides everything: the number of nodes and clients, their clocks, what the users do,
//! and which faults occur. [`run::run`] simulates it in virtual time, event by event. The checker
//! in [`check`] knows the true time, which no client or node knows, and reports broken promises.
//!
//! - [`settings`] and [`fault`]: what a seed draws before the run begins.
//! - `dice`, `clock`, `event`, `net`, `node`, `client`: the parts of a run. `driver` drives the
//!   client machine of the core, for the model as well.
//! - [`members`]: the same runs, but the set of nodes changes.
//! - [`campaign`]: many seeds on many threads.
//! - [`catalogue`]: deliberate bugs, each of which must be detected. [`directed`]: fixed schedules
//!   for the bugs that random seeds do not reach.
//! - [`shrink`], [`story`], [`trace`], [`timeline`]: reduce a violation and show it.
//! - [`cli`]: the command.
//!
//! # The model
//!
//! [`model`] searches all schedules of small systems; [`run`] samples schedules of larger ones.

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
pub mod run;
pub mod settings;
pub mod shrink;
pub mod story;
pub mod timeline;
pub mod trace;
