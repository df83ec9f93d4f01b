//! What an attempt is asked for, what it says to nodes, and how it ends.

use std::time::Duration;

use crate::{fence::Fence, moment::Moment};

/// Whether a lock that is held is waited for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Wait {
    /// The lock at once, or nothing.
    Never,
    /// The lock when its turn comes. If too few nodes can be reached for this long, it gives up.
    Patiently(Duration),
}

/// What the lock takes besides a majority of grants.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Rule {
    /// One fence, stored at a majority.
    Fenced,
    /// Nothing: the owner shares the lock with others of its kind, and a fence would order nothing
    /// among those who hold together.
    Shared,
    /// One fence, as alone. The owner is an entry of a reentrant lock: it never gives a single
    /// grant back, since all grants of its identity have the same fence, but goes and comes again.
    Reentrant,
    /// Nothing: nodes have neither fences nor a queue, or this owner does not use them.
    Plain,
}

/// Something to say to a node, under the name of one life of the owner.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Said {
    /// Which life.
    pub life: u32,
    /// What.
    pub what: Saying,
}

impl Said {
    /// Whether it asks for the lock.
    #[must_use]
    pub const fn is_ask(self) -> bool {
        matches!(self.what, Saying::Ask { .. })
    }
}

/// What is said.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Saying {
    /// See [`Command::Acquire`](crate::command::Command::Acquire).
    Ask {
        /// Whether the owner stays in line.
        is_waiting: bool,
        /// Whether it may stand there already.
        is_known: bool,
    },
    /// Gives one grant back and stays in line.
    Yield(Fence),
    /// The same, for a grant that comes after one with a larger fence.
    Doubt(Fence),
    /// Stores the fence: an extend that never takes a lost key again.
    Confirm(Fence),
    /// Goes for good.
    Leave,
}

/// What the caller of the machine must do next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Output {
    /// Say this to the node.
    Say {
        /// Whom.
        node: usize,
        /// What.
        said: Said,
    },
    /// Call `handle_timeout` at `until`; something else may come first.
    Wait {
        /// The deadline.
        until: Moment,
    },
    /// Nothing to do any more.
    Idle,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Outcome {
    /// The lock is held.
    Held {
        /// When the right ends on the client's own clock.
        valid_until: Moment,
        /// The fence of this holder. For one who shares the lock it is no more than the largest of
        /// its grants, and a plain owner has none.
        fence: Fence,
    },
    /// A majority answered, and somebody else has the lock or is after it.
    Contended,
    /// Too few nodes gave any answer.
    NoQuorum,
    /// The caller went away before it was known.
    Abandoned,
}
