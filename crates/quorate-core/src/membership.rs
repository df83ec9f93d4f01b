//! Membership: which nodes are a set, and which of them may vote.
//!
//! A node that may have forgotten locks is in quarantine until they would have expired. Each node
//! keeps a record of itself: which run of which server it is, what the clients have agreed upon
//! about the set of nodes, and why it is in quarantine, if it is. Without a record that fits, it
//! gives no session, and so no vote.
//!
//! - [`Command`] and [`Reply`]: the language of membership, one variant of the nodes' language.
//! - [`Node`]: what a node does with it; each [`Store`](crate::store::Store) has one.
//! - [`View`]: what a client makes of what all nodes told. A node either votes, or it does not, and
//!   the [`Opinion`] says why, for how long, and what to tell the node.
//! - [`AgreedConfig`], and [`plan()`], by which an operator changes it.

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

/// The version of what nodes keep and clients say.
pub const WIRE: u32 = 1;

/// How long a session lasts that is not heard of.
///
/// It must be well below the time by which a ticket may be ahead of it.
pub const SESSION_LIFE_MS: u64 = 5_000;

/// A random number that a node keeps until something about it must be judged anew.
///
/// A client names a node that it has judged by its mark: if the node forgets, changes hands, or
/// hears of another config, it has another mark, and the judgement is void.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Mark(u128);

/// The name of one place among the nodes. A server that takes the place of another has its name.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NodeId(u128);

hex_number!(Mark);
hex_number!(NodeId);

/// How long a node that may have forgotten locks does not vote: the longest of them have expired by
/// then, and so have the sessions of clients that have not heard of a change of the set.
#[must_use]
pub const fn quarantine_ms(max_ttl_ms: u64) -> u64 {
    let drift_ms = (max_ttl_ms / 50).saturating_add(2_000);
    max_ttl_ms.saturating_add(drift_ms).saturating_add(SESSION_LIFE_MS)
}

/// How far a ticket may lie from a node's own time, so that the fences of a node that has forgotten
/// them go on above those from before: the quarantine is longer than twice this.
#[must_use]
pub fn slack_us(quarantine_ms: Option<u64>) -> u64 {
    let slack_us = quarantine_ms.map_or(u64::MAX, |it| (it / 4).saturating_mul(1_000));
    slack_us.min(crate::fence::SLACK_US)
}

/// A node's clock may be ahead by so much of what a client expects. A longer step ends all
/// sessions, so that the node does not vote before the next handshake.
pub const STEP_TOLERANCE_MS: u64 = 5_000;

/// A clock that shows so much less than before was set back.
pub const BACK_TOLERANCE_MS: u64 = 1_000;

/// The wall clocks of clients may differ by so much.
pub const WALL_TOLERANCE_MS: u64 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_reasons_are_read_as_they_are_written() {
        let id = NodeId::from_random(7);
        assert_eq!(NodeId::parse(&id.to_string()), Some(id));
        for wrong in ["", "7", &"x".repeat(32), &"A".repeat(32), &"0".repeat(33), &"+".repeat(32)] {
            assert_eq!(NodeId::parse(wrong), None, "{wrong}");
        }
        Reason::ALL.iter().for_each(|it| assert_eq!(Reason::parse(it.code()), Some(*it)));
    }

    #[test]
    fn the_quarantine_outlasts_every_lock_and_twice_the_slack() {
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
