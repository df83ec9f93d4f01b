//! Read-only reports about locks. No decision depends on them.

use std::sync::Arc;

use crate::{
    command::{KeyObservation, Owner},
    fence::Fence,
    name::Name,
};

/// Everything that a node knows about one lock.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Inspected {
    /// The stored value, if any.
    pub observation: Option<KeyObservation>,
    /// The last grant, if the node remembers it.
    pub fence: Option<GrantRecord>,
    /// The first waiters in queue order, up to the requested number.
    pub waiting: Box<[Owner]>,
    /// The length of the queue.
    pub waiting_total: u64,
    /// The node's time, in microseconds.
    pub time_us: u64,
    /// The holders of a shared lock by ticket, earliest first: at most
    /// [`SHARES_SHOWN_MAX`] of them.
    pub shares: Box<[ShareInfo]>,
}

/// One holder of a shared lock.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ShareInfo {
    /// The holder.
    pub owner: Owner,
    /// How long it has held the lock, in milliseconds.
    pub held_ms: u64,
    /// How long the share lasts unless it is extended, in milliseconds.
    pub left_ms: u64,
}

/// The last grant of a lock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct GrantRecord {
    /// The fence.
    pub fence: Fence,
    /// How long ago it was, in milliseconds.
    pub age_ms: u64,
}

/// A page of the locks that a node knows.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Listed {
    /// Their names, in order. A name may be repeated on a later page.
    pub names: Box<[Name]>,
    /// Where to continue; `None` after the last page.
    pub next: Option<Cursor>,
}

/// A position in a list. Only the node that returned it can interpret it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Cursor(Arc<str>);

impl Cursor {
    /// The position that a node represents by this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The most waiters that a node reports.
pub const WAITING_SHOWN_MAX: u32 = 100;

/// The most holders of a shared lock that a node reports.
pub const SHARES_SHOWN_MAX: usize = 100;

/// The most keys that a node scans for one page of a list: it executes nothing else meanwhile.
pub const LIST_SCAN_MAX: u32 = 500;
