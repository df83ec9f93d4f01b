//! What is promised, and what is said of a promise that was broken.

use std::fmt;

use crate::clock::Nanos;

/// A promise that was broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// When, in true time.
    pub at: Nanos,
    /// Which lock.
    pub lock: Option<usize>,
    /// The claims that are involved.
    pub claims: Vec<u32>,
    /// The owners that are involved, by their short names.
    pub owners: Vec<String>,
    /// What was seen.
    pub text: String,
}

/// What is promised.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Promise {
    /// No two claims of one lock overlap, but for those who share it.
    Exclusion,
    /// A claim is carried by a majority of the nodes for as long as it lasts.
    Backing,
    /// Fences grow with every holder who has a lock alone.
    Fence,
    /// A loss is told before the next holder begins, and stays.
    Loss,
    /// A holder's own limit is kept.
    Limit,
    /// What is not held is freed, or goes by itself.
    Leak,
    /// Once faults have stopped, some waiter gets the lock.
    Progress,
    /// Once faults have stopped, those who wait in line come in their order.
    Order,
    /// An outcome says what really happened.
    Reason,
    /// A full node keeps what it has, and takes in nothing new.
    Memory,
    /// A command that only looks changes nothing.
    Look,
    /// The locks of a set are won together or not at all.
    Together,
}

/// In small letters.
impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", format!("{self:?}").to_lowercase())
    }
}
