//! What an acquire is asked for, what it calls on nodes, and how it ends.

use std::time::Duration;

use crate::{fence::Fence, moment::Moment};

/// Whether to wait for a lock that is held.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Wait {
    /// Take the lock at once, or give up.
    Never,
    /// Queue until the lock is granted. Give up if too few nodes can be reached for this long.
    Patiently(Duration),
}

/// What holding the lock takes besides a majority of grants.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Rule {
    /// One fence, stored at a majority.
    Fenced,
    /// Nothing more. The owner shares the lock with other readers, and a fence would not order
    /// anything among them.
    Shared,
    /// One fence, as for an exclusive owner. The owner is an entry of a reentrant lock. It never
    /// yields a single grant, since all grants of its identity have the same fence: it withdraws
    /// and comes back as a new owner.
    Reentrant,
    /// Nothing more: nodes have neither fences nor a queue, or this owner does not use them.
    Classic,
}

/// One call to a node, made by one incarnation of the owner.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct NodeCall {
    /// Which incarnation.
    pub incarnation: u32,
    /// What to do.
    pub action: NodeAction,
}

impl NodeCall {
    /// Whether it asks for the lock.
    #[must_use]
    pub const fn is_acquire(self) -> bool {
        matches!(self.action, NodeAction::Acquire { .. })
    }
}

/// What a node is asked to do.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum NodeAction {
    /// See [`Command::Acquire`](crate::command::Command::Acquire).
    Acquire {
        /// Whether the owner joins the queue.
        is_waiting: bool,
        /// Whether it may be in the queue already.
        is_known: bool,
    },
    /// Give one grant back and stay in the queue.
    Yield(Fence),
    /// The same, for a grant with a fence that is not larger than one seen before.
    Reject(Fence),
    /// Store the fence: an extend that never takes a lost key again.
    Confirm(Fence),
    /// Leave for good.
    Release,
}

/// What the caller of the machine must do next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Output {
    /// Call the node.
    Call {
        /// The node.
        node: usize,
        /// The call.
        call: NodeCall,
    },
    /// Call `handle_timeout` at `until`; another input may come first.
    Wait {
        /// The deadline.
        until: Moment,
    },
    /// Nothing is left to do.
    Idle,
}

/// How an acquire ended.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Outcome {
    /// The lock is held.
    Held {
        /// The end of the lease on the client's own clock.
        valid_until: Moment,
        /// The fence of this holder. For a reader it is only the largest of its grants; a classic
        /// owner has none.
        fence: Fence,
    },
    /// A majority answered, and another owner holds the lock or is ahead in the queue.
    Contended,
    /// Too few nodes answered.
    NoQuorum,
    /// The caller went away before the outcome was known.
    Abandoned,
}
