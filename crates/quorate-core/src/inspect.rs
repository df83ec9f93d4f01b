//! What a node tells people about its locks. Nothing here decides anything.

use std::sync::Arc;

use crate::{
    command::{KeyObservation, Owner},
    fence::Fence,
    name::Name,
};

/// All that a node knows about one lock.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Inspected {
    /// What is stored under the name, if anything.
    pub observation: Option<KeyObservation>,
    /// The last grant, if it is remembered.
    pub fence: Option<GrantRecord>,
    /// Who stands in line, the first one first: as many as were asked for.
    pub waiting: Box<[Owner]>,
    /// How many stand in line.
    pub waiting_total: u64,
    /// The node's time, in microseconds.
    pub time_us: u64,
    /// Those who hold it together, the earliest ticket first: the first
    /// [`SHARES_SHOWN_MAX`] of them.
    pub shares: Box<[ShareInfo]>,
}

/// One of those who hold a lock together.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ShareInfo {
    /// Who.
    pub owner: Owner,
    /// Since when, in milliseconds.
    pub held_ms: u64,
    /// For how much longer, if nothing extends it.
    pub left_ms: u64,
}

/// The last grant of a lock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct GrantRecord {
    /// Its fence.
    pub fence: Fence,
    /// How long ago it was, in milliseconds.
    pub age_ms: u64,
}

/// Some of the locks that a node knows.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Listed {
    /// Their names, in their order; a name may come again with a later page.
    pub names: Box<[Name]>,
    /// Where to go on; `None` if these were the last.
    pub next: Option<Cursor>,
}

/// Where a list goes on. Only the node that told it can read it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Cursor(Arc<str>);

impl Cursor {
    /// The place that a node calls by this text.
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

/// The most of those in line that are told.
pub const WAITING_SHOWN_MAX: u32 = 100;

/// The most of those who hold a lock together that are told.
pub const SHARES_SHOWN_MAX: usize = 100;

/// The most keys that a node looks at for one page of a list: it does nothing else meanwhile.
pub const LIST_LOOKED_MAX: u32 = 500;
