//! The membership commands and the replies of a node.

use std::fmt;

use super::{AgreedConfig, Mark, NodeId};

/// A command about a node itself and the set of nodes.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Command {
    /// Report the node's record, and begin its quarantine if it may have forgotten locks.
    Handshake(Handshake),
    /// Give a quarantined node its place in the set.
    Enrol(Enrolment),
    /// Store another config, if the node still has this mark.
    Change {
        /// The mark that the node reported.
        mark: Mark,
        /// The new config.
        config: AgreedConfig,
        /// Its new mark.
        fresh: Mark,
    },
    /// Vote immediately, if the node is new and empty and still has this mark.
    Admit {
        /// The mark that the node reported.
        mark: Mark,
        /// Its new mark.
        fresh: Mark,
    },
}

impl Command {
    /// Whether it changes nothing on the node.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        matches!(self, Self::Handshake(Handshake { is_read_only: true, .. }))
    }
}

/// The reply of a node. If it has another mark now, it replies
/// [`Stale`](crate::command::Reply::Stale) instead.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Reply {
    /// The node's report about itself.
    Info(Box<NodeInfo>),
    /// The node's record has a version that this client cannot read.
    OtherVersion(u32),
    /// The node has its place.
    Enrolled,
    /// The node has the new config.
    Changed,
    /// The node has received the last change too recently.
    TooSoon {
        /// For how many milliseconds it accepts no other config.
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

/// What a client sends to a node before it attaches.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Handshake {
    /// The client's wall clock, in milliseconds since the epoch.
    pub wall_ms: u64,
    /// What the client knows about the node's clock, if the node has answered it before.
    pub known: Option<Known>,
    /// A mark for the node, if it needs a new one.
    pub mark: Mark,
    /// A name for the node, if it has none of its own.
    pub id: NodeId,
    /// How long a session lasts. A node that was pinged within this time was in use throughout.
    pub lifetime_ms: u64,
    /// How long the quarantine lasts, unless the node has a config.
    pub quarantine_ms: u64,
    /// The node stores nothing. If its reply contains the mark or the name offered here, the node
    /// has not stored them.
    pub is_read_only: bool,
    /// The client has just seen that the server writes everything to disk before it answers, and
    /// its settings permit durable nodes.
    pub is_durable: bool,
}

/// What a client knows about a node's clock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Known {
    /// The time that it showed when the node last answered.
    pub seen_ms: u64,
    /// The latest time that it should show now, by the client's own clock.
    pub expected_ms: u64,
}

/// The report of a node about itself.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct NodeInfo {
    /// Its time, in microseconds.
    pub time_us: u64,
    /// Its mark.
    pub mark: Mark,
    /// Its name.
    pub id: NodeId,
    /// The agreed config that it knows.
    pub config: Option<AgreedConfig>,
    /// Whether it has its place in the set. A node in quarantine may have none yet.
    pub is_enrolled: bool,
    /// The quarantine, if it is in one.
    pub quarantine: Option<Quarantine>,
    /// Whether it has written everything to disk before it answered since it votes.
    pub is_durable: bool,
    /// The number of keys besides the record.
    pub keys: u64,
    /// For how many milliseconds it accepts no other config; zero if it accepts one now.
    pub changes_in_ms: u64,
    /// For how many milliseconds clients must not request locks from it, although it gives
    /// sessions: its quarantine has just ended, and holders store their keys again first. Otherwise
    /// waiters would acquire them, and the holders would lose their locks at the next restart.
    pub recovers_in_ms: u64,
}

impl NodeInfo {
    /// Whether the node is in quarantine and has its place, so that the quarantine time has begun.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        self.quarantine.is_some() && self.is_enrolled
    }

    /// Why it is in quarantine, if it is.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.quarantine.map(|it| it.reason)
    }

    /// Whether its config counts: the node votes or has its place.
    #[must_use]
    pub const fn is_placed(&self) -> bool {
        self.quarantine.is_none() || self.is_enrolled
    }
}

/// The quarantine of a node, which does not vote.
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
    /// The record is of another server, of an earlier run, or of another replication history.
    OtherRun,
    /// The record is older than an earlier report of the node.
    RolledBack,
    /// Its clock was set forward, so keys have expired too early.
    ClockStepped,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 4] =
        [Self::Unknown, Self::OtherRun, Self::RolledBack, Self::ClockStepped];

    /// The reason as it is stored in the record.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::OtherRun => "other-run",
            Self::RolledBack => "rolled-back",
            Self::ClockStepped => "clock-stepped",
        }
    }

    /// Parses the result of `code`.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "it knows nothing of earlier locks",
            Self::OtherRun => {
                "it was restarted, its replication changed, or it has another server's data"
            }
            Self::RolledBack => "its data is older than what it has reported before",
            Self::ClockStepped => "its clock was set forward",
        })
    }
}

/// Gives a node in quarantine its place in the set. Its quarantine time begins then: before, it may
/// not have been a node of this set.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Enrolment {
    /// The mark that the node reported.
    pub mark: Mark,
    /// Its name.
    pub id: NodeId,
    /// The set.
    pub config: AgreedConfig,
    /// The client's wall clock.
    pub wall_ms: u64,
}
