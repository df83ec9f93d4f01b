//! The replies of a node.

use crate::{
    fence::Fence,
    inspect::{Inspected, Listed},
    membership,
    queue::Extended,
    quorum::Vote,
    share::Shares,
};

/// The reply of a node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Reply {
    /// The key was stored.
    Stored,
    /// The key was deleted.
    Deleted,
    /// The key does not exist.
    Absent,
    /// The key exists, and the owner does not hold it.
    NotOwner,
    /// The result of each key of an `ExtendKeys`, in order.
    ExtendedKeys(Box<[ExtendedKey]>),
    /// The stored value, if any.
    Key(Option<KeyObservation>),
    /// The state of a lock.
    Inspected(Box<Inspected>),
    /// A page of locks.
    Listed(Listed),
    /// The reply to a membership command.
    Membership(membership::Reply),
    /// The node is a member of a set, and the client did not name the config that it uses.
    MembershipRequired,
    /// The session continues. The reply has the node's time.
    Attached {
        /// The node's wall clock, in microseconds.
        time_us: u64,
    },
    /// The session or the mark is outdated. Nothing was done.
    Stale,
    /// The node has no memory left for new data. Nothing was done.
    Full,
    /// The owner holds the key.
    Granted {
        /// The fence of this grant on this node.
        fence: Fence,
        /// A waiter has an earlier ticket.
        is_earlier: bool,
    },
    /// Another owner holds the key.
    Queued {
        /// The node's fence: the owner holds no grant up to this fence any more.
        fence: Fence,
        /// Milliseconds until the key expires; `None` if it never does.
        expires_in_ms: Option<u64>,
        /// How many waiters are ahead in the queue; `None` if the owner is not queued.
        rank: Option<u64>,
        /// The holder belongs to another library, which does not notify waiters on release.
        is_foreign: bool,
    },
    /// The description of the client is stored.
    Introduced,
    /// The description of the client, if the node has one.
    Known(Option<Box<str>>),
    /// The lock was released, or the queue left.
    Released {
        /// The owner held the key.
        is_ours: bool,
    },
    /// The result of each lease of an `Extend`, in order.
    ExtendedLeases(Box<[Extended]>),
    /// The reply to each entry of a batch, in order; `None` if an entry failed.
    Batch(Box<[Option<Self>]>),
}

impl Reply {
    /// Whether any entry reports an outdated session.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        match self {
            Self::Batch(replies) => replies.iter().flatten().any(Self::is_stale),
            single => *single == Self::Stale,
        }
    }
}

/// The result of one key of an `ExtendKeys`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ExtendedKey {
    /// The key was extended.
    Renewed,
    /// The key does not exist.
    Absent,
    /// The key exists, and the owner does not hold it.
    NotOwner,
    /// The node could not determine the result.
    Failed,
}

impl ExtendedKey {
    /// The vote on the lease.
    #[must_use]
    pub fn vote(&self) -> Vote {
        mutate!(AbsentCountsAsExtended if *self == Self::Absent => return Vote::Grant);
        match self {
            Self::Renewed => Vote::Grant,
            Self::Absent | Self::NotOwner => Vote::Refuse,
            Self::Failed => Vote::Unknown,
        }
    }
}

/// The value found under a name. Long values are cut to the first [`SHOWN_LEN_MAX`] bytes. Owners
/// are shorter.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct KeyObservation {
    /// The stored value.
    pub value: Value,
    /// Milliseconds until it expires; `None` if it never does, as some libraries store it.
    pub expires_in_ms: Option<u64>,
}

/// The most bytes of a value that a node reports.
pub const SHOWN_LEN_MAX: usize = 512;

/// A stored value.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Value {
    /// A byte string, as nearly every lock library stores it.
    Text(Box<[u8]>),
    /// The holders of a shared lock.
    Shared(Shares),
    /// Another type: the node's name for it, for example `hash`.
    OtherType(Box<str>),
}
