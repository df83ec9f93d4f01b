//! Why a node does not vote for a client, even after its quarantine.

use std::{fmt, sync::Arc, time::Duration};

use super::{Members, WIRE};
use crate::time_text::TimeText;

/// What a client and the nodes disagree about.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Disagreement {
    /// The number of nodes.
    Count {
        /// The agreed nodes.
        agreed: Members,
        /// The number of the client's nodes.
        ours: usize,
    },
    /// The longest ttl.
    MaxTtl {
        /// The agreed one.
        agreed_ms: u64,
        /// The client's one.
        ours_ms: u64,
    },
    /// Whether this server is one of the agreed nodes.
    NotMember(Members),
    /// Which nodes the set has: this node has another list with the same change number.
    OtherList(Members),
    /// Whether a change of the set is agreed: too few nodes have received it.
    Unsettled {
        /// The number of nodes that have received it.
        received: usize,
        /// The number that is needed.
        needed: usize,
    },
    /// Which set this is: this node belongs to another one.
    OtherSet,
    /// Which node this is: it has the record of another one.
    OtherPlace,
    /// Whether these are two nodes: the other address leads to the same node.
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
                "the nodes have agreed on a max_ttl of {}, this client has {}",
                TimeText(Duration::from_millis(*agreed_ms)),
                TimeText(Duration::from_millis(*ours_ms))
            ),
            Self::NotMember(agreed) => write!(
                f,
                "the nodes have agreed on {agreed}, this client has another address for one of them"
            ),
            Self::OtherList(agreed) => write!(
                f,
                "this node has received the list {agreed} in a change that the others do not know"
            ),
            Self::Unsettled { received, needed } => write!(
                f,
                "the set of nodes is being changed: {received} of the {needed} nodes that are \
                 needed have received the change"
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
