//! Why an operator was refused.

use std::time::Duration;

use quorate_core::membership::PlanError;
use thiserror::Error;

use super::{NodeReport, Reports};

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
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum AdmitError {
    /// The nodes are not guarded: they vote anyway.
    #[error(
        "quarantine is off for this client, the default with fewer than three nodes: \
         its nodes vote anyway, and nothing was changed"
    )]
    QuarantineIsOff,
    /// Not all nodes could be asked, or one of them must not be a node.
    #[error("not every node can be admitted: {}", Reports(.nodes))]
    Unheard {
        /// What each node said.
        nodes: Box<[NodeReport]>,
    },
    /// Some of the nodes vote already, so locks may be held: the others wait.
    #[error("some nodes are in use, so that the others must wait: {}", Reports(.nodes))]
    InUse {
        /// What each node said.
        nodes: Box<[NodeReport]>,
    },
    /// A node was in use before: only new ones are admitted.
    #[error("{node} is not new, and must wait: {why}")]
    NotNew {
        /// Its address.
        node: String,
        /// Why it is doubted.
        why: String,
    },
    /// A node holds something, which may be locks.
    #[error("{node} holds {keys} keys: only empty nodes are admitted; flush it if it is new")]
    NotEmpty {
        /// Its address.
        node: String,
        /// How many keys.
        keys: u64,
    },
    /// Some nodes were admitted, and then another refused or fell silent: something came to it
    /// after all had been looked at. It has its place, and votes when its guard is over.
    #[error(
        "{admitted} of {} nodes were admitted, each of the others votes when its restart guard is \
         over: {}",
        .nodes.len(),
        Reports(.nodes)
    )]
    Incomplete {
        /// How many vote.
        admitted: usize,
        /// What each node said.
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
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ChangeError {
    /// The nodes are not guarded, and have agreed upon nothing.
    #[error(
        "quarantine is off for this client, the default with fewer than three nodes: nothing was \
         changed; turn it on for all clients of these nodes if they form a set with quarantine"
    )]
    QuarantineIsOff,
    /// The list is not one step away from what was agreed upon, or the step must not be made now.
    #[error("this change is not possible: {0}")]
    Impossible(String),
    /// The last change is not over yet: too few nodes have heard of it, or its new node has not
    /// joined.
    #[error("not yet: {0}")]
    NotYet(String),
    /// The last change was too short a while ago.
    #[error("the set of nodes was changed a short while ago: wait for {left:.1?}")]
    TooSoon {
        /// For how long the nodes do not go by another list.
        left: Duration,
    },
    /// Too few nodes have heard of it. Those that have will tell the others.
    #[error("too few nodes have heard of the change, call it again: {}", Reports(.nodes))]
    Unheard {
        /// What each node said.
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
