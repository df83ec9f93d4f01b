//! What an operator says about the nodes themselves: that new ones may vote at once, and which
//! ones there are.

use std::{sync::Arc, time::Duration};

use quorate_core::guard::Met;
use thiserror::Error;

use crate::{
    Client,
    error::{NodeAnswer, NodeReport, Reports, Trouble},
    node::redis::Chamber,
};

impl Client {
    /// Lets the nodes of this client vote at once, if all of them are new and empty.
    ///
    /// The restart guard keeps nodes of which nothing is known from voting for as long as a lock
    /// could last that they have forgotten: somewhat longer than
    /// [`max_ttl`](crate::ClientBuilder::max_ttl). Whoever sets up new servers knows that there are
    /// no such locks, and says so by this call. It does nothing to nodes that all vote already.
    ///
    /// Never call it as a part of every start: servers that have all lost their data look just like
    /// new ones, while the holders of their locks may still be at work.
    ///
    /// # Errors
    ///
    /// [`AdmitError`]; no node is admitted then, unless one was found to hold something at the last
    /// moment.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use quorate::Client;
    ///
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let client = Client::builder().nodes(nodes).build()?; // `connect` would wait for votes
    /// client.admit().await?;
    /// # Ok(()) }
    /// ```
    pub async fn admit(&self) -> Result<(), AdmitError> {
        let chamber = self.inner.chamber.as_deref().ok_or(AdmitError::GuardIsOff)?;
        chamber.forget();
        let answered = self.watch_nodes(PATIENCE, |reports| {
            let met = met(chamber, reports);
            let is_ready = |it: &Known| it.votes || it.is_enrolled() || it.is_lasting;
            met.iter().all(is_ready).then_some(met)
        });
        let known = answered.await.ok_or_else(|| AdmitError::Unheard { nodes: self.nodes() })?;
        if known.iter().all(|it| it.votes) {
            return Ok(());
        }
        let is_in_use = known.iter().any(|it| it.votes);
        if known.iter().any(|it| it.is_lasting && !it.votes) {
            return Err(AdmitError::Unheard { nodes: self.nodes() });
        }
        if is_in_use {
            return Err(AdmitError::InUse { nodes: self.nodes() });
        }
        let holding = known.iter().find_map(|it| {
            let keys = it.met.as_ref().map_or(0, |met| met.keys);
            (keys > 0).then(|| AdmitError::NotEmpty { node: it.label.to_string(), keys })
        });
        if let Some(error) = holding {
            return Err(error);
        }
        let _admitting = Admitting::start(chamber);
        let admitted = self.watch_nodes(PATIENCE, |reports| {
            let is_refused =
                |it: &NodeReport| matches!(it.answer, NodeAnswer::Trouble(Trouble::NotEmpty(_)));
            if reports.iter().any(is_refused) {
                return Some(false);
            }
            reports.iter().all(|it| it.answer == NodeAnswer::Attached).then_some(true)
        });
        match admitted.await {
            Some(true) => Ok(()),
            Some(false) | None => Err(AdmitError::Unheard { nodes: self.nodes() }),
        }
    }
}

/// What is known of one node.
struct Known {
    label: Arc<str>,
    met: Option<Met>,
    votes: bool,
    is_lasting: bool,
}

impl Known {
    fn is_enrolled(&self) -> bool {
        self.met.as_ref().is_some_and(|met| met.is_enrolled && met.doubt.is_some())
    }
}

fn met(chamber: &Chamber, reports: &[NodeReport]) -> Vec<Known> {
    let known = |((label, met), report): ((Arc<str>, Option<Met>), &NodeReport)| Known {
        label,
        met,
        votes: report.answer == NodeAnswer::Attached,
        is_lasting: matches!(&report.answer, NodeAnswer::Trouble(it) if it.is_lasting()),
    };
    chamber.met().into_iter().zip(reports).map(known).collect()
}

/// New nodes are let in while this lives, however the caller goes.
struct Admitting<'a>(&'a Chamber);

impl<'a> Admitting<'a> {
    fn start(chamber: &'a Chamber) -> Self {
        chamber.set_admitting(true);
        Self(chamber)
    }
}

impl Drop for Admitting<'_> {
    fn drop(&mut self) {
        self.0.set_admitting(false);
    }
}

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
    #[error("the restart guard is off for this client: its nodes vote without being admitted")]
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
    /// A node holds something, which may be locks.
    #[error("{node} holds {keys} keys: only empty nodes are admitted; flush it if it is new")]
    NotEmpty {
        /// Its address.
        node: String,
        /// How many keys.
        keys: u64,
    },
}

/// How long nodes are waited for.
const PATIENCE: Duration = Duration::from_secs(5);
