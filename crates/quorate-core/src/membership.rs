//! Membership: which nodes form a set, and which of them may vote.
//!
//! A node that may have forgotten locks is in quarantine until these locks have expired. Each node
//! keeps a record about itself: which run of which server it is, the agreed config of its set, and
//! why it is in quarantine, if it is. Without a valid record it gives no session, and so no vote.
//!
//! - [`Command`] and [`Reply`]: the membership commands, a part of the language of the nodes.
//! - [`Node`]: the membership of one node; each [`Store`](crate::store::Store) has one.
//! - [`View`]: the membership view of a client. It derives an [`Opinion`] of each node from the
//!   reports of all nodes: the node votes, or why it does not, and what the client must send it.
//! - [`AgreedConfig`], and [`plan()`], which computes the next one for an operator.

mod command;
mod config;
mod disagreement;
mod node;
mod plan;
mod view;

pub use self::{
    command::{Command, Enrolment, Handshake, Known, NodeInfo, Quarantine, Reason, Reply},
    config::{AgreedConfig, Member, Members},
    disagreement::Disagreement,
    node::Node,
    plan::{PlanError, plan},
    view::{Opinion, View},
};
use crate::hex::hex_number;

/// The version of the record of a node and of the membership commands.
pub const WIRE: u32 = 1;

/// How long a session lasts after the last attach or ping.
///
/// It must be well below the slack by which a ticket may differ from the node's time.
pub const SESSION_LIFE_MS: u64 = 5_000;

/// A random number that a node replaces when clients must check the node again.
///
/// A client names the mark when it begins or continues a session. If the node has forgotten
/// something, has the data of another node, or has received another config, then its mark is
/// another one, and it rejects the session.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Mark(u128);

/// The name of a node, which belongs to its place in the set. A server that takes the place of
/// another one gets its name.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NodeId(u128);

hex_number!(Mark);
hex_number!(NodeId);

/// How long a node that may have forgotten locks does not vote. After this time the longest locks
/// have expired, and so have the sessions of clients that do not know the last change of the set.
#[must_use]
pub const fn quarantine_ms(max_ttl_ms: u64) -> u64 {
    let drift_ms = (max_ttl_ms / 50).saturating_add(2_000);
    max_ttl_ms.saturating_add(drift_ms).saturating_add(SESSION_LIFE_MS)
}

/// How far a ticket may be from a node's own time. The quarantine is longer than twice this, so a
/// node that has forgotten its fences continues with larger ones.
#[must_use]
pub fn slack_us(quarantine_ms: Option<u64>) -> u64 {
    let slack_us = quarantine_ms.map_or(u64::MAX, |it| (it / 4).saturating_mul(1_000));
    slack_us.min(crate::fence::SLACK_US)
}

/// How far a node's clock may be ahead of what a client expects. A longer step ends all sessions,
/// so the node does not vote before the next handshake.
pub const STEP_TOLERANCE_MS: u64 = 5_000;

/// A clock that shows this much less than before was set back.
pub const BACK_TOLERANCE_MS: u64 = 1_000;

/// By how much the wall clocks of clients may differ.
pub const WALL_TOLERANCE_MS: u64 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_numbers_and_reasons_are_parsed_back() {
        let id = NodeId::from_random(7);
        assert_eq!(NodeId::parse(&id.to_string()), Some(id));
        for wrong in ["", "7", &"x".repeat(32), &"A".repeat(32), &"0".repeat(33), &"+".repeat(32)] {
            assert_eq!(NodeId::parse(wrong), None, "{wrong}");
        }
        Reason::ALL.iter().for_each(|it| assert_eq!(Reason::parse(it.code()), Some(*it)));
    }

    #[test]
    fn quarantine_is_longer_than_every_lock_and_twice_the_slack() {
        for max_ttl_ms in [1, 100, 5_000, 60_000, 3_600_000] {
            let quarantine = quarantine_ms(max_ttl_ms);
            assert!(quarantine > max_ttl_ms + max_ttl_ms / 100 + SESSION_LIFE_MS);
            assert!(quarantine * 1_000 >= 4 * slack_us(Some(quarantine)));
        }
        assert_eq!(quarantine_ms(60_000), 68_200);
        assert_eq!(quarantine_ms(u64::MAX), u64::MAX);
        assert_eq!(slack_us(None), 10_000_000);
    }
}
