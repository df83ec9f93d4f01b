//! The client's side of membership: which nodes are a set, and whether a connection may vote.
//!
//! What a client makes of its nodes is decided by the [`View`](quorate_core::membership::View) of
//! the core. All links of a client share one ([`SharedMembership`]), and each link has a [`Seat`]
//! there. A new connection joins at its seat, and gets a [`Permit`] with the terms of its session,
//! or is told why the node does not vote. When the permit is void, the connection ends.
//!
//! An operator looks at all nodes, decides, and [acts](Acting) through the same shared membership.

mod handshake;
mod retry;
mod seat;
mod shared;
mod version;

pub(crate) use self::{
    handshake::Connection,
    retry::{DELAY_MIN, Retry},
    seat::{Permit, Seat},
    shared::{Acting, Settings, SharedMembership},
};
use crate::error::NodeError;
use quorate_core::membership::Disagreement;
use std::time::Duration;

/// Why a node is of no use to this client.
pub(crate) fn differs_by(differs: &Disagreement) -> NodeError {
    match differs {
        // The next one that is heard settles it.
        Disagreement::Unsettled { .. } => quarantined(&differs.to_string(), 0),
        Disagreement::SameNode(label) => NodeError::SameServer(label.to_string()),
        _ => NodeError::Disagreement(differs.to_string()),
    }
}

fn quarantined(why: &str, left_ms: u64) -> NodeError {
    NodeError::Quarantined { left: Duration::from_millis(left_ms), why: why.to_owned() }
}

/// A node does not go by another config before clients with the one before the last are gone.
pub(crate) const CHANGED_LATELY: &str = "the set of nodes was changed a short while ago";
