//! What can go wrong, one enum per operation. Evidence is data; text is for people.

use std::{fmt, time::Duration};

pub use quorate_core::{lease::LostReason, name::NameError, terms::TermsError};
use thiserror::Error;

pub use crate::trouble::{NodeAnswer, NodeReport, Trouble};

/// Why a lock was not taken.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum LockError {
    /// Another owner kept the lock for the whole wait.
    #[error("held by another for the whole wait of {waited:?}{}", HeldBy(.holder))]
    Timeout {
        /// How long was waited.
        waited: Duration,
        /// Who has it, as far as the nodes could tell.
        holder: Option<Holder>,
    },
    /// Too few nodes answered to decide either way. This is not "held by another".
    #[error("no quorum: {}", Reports(.nodes))]
    NoQuorum {
        /// What each node said, in the order in which they were configured.
        nodes: Box<[NodeReport]>,
    },
    /// So many nodes denied the right to lock that no majority is left.
    #[error("denied: {}", Reports(.nodes))]
    Denied {
        /// What each node said, in the order in which they were configured.
        nodes: Box<[NodeReport]>,
    },
    /// The name cannot be a lock's.
    #[error(transparent)]
    InvalidName(#[from] NameError),
    /// The ttl cannot be a lock's.
    #[error(transparent)]
    InvalidTtl(#[from] TtlError),
    /// The client was shut down.
    #[error("the client was shut down")]
    ShutDown,
}

/// Why a ttl was refused.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum TtlError {
    /// It is longer than the client's `max_ttl`.
    #[error(
        "a ttl of {ttl:?} is longer than this client's max_ttl of {max:?}; raise max_ttl on every \
         client of these nodes"
    )]
    AboveMax {
        /// What was asked for.
        ttl: Duration,
        /// The client's limit.
        max: Duration,
    },
    /// It cannot be the ttl of any lock.
    #[error(transparent)]
    Terms(#[from] TermsError),
}

/// Who holds a lock, as one of its nodes told.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Holder {
    /// Program, host and process for a lock of Quorate; the value as it is, escaped, for another
    /// library's.
    pub who: String,
    /// How long the node will keep the key if nobody extends it; `None` if it never goes by itself.
    pub expires_in: Option<Duration>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.who)?;
        match self.expires_in {
            Some(left) => write!(f, " (expires in {left:?})"),
            None => f.write_str(" (never expires)"),
        }
    }
}

/// The lease has ended: another owner may hold the lock.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("the lock is lost: {reason}")]
#[non_exhaustive]
pub struct Lost {
    /// Why it ended.
    pub reason: LostReason,
}

impl Lost {
    pub(crate) const fn new(reason: LostReason) -> Self {
        Self { reason }
    }
}

/// Why a lease could not be adopted.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum AdoptError {
    /// The lease has ended.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// Too few nodes answered to say.
    #[error("no quorum: {}", Reports(.nodes))]
    NoQuorum {
        /// What each node said, in the order in which they were configured.
        nodes: Box<[NodeReport]>,
    },
    /// Its ttl is not allowed here.
    #[error(transparent)]
    InvalidTtl(#[from] TtlError),
    /// The client was shut down.
    #[error("the client was shut down")]
    ShutDown,
}

/// Why a lease was not extended.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ExtendError {
    /// The lease has ended, or ended before a majority could be reached.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The ttl was refused. The lease is as it was.
    #[error(transparent)]
    InvalidTtl(#[from] TtlError),
}

/// Why a lease was not confirmed.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum VerifyError {
    /// The lease has ended.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// Too few nodes answered to say. The lease goes on until its deadline.
    #[error("no quorum: {}", Reports(.nodes))]
    NoQuorum {
        /// What each node said, in the order in which they were configured.
        nodes: Box<[NodeReport]>,
    },
}

/// Why a release is not known to have worked.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lease had ended before: someone else may have worked inside your critical section.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// Too few nodes answered. The release goes on in the background, and the keys expire.
    #[error("no quorum: {}", Reports(.nodes))]
    NoQuorum {
        /// What each node said, in the order in which they were configured.
        nodes: Box<[NodeReport]>,
    },
}

/// Why [`Mutex::with`](crate::Mutex::with) did not return the value of the work.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum WithError {
    /// The lock was not taken, and the work did not start.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The lease ended before the work did.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// Why a client could not be built. Nothing was sent to any node.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ConfigError {
    /// There are no nodes.
    #[error("no nodes are configured; give at least one, such as redis://127.0.0.1:6379")]
    NoNodes,
    /// There are more nodes than a client can have.
    #[error("{nodes} nodes are configured, and a client has at most {max}")]
    TooManyNodes {
        /// How many were given.
        nodes: usize,
        /// The most that are accepted.
        max: usize,
    },
    /// A node's address cannot be understood.
    #[error("node {}: {reason} in {url:?}", .node + 1)]
    InvalidUrl {
        /// Which node, counted from 0.
        node: usize,
        /// The address, with its password blotted out.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Two addresses mean the same server, whose vote would count twice.
    #[error(
        "nodes {} and {} are the same server, {label}: its vote would count twice",
        .first + 1,
        .second + 1
    )]
    SameServer {
        /// The first of them, counted from 0.
        first: usize,
        /// The second of them, counted from 0.
        second: usize,
        /// The address.
        label: String,
    },
    /// The default ttl was refused.
    #[error(transparent)]
    InvalidTtl(#[from] TtlError),
    /// A setting is outside of its bounds.
    #[error("{setting} is {value:?}: {reason}")]
    InvalidSetting {
        /// The name of the setting.
        setting: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A certificate or key cannot be used.
    #[error("TLS: {reason}")]
    InvalidTls {
        /// What is wrong.
        reason: String,
    },
    /// The system refused a thread or randomness.
    #[error("the system refused {what}: {reason}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// What it said.
        reason: String,
    },
}

/// A blocking client would wait for an engine that runs on the runtime which it blocks.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error(
    "this client's engine runs on an async runtime, and a blocking call there would never end: \
     build it without danger_engine_on_this_runtime, or use it as an async client"
)]
#[non_exhaustive]
pub struct WouldDeadlock;

/// Why a client could not connect.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ConnectError {
    /// The settings are wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No majority of nodes could be attached in time.
    #[error("no quorum: {}", Reports(.nodes))]
    NoQuorum {
        /// What each node said, in the order in which they were configured.
        nodes: Box<[NodeReport]>,
    },
}

struct HeldBy<'a>(&'a Option<Holder>);

impl fmt::Display for HeldBy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |holder| write!(f, ": {holder}"))
    }
}

struct Reports<'a>(&'a [NodeReport]);

impl fmt::Display for Reports<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, report) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{report}")?;
        }
        Ok(())
    }
}
