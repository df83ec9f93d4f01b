//! The promises, and the record of a broken one.

use std::fmt;

use crate::clock::Nanos;

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which promise.
    pub promise: Promise,
    /// When, in true time.
    pub at: Nanos,
    /// Which lock.
    pub lock: Option<usize>,
    /// The claims involved.
    pub claims: Vec<u32>,
    /// The short names of the owners involved.
    pub owners: Vec<String>,
    /// What was observed.
    pub text: String,
}

/// The promises.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Promise {
    /// No two claims of one lock overlap unless they share it.
    Exclusion,
    /// A majority of the nodes has the key of every claim.
    Backing,
    /// Fences grow with every exclusive holder.
    Fence,
    /// A holder is notified of a loss before the next holder begins, and a lost lease stays lost.
    Loss,
    /// A holder's own limit is respected.
    Limit,
    /// Keys and queue entries that are not in use are removed.
    Leak,
    /// Once faults have stopped, some waiter gets the lock.
    Progress,
    /// Once faults have stopped, waiters are served in queue order.
    Order,
    /// A reported outcome matches the answers.
    Reason,
    /// A full node keeps what it has, and accepts nothing new.
    Memory,
    /// A read-only command changes nothing.
    Reads,
    /// The locks of a set are acquired together or not at all.
    Together,
}

/// The name in lower case.
impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", format!("{self:?}").to_lowercase())
    }
}
