//! The client's side of membership: which nodes are a set, and whether a connection may vote.
//!
//! The [`View`](quorate_core::membership::View) of the core decides what a client makes of its
//! nodes. All links of a client share one view ([`SharedMembership`]), and each link has a
//! [`LinkMembership`]. A new connection runs the membership handshake. It gets the [`VotingTerms`]
//! of its session, or the reason why the node does not vote. When the terms become void, the
//! connection closes.
//!
//! An operator inspects all nodes, decides, and [acts](Acting) through the same shared membership.

mod handshake;
mod link;
mod retry;
mod shared;
mod version;

pub(crate) use self::{
    handshake::Connection,
    link::{LinkMembership, VotingTerms},
    retry::{DELAY_MIN, Retry},
    shared::{Acting, Settings, SharedMembership},
};
use crate::error::{NodeError, QuarantineCause};
use quorate_core::membership::Disagreement;
use std::time::Duration;

/// Why this client cannot use a node.
pub(crate) fn differs_by(differs: &Disagreement) -> NodeError {
    match differs {
        // The next node that answers settles it.
        Disagreement::Unsettled { .. } => {
            quarantined(&differs.to_string(), 0, QuarantineCause::SetChanged)
        }
        Disagreement::SameNode(label) => NodeError::SameServer(label.to_string()),
        _ => NodeError::Disagreement(differs.to_string()),
    }
}

fn quarantined(why: &str, left_ms: u64, cause: QuarantineCause) -> NodeError {
    NodeError::Quarantined { left: Duration::from_millis(left_ms), why: why.to_owned(), cause }
}

/// A node does not adopt another config until the clients of the one before the last have expired.
pub(crate) const CHANGED_LATELY: &str = "the set of nodes was changed a short while ago";
