//! The restart guard: a node that may have forgotten locks does not vote until they would be over.
//!
//! Each node keeps a record of itself: which run of which server it is, what the clients have
//! agreed upon about the set of nodes, and since when it is doubted, if it is. Without a record
//! that fits, it gives no session, and so no vote. What a client makes of the records of all nodes
//! is the work of the [`Council`].

mod change;
mod council;

use std::{fmt, fmt::Write as _, sync::Arc};

use crate::hex::hex_number;

pub use self::{
    change::{Unplanned, plan},
    council::{Council, Disagreement, Opinion},
};

/// The version of what nodes keep and clients say.
pub const WIRE: u32 = 1;

/// How long a session lasts that is not heard of.
///
/// It must be well below the time by which a ticket may be ahead of it.
pub const SESSION_LIFE_MS: u64 = 5_000;

/// A random number that a node keeps until something about it is to be judged anew.
///
/// Whoever has judged a node speaks of it by its mark: if the node forgets, changes hands, or is
/// told of another set of nodes, the mark is another one, and the judgement is void.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Mark(u128);

/// The name of one place among the nodes. A server that takes the place of another has its name.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NodeId(u128);

hex_number!(Mark);
hex_number!(NodeId);

/// One node of a set: its name, and the address by which it was first known.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Member {
    /// Its name.
    pub id: NodeId,
    /// Its address, without secrets.
    pub label: Arc<str>,
}

/// The nodes of a set, in the order of their names.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Members(Arc<[Member]>);

impl Members {
    /// Puts them in order.
    #[must_use]
    pub fn new(members: impl IntoIterator<Item = Member>) -> Self {
        let mut members: Vec<Member> = members.into_iter().collect();
        members.sort();
        Self(members.into())
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.0.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the node is one of them.
    #[must_use]
    pub fn has(&self, id: NodeId) -> bool {
        self.iter().any(|member| member.id == id)
    }

    /// The one with this address.
    #[must_use]
    pub fn at(&self, label: &str) -> Option<&Member> {
        self.iter().find(|member| &*member.label == label)
    }

    /// Whether they are the same nodes, whatever their addresses.
    #[must_use]
    pub fn are(&self, others: &Self) -> bool {
        self.iter().map(|it| it.id).eq(others.iter().map(|it| it.id))
    }

    /// One line for each: its name, a blank, its address.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for Member { id, label } in self.iter() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{id} {label}");
        }
        text
    }

    /// Reads what `to_text` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let member = |line: &str| {
            let (id, label) = line.split_once(' ')?;
            Some(Member { id: NodeId::parse(id)?, label: label.into() })
        };
        let members = text.lines().map(member).collect::<Option<Vec<_>>>()?;
        (!members.is_empty()).then(|| Self::new(members))
    }
}

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, member) in self.iter().enumerate() {
            write!(f, "{}{}", if number == 0 { "" } else { ", " }, member.label)?;
        }
        Ok(())
    }
}

/// What the nodes of a set and their clients have agreed upon.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Pact {
    /// Counts the changes of the set, from 1 when it was founded.
    pub change: u64,
    /// Names the set: what its first nodes are called, taken together.
    pub origin: NodeId,
    /// The nodes.
    pub members: Members,
    /// The nodes before the last change, while clients with that list are still let in.
    pub before: Option<Members>,
    /// The one that joined with the last change, if one did.
    pub newcomer: Option<NodeId>,
    /// No lock has a longer ttl.
    pub max_ttl_ms: u64,
    /// For how long a doubted node does not vote.
    pub guard_ms: u64,
}

impl Pact {
    /// The first one of a set.
    #[must_use]
    pub fn founded_by(members: Members, max_ttl_ms: u64, guard_ms: u64) -> Option<Self> {
        if members.is_empty() {
            return None;
        }
        // All of them have a part in it: two lists that were founded at the same time are two sets,
        // also if they have nodes in common.
        let origin = NodeId(members.iter().fold(0, |name, member| name ^ member.id.0));
        let (before, newcomer) = (None, None);
        Some(Self { change: 1, origin, members, before, newcomer, max_ttl_ms, guard_ms })
    }

    /// The list that a client with so many nodes goes by, if there is one.
    #[must_use]
    pub fn view(&self, nodes: usize) -> Option<&Members> {
        let lists = [Some(&self.members), self.before.as_ref()];
        lists.into_iter().flatten().find(|members| members.len() == nodes)
    }
}

/// For how long a node that may have forgotten locks does not vote: the longest of them are over
/// by then, and so are the sessions of those who have not heard of a change of the set.
#[must_use]
pub const fn guard_ms(max_ttl_ms: u64) -> u64 {
    let drift_ms = (max_ttl_ms / 50).saturating_add(2_000);
    max_ttl_ms.saturating_add(drift_ms).saturating_add(SESSION_LIFE_MS)
}

/// How far a ticket may lie from a node's own time, so that the fences of a node that has forgotten
/// them go on above those from before: the guard is longer than twice this.
#[must_use]
pub fn slack_us(guard_ms: Option<u64>) -> u64 {
    let slack_us = guard_ms.map_or(u64::MAX, |guard_ms| (guard_ms / 4).saturating_mul(1_000));
    slack_us.min(crate::fence::SLACK_US)
}

/// What a client says when it meets a node.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Greeting {
    /// The client's wall clock, in milliseconds since the epoch.
    pub wall_ms: u64,
    /// What it knows of the node's clock, if it has met it before.
    pub known: Option<Known>,
    /// The node's mark, if it is to have a new one.
    pub mark: Mark,
    /// The node's name, if it has none of its own.
    pub id: NodeId,
    /// How long a session lasts: a node that heard of somebody since was in use all the time.
    pub life_ms: u64,
    /// How long the guard is, where the node does not know better.
    pub guard_ms: u64,
    /// Whether it only looks: the node is to stay as it is. What it then tells of its mark and its
    /// name is kept nowhere, if they are those of the greeting.
    pub is_looking: bool,
    /// Whether the client has seen just now that the server writes everything to disk at once, and
    /// wants that to count.
    pub is_durable: bool,
}

/// What a client knows of a node's clock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Known {
    /// What it showed when the client was last answered.
    pub seen_ms: u64,
    /// The most that it can show now, by the client's own clock.
    pub expected_ms: u64,
}

/// What a node tells about itself.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Met {
    /// Its time, in microseconds.
    pub time_us: u64,
    /// Its mark.
    pub mark: Mark,
    /// Its name.
    pub id: NodeId,
    /// What it knows of the set of nodes.
    pub pact: Option<Pact>,
    /// Whether it was told that since it is doubted.
    pub is_enrolled: bool,
    /// Why it does not vote, and for how many milliseconds more.
    pub doubt: Option<(Doubt, u64)>,
    /// Whether it writes everything to disk at once, and has for as long as it votes.
    pub is_durable: bool,
    /// How many keys it has besides the record.
    pub keys: u64,
    /// For how many milliseconds it does not go by another change of the set; zero if it would.
    pub changes_in_ms: u64,
    /// For how many milliseconds it is not to be asked for locks, though it gives sessions: its
    /// guard has just ended, and the holders of locks give it back their keys first. Otherwise
    /// waiters would take them, and the holders could not survive the next restart.
    pub recovers_in_ms: u64,
}

/// Why a node may have forgotten locks.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Doubt {
    /// It has no record: it is new, or was flushed, or is another server.
    Unknown,
    /// The record is another server's, or one of an earlier run.
    OtherRun,
    /// The record is older than what it told before.
    RolledBack,
    /// Its clock has gone forward by itself, and keys with it.
    ClockStepped,
}

impl Doubt {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Unknown, Self::OtherRun, Self::RolledBack, Self::ClockStepped];

    /// As it is written in the record.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::OtherRun => "other-run",
            Self::RolledBack => "rolled-back",
            Self::ClockStepped => "clock-stepped",
        }
    }

    /// Reads what `code` says.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|doubt| doubt.code() == code)
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "it knows nothing of earlier locks",
            Self::OtherRun => "it was restarted, or has another server's data",
            Self::RolledBack => "its data is older than what it has told before",
            Self::ClockStepped => "its clock was set forward",
        })
    }
}

/// Gives a doubted node its place among the others. Its guard begins then: before, it may have been
/// no node of this set at all.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Enrolment {
    /// The node's mark, as it was met.
    pub mark: Mark,
    /// Its name.
    pub id: NodeId,
    /// The set.
    pub pact: Pact,
    /// The client's wall clock.
    pub wall_ms: u64,
}

/// A node's clock may be ahead by so much of what a client expects. A longer step ends all
/// sessions, so that nobody votes before it was looked at.
pub const STEP_TOLERANCE_MS: u64 = 5_000;

/// A clock that shows so much less than before was set back.
pub const BACK_TOLERANCE_MS: u64 = 1_000;

/// The wall clocks of clients may differ by so much.
pub const WALL_TOLERANCE_MS: u64 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_lists_are_read_as_they_are_written() {
        let id = |bits| NodeId::from_random(bits);
        assert_eq!(NodeId::parse(&id(7).to_string()), Some(id(7)));
        for wrong in ["", "7", &"x".repeat(32), &"A".repeat(32), &"0".repeat(33), &"+".repeat(32)] {
            assert_eq!(NodeId::parse(wrong), None, "{wrong}");
        }
        let member = |bits, label: &str| Member { id: id(bits), label: label.into() };
        let members = Members::new([member(9, "b:1"), member(3, "/a path")]);
        assert_eq!(Members::parse(&members.to_text()), Some(members.clone()));
        assert_eq!(members.to_string(), "/a path, b:1");
        assert_eq!(Members::parse(""), None);
        assert_eq!(Members::parse("no"), None);
        Doubt::ALL.iter().for_each(|it| assert_eq!(Doubt::parse(it.code()), Some(*it)));
    }

    #[test]
    fn sets_that_differ_in_one_node_have_different_names() {
        let member = |bits| Member { id: NodeId::from_random(bits), label: "x".into() };
        let origin = |ids: &[u128]| {
            let members = Members::new(ids.iter().copied().map(member));
            Pact::founded_by(members, 1, 1).map(|pact| pact.origin)
        };
        assert_eq!(origin(&[1, 2, 4]), origin(&[4, 1, 2]));
        assert_ne!(origin(&[1, 2, 4]), origin(&[1, 2, 5]));
        assert_eq!(origin(&[]), None);
    }

    #[test]
    fn the_guard_outlasts_every_lock_and_twice_the_slack() {
        for max_ttl_ms in [1, 100, 5_000, 60_000, 3_600_000] {
            let guard = guard_ms(max_ttl_ms);
            assert!(guard > max_ttl_ms + max_ttl_ms / 100 + SESSION_LIFE_MS);
            assert!(guard * 1_000 >= 4 * slack_us(Some(guard)));
        }
        assert_eq!(guard_ms(60_000), 68_200);
        assert_eq!(guard_ms(u64::MAX), u64::MAX);
        assert_eq!(slack_us(None), 10_000_000);
    }
}
