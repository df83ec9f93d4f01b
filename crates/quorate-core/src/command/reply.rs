//! What a node answers.

use crate::{
    fence::Fence,
    inspect::{Inspected, Listed},
    membership,
    queue::Extended,
    quorum::Vote,
    share::Shares,
};

/// What a node answered.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Reply {
    /// The key was stored.
    Stored,
    /// The key was deleted.
    Deleted,
    /// There is no such key.
    Absent,
    /// The key is there and not the owner's.
    NotOwner,
    /// What became of each key of a `Prolong`, in its order.
    ExtendedKeys(Box<[ExtendedKey]>),
    /// What is stored there, if anything.
    Key(Option<KeyObservation>),
    /// What is known about a lock.
    Inspected(Box<Inspected>),
    /// Which locks there are.
    Listed(Listed),
    /// What the node replies to a membership command.
    Membership(membership::Reply),
    /// The node is a member of a set, and the client does not say which config it goes by.
    MembershipRequired,
    /// The session goes on; this is the node's time.
    Attached {
        /// Microseconds of its wall clock.
        time_us: u64,
    },
    /// The session, or the mark, is not of today: nothing was done.
    Stale,
    /// The node has no memory left for anything new: nothing was done.
    Full,
    /// The key is the owner's.
    Granted {
        /// Names this grant of this node.
        fence: Fence,
        /// Somebody with an earlier ticket waits.
        is_earlier: bool,
    },
    /// The key is another's.
    Queued {
        /// The node's fence: no grant of it or below is the owner's any more.
        fence: Fence,
        /// Milliseconds until the key goes; `None` if it never does.
        expires_in_ms: Option<u64>,
        /// How many stand before the owner in line; `None` if it is not in it.
        rank: Option<u64>,
        /// The holder is another library's, which tells nobody when it goes.
        is_foreign: bool,
    },
    /// The client is known from now on.
    Introduced,
    /// Who the client is, if that is known.
    Known(Option<Box<str>>),
    /// What was given back.
    Released {
        /// The key was the owner's.
        is_ours: bool,
    },
    /// What became of each lease of an `Extend`, in its order.
    ExtendedLeases(Box<[Extended]>),
    /// The answer to each entry of a batch, in its order; `None` if the node could not tell.
    Batch(Box<[Option<Self>]>),
}

impl Reply {
    /// Whether the session is not of today, for any entry.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        match self {
            Self::Batch(each) => each.iter().flatten().any(Self::is_stale),
            single => *single == Self::Stale,
        }
    }
}

/// What became of one key of a `Prolong`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ExtendedKey {
    /// The key lives on.
    Renewed,
    /// There is no such key.
    Absent,
    /// The key is there and not the owner's.
    NotOwner,
    /// The node could not tell.
    Failed,
}

impl ExtendedKey {
    /// What it says about the lease.
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

/// What was found under a name. Of a long value only the first [`SHOWN_LEN_MAX`] bytes are told;
/// an owner is shorter than that.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct KeyObservation {
    /// What is stored.
    pub value: Value,
    /// Milliseconds until it goes; `None` if it never does, as some libraries store it.
    pub expires_in_ms: Option<u64>,
}

/// The most bytes of a value that a node tells.
pub const SHOWN_LEN_MAX: usize = 512;

/// A stored value.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Value {
    /// A string of bytes, as nearly every lock library stores it.
    Text(Box<[u8]>),
    /// Several owners of ours, who hold the lock together.
    Shared(Shares),
    /// Something else: the node's word for its type, such as `hash`.
    OtherType(Box<str>),
}
