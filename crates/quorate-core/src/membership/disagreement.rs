//! Why a node does not vote for a client, however long that waits.

use std::{fmt, sync::Arc};

use super::{Members, WIRE};

/// What a client and the nodes see differently.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Disagreement {
    /// How many nodes there are.
    Count {
        /// The nodes that were agreed upon.
        agreed: Members,
        /// How many the client has.
        ours: usize,
    },
    /// The longest ttl.
    MaxTtl {
        /// What was agreed upon.
        agreed_ms: u64,
        /// The client's.
        ours_ms: u64,
    },
    /// Whether this server is one of the nodes.
    NotMember(Members),
    /// Which nodes there are: this one was told of others at the same change.
    OtherList(Members),
    /// Whether a change of the set was agreed upon: too few nodes have heard of it yet.
    Unsettled {
        /// How many have.
        heard: usize,
        /// How many must.
        needed: usize,
    },
    /// Which set this is: this node is of another one.
    OtherSet,
    /// Which of the nodes this is: it has the record of another.
    OtherPlace,
    /// Whether it is one node or two: another address leads to the same one.
    SameNode(Arc<str>),
    /// The version of the record.
    Wire(u32),
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { agreed, ours } => write!(
                f,
                "the nodes have agreed to be {} ({agreed}), this client has {ours}",
                agreed.len()
            ),
            Self::MaxTtl { agreed_ms, ours_ms } => write!(
                f,
                "the nodes have agreed on a max_ttl of {agreed_ms} ms, this client has {ours_ms} ms"
            ),
            Self::NotMember(agreed) => write!(
                f,
                "the nodes have agreed on {agreed}, this client has another address for one of them"
            ),
            Self::OtherList(agreed) => write!(
                f,
                "this node was told of {agreed} by a change that the others have not heard of"
            ),
            Self::Unsettled { heard, needed } => write!(
                f,
                "the set of nodes is being changed: {heard} of the {needed} nodes that are needed \
                 have heard of it"
            ),
            Self::OtherPlace => f.write_str("this node has the record of another one"),
            Self::OtherSet => f.write_str("this node belongs to another set of nodes"),
            Self::SameNode(label) => write!(f, "is the same node as {label}"),
            Self::Wire(agreed) => write!(
                f,
                "the node's record has version {agreed}, this client reads version {WIRE}"
            ),
        }
    }
}
