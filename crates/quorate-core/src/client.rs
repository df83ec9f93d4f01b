//! A client as a machine without I/O: what composes the other machines.
//!
//! Time, randomness and answers are arguments. The library and the simulator drive the same code:
//! they carry commands to nodes, call back at deadlines, and make no decisions.

pub mod heartbeats;
pub mod held;
pub mod owners;
pub mod registry;
pub mod round;
pub mod waiter;
pub mod watchdog;

use crate::{command::Command, moment::Moment};

/// A release that is sent again until it is answered, or until its key has expired.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Debt {
    /// The release.
    pub release: Command,
    /// When the key has expired.
    pub until: Moment,
}
