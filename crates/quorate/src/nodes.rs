//! What an operator says about the nodes themselves: that new ones may vote at once, and which
//! ones there are.

use std::{fmt, sync::Arc, time::Duration};

use quorate_core::{
    guard::{Doubt, Met, Pact, Unplanned},
    quorum::majority,
};
use thiserror::Error;

use crate::{
    Client,
    error::{NodeAnswer, NodeReport, Reports, Trouble},
    node::redis::{CHANGED_LATELY, Chamber},
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
            let is_ready = |it: &Known| it.votes || it.is_enrolled();
            let is_in_vain = met.iter().any(|it| it.is_lasting);
            (is_in_vain || met.iter().all(is_ready)).then_some(met)
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
        let doubted = known.iter().find_map(|it| {
            let (why, _) = it.met.as_ref()?.doubt.filter(|(why, _)| *why != Doubt::Unknown)?;
            Some(AdmitError::NotNew { node: it.label.to_string(), why: why.to_string() })
        });
        if let Some(error) = doubted {
            return Err(error);
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

    /// Vouches for the list of nodes, so that one which has forgotten it has its place again
    /// although too few others are there to confirm it.
    ///
    /// A node that lost its record is given its place by the others: as many of them must be there
    /// as could have changed the set without the rest. With three nodes those are both others, so
    /// that a node that comes back empty while another one is dead stays out. If you know that no
    /// change of the set was made which the nodes that answer have not heard of, say so by this
    /// call; the restart guard goes on as always. The better way out, where there is time, is to
    /// bring the dead node back.
    ///
    /// # Errors
    ///
    /// [`AdmitError`], if less than a majority answers, or a node must not be one.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::Client;
    /// // 10.0.0.1 is dead, 10.0.0.3 came back without its data, and no change is missing.
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let client = Client::builder().nodes(nodes).build()?;
    /// client.vouch_for_nodes().await?;
    /// # Ok(()) }
    /// ```
    pub async fn vouch_for_nodes(&self) -> Result<(), AdmitError> {
        let chamber = self.inner.chamber.as_deref().ok_or(AdmitError::GuardIsOff)?;
        // One that votes for all we know may have forgotten just now.
        chamber.forget_all();
        let _vouching = Vouching::start(chamber);
        let has_place = |it: &Known| it.met.is_some() && (it.votes || it.is_enrolled());
        let is_refused = |it: &Known| it.met.is_none() && it.is_lasting;
        let heard = self.watch_nodes(PATIENCE, |reports| {
            let known = met(chamber, reports);
            known.iter().all(|it| has_place(it) || is_refused(it)).then_some(())
        });
        // Whoever is silent by then is taken for dead: what it may have forgotten, nobody can help.
        let _ = heard.await;
        let placed = self.watch_nodes(PATIENCE, |reports| {
            let known = met(chamber, reports);
            let placed = known.iter().filter(|it| has_place(it)).count();
            let is_waited_for = |it: &Known| it.met.is_some() && !has_place(it);
            let is_done = placed >= majority(known.len()) && !known.iter().any(is_waited_for);
            is_done.then_some(())
        });
        placed.await.ok_or_else(|| AdmitError::Unheard { nodes: self.nodes() })
    }

    /// Makes the nodes of this client the set that all clients go by: one more, one less, or one
    /// exchanged for a new one, compared with what the nodes have agreed upon.
    ///
    /// Build a client with the addresses that there shall be, call this, and give the new addresses
    /// to all clients. It is safe at every moment in between, also if it is broken off and called
    /// again:
    ///
    /// - *One exchanged*, as when a node has died: clients with the old addresses go on with the
    ///   nodes that stay. The new one votes when the restart guard is over.
    /// - *One more or one less*: clients with either list are let in until this is called once more
    ///   with the same list, which is to be done when all clients have it.
    ///
    /// Between two changes the time of one restart guard must pass. The new node must be empty and
    /// of no set, and a majority of the old ones must answer.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; what was begun goes on when this is called again with the same list.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use quorate::Client;
    ///
    /// // 10.0.0.3 has died, 10.0.0.4 takes its place.
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.4"];
    /// let client = Client::builder().nodes(nodes).build()?;
    /// println!("{}", client.change_nodes().await?);
    /// # Ok(()) }
    /// ```
    pub async fn change_nodes(&self) -> Result<NodesChanged, ChangeError> {
        let chamber = self.inner.chamber.as_deref().ok_or(ChangeError::GuardIsOff)?;
        chamber.forget();
        let heard = self.watch_nodes(PATIENCE, |_| {
            let met = chamber.met();
            met.iter().all(|(_, met)| met.is_some()).then_some(())
        });
        // Whoever is silent by then may be one of those that are not needed.
        let _ = heard.await;
        // With other terms no node would be told anything, whatever the list.
        let differs = chamber.check_terms();
        differs.map_err(|differs| ChangeError::Impossible(differs.to_string()))?;
        let mut proposal = Proposal { chamber, is_agreed: false };
        let mut last = None;
        let planned = self.watch_nodes(PATIENCE, |_| match chamber.plan(self.inner.engine.now()) {
            Err(Unplanned::Minority { going, needed, pact }) => {
                // Some have heard of a change, and the others shall hear of it, too.
                chamber.propose(&pact);
                last = Some(Unplanned::Minority { going, needed, pact });
                None
            }
            planned => Some(planned),
        });
        let impossible = |why: Unplanned| match why {
            Unplanned::TooSoon { left_ms } => {
                ChangeError::TooSoon { left: Duration::from_millis(left_ms) }
            }
            Unplanned::Minority { .. } | Unplanned::Joining => ChangeError::NotYet(why.to_string()),
            _ => ChangeError::Impossible(why.to_string()),
        };
        let pact = match (planned.await, last) {
            (Some(planned), _) => planned.map_err(impossible)?,
            (None, Some(why)) => return Err(impossible(why)),
            (None, None) => return Err(ChangeError::Unheard { nodes: self.nodes() }),
        };
        chamber.propose(&pact);
        let agreed = self.watch_nodes(PATIENCE, |reports| {
            let too_soon = reports.iter().find_map(too_soon).map(Err);
            chamber.agreed(&pact).map(Ok).or(too_soon)
        });
        match agreed.await {
            Some(Ok(left)) => {
                proposal.is_agreed = true;
                Ok(NodesChanged::new(&pact, left))
            }
            Some(Err(left)) => Err(ChangeError::TooSoon { left }),
            None => Err(ChangeError::Unheard { nodes: self.nodes() }),
        }
    }
}

/// A change that is told to the nodes until it is agreed upon, or its caller goes.
struct Proposal<'a> {
    chamber: &'a Chamber,
    is_agreed: bool,
}

impl Drop for Proposal<'_> {
    fn drop(&mut self) {
        if !self.is_agreed {
            self.chamber.retract();
        }
    }
}

/// For how long the node does not go by another list, if that is what it says.
fn too_soon(report: &NodeReport) -> Option<Duration> {
    match &report.answer {
        NodeAnswer::Trouble(Trouble::Guarded { left, why }) if why == CHANGED_LATELY => Some(*left),
        _ => None,
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

/// The list is vouched for while this lives, however the caller goes.
struct Vouching<'a>(&'a Chamber);

impl<'a> Vouching<'a> {
    fn start(chamber: &'a Chamber) -> Self {
        chamber.set_vouched(true);
        Self(chamber)
    }
}

impl Drop for Vouching<'_> {
    fn drop(&mut self) {
        self.0.set_vouched(false);
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
    fn new(pact: &Pact, joins_in: Option<Duration>) -> Self {
        let nodes = pact.members.iter().map(|member| member.label.to_string()).collect();
        Self { change: pact.change, nodes, joins_in, is_open: pact.before.is_some() }
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
    #[error("the restart guard is off for this client: its nodes have not agreed upon any set")]
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

/// How long nodes are waited for.
const PATIENCE: Duration = Duration::from_secs(5);
