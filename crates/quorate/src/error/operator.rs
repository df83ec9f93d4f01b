//! Errors of operator actions.

use std::time::Duration;

use quorate_core::{membership::PlanError, time_text::TimeText};
use thiserror::Error;

use super::{Answers, NodeReport};

/// Why nodes were not admitted.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use quorate::{Client, error::AdmitError};
///
/// let refused = Client::memory().admit().await;
/// assert_eq!(refused, Err(AdmitError::QuarantineIsOff));
/// # }
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum AdmitError {
    /// Quarantine is off: the nodes vote anyway.
    #[error(
        "quarantine is off for this client, the default with fewer than three nodes: \
         its nodes vote anyway, and nothing was changed"
    )]
    QuarantineIsOff,
    /// A node did not answer, or it cannot be a node.
    #[error("not every node can be admitted: {}", Answers(.nodes))]
    Unavailable {
        /// What each node answered.
        nodes: Box<[NodeReport]>,
    },
    /// Some of the nodes vote already, so locks may be held: the others wait.
    #[error("some nodes are in use, so the others must wait: {}", Answers(.nodes))]
    InUse {
        /// What each node answered.
        nodes: Box<[NodeReport]>,
    },
    /// A node was in use before: only new ones are admitted.
    #[error("{node} is not new, and must wait: {why}")]
    NotNew {
        /// Its address.
        node: String,
        /// Why it is not new.
        why: String,
    },
    /// A node has keys, which may be locks.
    #[error(
        "{node} is not empty (keys: {keys}): only empty nodes are admitted; flush it if it is new"
    )]
    NotEmpty {
        /// Its address.
        node: String,
        /// How many keys.
        keys: u64,
    },
    /// Some nodes were admitted. Then another one refused or stopped answering, because it changed
    /// after it was inspected. It is a member, and votes when its quarantine ends.
    #[error(
        "{admitted} of {} nodes were admitted, each of the others votes when its quarantine ends: \
         {}",
        .nodes.len(),
        Answers(.nodes)
    )]
    Incomplete {
        /// How many vote.
        admitted: usize,
        /// What each node answered.
        nodes: Box<[NodeReport]>,
    },
}

/// Why the set of nodes was not changed.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use quorate::{Client, error::ChangeError};
///
/// let refused = Client::memory().change_nodes().await;
/// assert_eq!(refused, Err(ChangeError::QuarantineIsOff));
/// # }
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ChangeError {
    /// Quarantine is off, so there is no agreed config.
    #[error(
        "quarantine is off for this client, the default with fewer than three nodes: nothing was \
         changed; turn it on for all clients of these nodes if they form a set with quarantine"
    )]
    QuarantineIsOff,
    /// The list differs from the agreed config by more than one step, or the step is not possible
    /// now.
    #[error("this change is not possible: {0}")]
    Impossible(String),
    /// The last change has not ended: too few nodes know it, or its new node has not joined.
    #[error("not yet: {0}")]
    NotYet(String),
    /// The last change was too recent.
    #[error("the set of nodes was changed a short while ago: wait for {}", TimeText(*.left))]
    TooSoon {
        /// For how long the nodes accept no other list.
        left: Duration,
    },
    /// Too few nodes know the change. Clients pass it on from these nodes to the others.
    #[error("too few nodes know the change: call change_nodes again: {}", Answers(.nodes))]
    NoQuorum {
        /// What each node answered.
        nodes: Box<[NodeReport]>,
    },
}

impl From<PlanError> for ChangeError {
    fn from(why: PlanError) -> Self {
        match why {
            PlanError::TooSoon { left_ms } => {
                Self::TooSoon { left: Duration::from_millis(left_ms) }
            }
            PlanError::Minority { .. } | PlanError::Joining => Self::NotYet(why.to_string()),
            _ => Self::Impossible(why.to_string()),
        }
    }
}
