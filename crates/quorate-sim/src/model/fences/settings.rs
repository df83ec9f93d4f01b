//! Rules for fences, and the models in which they are tried.

use crate::model::{row::About, settings::Expected};

/// One set of rules, and what may go wrong.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What all rows have.
    pub about: About,
    /// How many attempts there are, each by a client of its own.
    pub attempts: usize,
    /// When a node stores the fence of an attempt.
    pub store: Store,
    /// Which fence an attempt takes.
    pub decide: Decide,
    /// True if a request to set the key may run at any time, even after its attempt.
    pub is_late: bool,
    /// True if a holder takes lost keys again, where no newer fence is stored.
    pub heals: bool,
    /// How many keys may vanish.
    pub vanishings: u8,
    /// Whether a node may once forget everything, and what it does then.
    pub forget: Forget,
    /// What the nodes may have stored in the beginning.
    pub fences: Vec<[u8; 3]>,
    /// What the attempts may propose.
    pub proposals: Vec<[u8; 3]>,
}

/// When a node stores the fence that an attempt has chosen, and says so.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Store {
    /// Always.
    Always,
    /// If the key is the attempt's.
    IfOwned,
    /// If no larger fence is stored.
    IfNotPast,
    /// Only if both is so.
    Both,
}

/// Which fence an attempt takes without asking the nodes to store it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Decide {
    /// Any that a majority has given it.
    AnyMajority,
    /// Only the largest that it has seen, if a majority has given it that.
    Largest,
}

/// What a node does that has forgotten everything.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Forget {
    /// None forgets.
    Never,
    /// It votes at once.
    VotesAtOnce,
    /// It does not vote until every attempt that was under way has ended.
    Waits,
    /// It waits, and then begins with the largest fence that the two others have stored.
    WaitsAndAsks,
}

impl Settings {
    /// Two attempts under the rules of the product, and three keys that may vanish.
    #[must_use]
    pub fn new(name: &'static str, what: &'static str) -> Self {
        let (expected, is_full, steps_max) = (Expected::Safe, false, 400_000_000);
        Self {
            about: About { name, what, expected, is_full, steps_max },
            attempts: 2,
            store: Store::Both,
            decide: Decide::AnyMajority,
            is_late: false,
            heals: false,
            vanishings: 3,
            forget: Forget::Never,
            fences: vec![[0, 0, 0]],
            proposals: vec![[0, 0, 0]],
        }
    }
}
