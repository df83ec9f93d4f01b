//! Parameters, calls and outcomes of an acquire.

use std::time::Duration;

use crate::{fence::Fence, moment::Moment};

/// Whether to wait for a lock that is held.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Wait {
    /// Acquire the lock immediately, or fail.
    Never,
    /// Wait until the lock is granted. Give up if too few nodes are reachable for this long.
    Patiently(Duration),
}

/// What it takes to hold the lock besides a majority of grants.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Rule {
    /// One fence, stored by a majority.
    Fenced,
    /// Nothing else. Readers share the lock, and a fence would not order them.
    Shared,
    /// One fence, as for an exclusive owner. The owner is an entry of a reentrant lock. It never
    /// yields a single grant, since all grants of its identity have the same fence. Instead it
    /// withdraws and continues as a new owner.
    Reentrant,
    /// Nothing else. Classic mode has neither fences nor a queue.
    Classic,
}

/// One call to a node, made by one incarnation of the owner.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct NodeCall {
    /// The incarnation.
    pub incarnation: u32,
    /// The action.
    pub action: NodeAction,
}

impl NodeCall {
    /// Whether it is an `Acquire`.
    #[must_use]
    pub const fn is_acquire(self) -> bool {
        matches!(self.action, NodeAction::Acquire { .. })
    }
}

/// An action on a node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum NodeAction {
    /// See [`Command::Acquire`](crate::command::Command::Acquire).
    Acquire {
        /// Whether the owner joins the queue.
        is_waiting: bool,
        /// Whether it may be in the queue already.
        is_known: bool,
    },
    /// Release one grant and stay in the queue.
    Yield(Fence),
    /// The same, for a grant whose fence is not larger than one seen before.
    Reject(Fence),
    /// Store the fence: an extension that never heals a lost key.
    Confirm(Fence),
    /// Release the lock or leave the queue, for good.
    Release,
}

/// The next action for the caller of the machine.
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
    /// Call `handle_timeout` at `until`, unless another input arrives earlier.
    Wait {
        /// The deadline.
        until: Moment,
    },
    /// Nothing is left to do.
    Idle,
}

/// The outcome of an acquire.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Outcome {
    /// The lock is held.
    Held {
        /// The end of the lease on the client's own clock.
        valid_until: Moment,
        /// The fence of this holder. For a reader it is only the largest of its grants. In classic
        /// mode it is meaningless.
        fence: Fence,
    },
    /// A majority answered, and another owner holds the lock or is ahead in the queue.
    Contended,
    /// Too few nodes answered.
    NoQuorum,
    /// The caller abandoned the acquire.
    Abandoned,
}
