//! Locks among the processes of one machine, by a folder they share. What happens between processes
//! is in `tests/local.rs`.

mod endings;
mod faults;
pub(crate) mod outside;
mod refusals;
mod waiting;

use std::time::Duration;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
