//! What came of what an operator said about the nodes.

use std::{fmt, time::Duration};

use quorate_core::membership::{AgreedConfig, Unplanned};
use thiserror::Error;

use crate::error::{NodeReport, Reports};

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
/// assert_eq!(refused, Err(AdmitError::GuardIsOff));
/// # }
/// ```
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum AdmitError {
    /// The nodes are not guarded: they vote anyway.
    #[error(
        "the restart guard is off for this client, as it is by default with less than three nodes: \
         its nodes vote anyway, and nothing was changed"
    )]
    GuardIsOff,
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

/// A change of the set of nodes that was agreed upon.
///
/// # Examples
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.4"];
/// # let client = quorate::Client::builder().nodes(nodes).build()?;
/// let changed = client.change_nodes().await?;
/// if changed.is_open {
///     println!("call it once more when all clients have the new list");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct NodesChanged {
    /// Counts the changes of this set, from 1 when it was founded.
    pub change: u64,
    /// The addresses of the nodes.
    pub nodes: Vec<String>,
    /// For how long the new node does not vote yet, if there is one.
    pub joins_in: Option<Duration>,
    /// Clients with the list before are still let in.
    pub is_open: bool,
}

impl NodesChanged {
    pub(super) fn new(config: &AgreedConfig, joins_in: Option<Duration>) -> Self {
        let nodes = config.members.iter().map(|member| member.label.to_string()).collect();
        Self { change: config.change, nodes, joins_in, is_open: config.before.is_some() }
    }
}

impl fmt::Display for NodesChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "change {}: the nodes are {}", self.change, self.nodes.join(", "))?;
        if let Some(left) = self.joins_in {
            write!(f, "; the new one votes in {left:.1?}")?;
        }
        if self.is_open {
            f.write_str("; clients with the list before are let in until this is called again")?;
        }
        Ok(())
    }
}

impl From<Unplanned> for ChangeError {
    fn from(why: Unplanned) -> Self {
        match why {
            Unplanned::TooSoon { left_ms } => {
                Self::TooSoon { left: Duration::from_millis(left_ms) }
            }
            Unplanned::Minority { .. } | Unplanned::Joining => Self::NotYet(why.to_string()),
            _ => Self::Impossible(why.to_string()),
        }
    }
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
/// assert_eq!(refused, Err(ChangeError::GuardIsOff));
/// # }
/// ```
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ChangeError {
    /// The nodes are not guarded, and have agreed upon nothing.
    #[error(
        "the restart guard is off for this client, as it is by default with less than three nodes: \
         nothing was changed; turn it on, for all clients of these nodes, if they are a guarded set"
    )]
    GuardIsOff,
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
