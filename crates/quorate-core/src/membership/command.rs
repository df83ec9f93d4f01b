//! The membership commands, and what a node replies.

use std::fmt;

use super::{AgreedConfig, Mark, NodeId};

/// What is said to a node about itself and about the set of nodes.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Command {
    /// Say what the node is, and begin its quarantine if it may have forgotten locks.
    Handshake(Handshake),
    /// Give a quarantined node its place in the set.
    Enrol(Enrolment),
    /// Go by another config, if the node still has this mark.
    Change {
        /// The mark that it told.
        mark: Mark,
        /// The new config.
        config: AgreedConfig,
        /// Its new mark.
        fresh: Mark,
    },
    /// Vote at once, if the node is new, empty, and still has this mark.
    Admit {
        /// The mark that it told.
        mark: Mark,
        /// Its new mark.
        fresh: Mark,
    },
}

impl Command {
    /// Whether it leaves the node as it is.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        matches!(self, Self::Handshake(Handshake { is_read_only: true, .. }))
    }
}

/// What a node replies. If it does not have the mark any more it replies
/// [`Stale`](crate::command::Reply::Stale) instead.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Reply {
    /// What the node is.
    Info(Box<NodeInfo>),
    /// The node's record has another version, which this client cannot read.
    OtherVersion(u32),
    /// The node has its place.
    Enrolled,
    /// The node goes by the new config.
    Changed,
    /// The node heard of the last change a short while ago.
    TooSoon {
        /// For how many milliseconds it goes by no other config.
        left_ms: u64,
    },
    /// The node votes.
    Admitted,
    /// The node is not empty.
    Holds {
        /// How many keys it has.
        keys: u64,
    },
}

/// What a client tells a node before it asks for a session.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Handshake {
    /// The client's wall clock, in milliseconds since the epoch.
    pub wall_ms: u64,
    /// What the client knows of the node's clock, if the node has answered it before.
    pub known: Option<Known>,
    /// The node's mark, if it needs a new one.
    pub mark: Mark,
    /// The node's name, if it has none of its own.
    pub id: NodeId,
    /// How long a session lasts: a node that heard of a client since was in use all the time.
    pub lifetime_ms: u64,
    /// How long the quarantine lasts, unless the node knows better.
    pub quarantine_ms: u64,
    /// The node stays as it is. If the mark and the name in its reply are the ones offered here,
    /// the node keeps neither.
    pub is_read_only: bool,
    /// The client has just seen that the server writes everything to disk at once, and wants that
    /// to count.
    pub is_durable: bool,
}

/// What a client knows of a node's clock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Known {
    /// What it showed when the node last answered.
    pub seen_ms: u64,
    /// The most that it can show now, by the client's own clock.
    pub expected_ms: u64,
}

/// What a node tells about itself.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct NodeInfo {
    /// Its time, in microseconds.
    pub time_us: u64,
    /// Its mark.
    pub mark: Mark,
    /// Its name.
    pub id: NodeId,
    /// What it knows of the set of nodes.
    pub config: Option<AgreedConfig>,
    /// It has had its place in the set for as long as it has been quarantined.
    pub is_enrolled: bool,
    /// Why it does not vote, if so.
    pub quarantine: Option<Quarantine>,
    /// It writes everything to disk at once, and has for as long as it votes.
    pub is_durable: bool,
    /// How many keys it has besides the record.
    pub keys: u64,
    /// For how many milliseconds it goes by no other config; zero if it would.
    pub changes_in_ms: u64,
    /// For how many milliseconds clients must not ask it for locks, although it gives sessions: its
    /// quarantine has just ended, and holders restore their keys first. Otherwise waiters would
    /// take them, and the holders could not survive the next restart.
    pub recovers_in_ms: u64,
}

impl NodeInfo {
    /// Whether the node is in quarantine and has its place, so that less and less time is left.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        self.quarantine.is_some() && self.is_enrolled
    }

    /// Why it is in quarantine, if it is.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.quarantine.map(|it| it.reason)
    }

    /// Whether its config counts: the node votes, or has its place again.
    #[must_use]
    pub const fn is_placed(&self) -> bool {
        self.quarantine.is_none() || self.is_enrolled
    }
}

/// A node does not vote.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Quarantine {
    /// Why.
    pub reason: Reason,
    /// For how many milliseconds more.
    pub left_ms: u64,
}

/// Why a node may have forgotten locks.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Reason {
    /// It has no record: it is new, or was flushed, or is another server.
    Unknown,
    /// The record is another server's, or one of an earlier run.
    OtherRun,
    /// The record is older than what the node told before.
    RolledBack,
    /// Its clock has gone forward by itself, and keys with it.
    ClockStepped,
}

impl Reason {
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

    /// Reads what `code` writes.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "it knows nothing of earlier locks",
            Self::OtherRun => "it was restarted, or has another server's data",
            Self::RolledBack => "its data is older than what it has told before",
            Self::ClockStepped => "its clock was set forward",
        })
    }
}

/// Gives a quarantined node its place in the set. Its quarantine begins then: before, it may not
/// have been a node of this set at all.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Enrolment {
    /// The mark that the node told.
    pub mark: Mark,
    /// Its name.
    pub id: NodeId,
    /// The set.
    pub config: AgreedConfig,
    /// The client's wall clock.
    pub wall_ms: u64,
}
