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
use crate::{
    error::{NodeError, QuarantineCause},
    node_error::votes_in,
};
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

/// The error of a node that is in quarantine for `left_ms` more. It recovers after that, before it
/// votes.
fn quarantined(why: &str, left_ms: u64, cause: QuarantineCause) -> NodeError {
    let left = match cause {
        QuarantineCause::New | QuarantineCause::Forgotten => votes_in(left_ms),
        QuarantineCause::SetChanged | QuarantineCause::Recovering => Duration::from_millis(left_ms),
    };
    NodeError::Quarantined { left, why: why.to_owned(), cause }
}

/// A node does not adopt another config until the clients of the one before the last have expired.
pub(crate) const CHANGED_LATELY: &str = "the set of nodes was changed a short while ago";

#[cfg(test)]
mod tests {
    use super::*;

    /// All reports count down to the same moment, also while the node recovers.
    #[test]
    fn remaining_time_includes_the_recovery_once() {
        let left = |cause| match quarantined("", 1_000, cause) {
            NodeError::Quarantined { left, .. } => left.as_millis(),
            error => panic!("{error}"),
        };
        assert_eq!(left(QuarantineCause::New), 6_000);
        assert_eq!(left(QuarantineCause::Forgotten), 6_000);
        assert_eq!(left(QuarantineCause::SetChanged), 1_000);
        assert_eq!(left(QuarantineCause::Recovering), 1_000);
    }
}
