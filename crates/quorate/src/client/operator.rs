//! What an operator says about the nodes themselves: that new ones may vote at once, and which
//! ones there are.
//!
//! Each call looks at all nodes first, decides, and only then acts. So a client that only looks
//! has written nothing if it refuses. What changes in between is found by the scripts on the nodes.

mod known;

use std::{fmt, time::Duration};

use quorate_core::{
    membership::{AgreedConfig, Opinion, PlanError},
    quorum::majority,
};

use self::known::{Known, check_admissible};
use super::Client;
use crate::{
    error::{AdmitError, ChangeError, NodeAnswer, NodeError, NodeReport},
    membership::{Acting, CHANGED_LATELY, SharedMembership},
};

impl Client {
    /// Whether nodes that may have forgotten locks are kept from voting: the
    /// [restart guard](crate::ClientBuilder::quarantine) is on for this client.
    ///
    /// # Examples
    ///
    /// ```
    /// let client = quorate::Client::memory();
    /// assert!(!client.has_quarantine(), "there is nothing to admit");
    /// ```
    #[must_use]
    pub fn has_quarantine(&self) -> bool {
        self.inner.membership.is_some()
    }

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
    /// Build the client with [`read_only`](crate::ClientBuilder::read_only): then all nodes are
    /// looked at first, and nothing is written if one of them is refused. A client that does not
    /// only look has begun the guard of new nodes already by connecting to them.
    ///
    /// # Errors
    ///
    /// [`AdmitError`]. Unless it is [`Incomplete`](AdmitError::Incomplete), or a node fell silent
    /// while it was admitted ([`Unheard`](AdmitError::Unheard)), no node was admitted.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use quorate::Client;
    ///
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// // `connect` would wait for votes.
    /// let client = Client::builder().nodes(nodes).read_only().build()?;
    /// client.admit().await?;
    /// # Ok(()) }
    /// ```
    pub async fn admit(&self) -> Result<(), AdmitError> {
        let shared = self.inner.membership.as_deref().ok_or(AdmitError::QuarantineIsOff)?;
        shared.forget();
        let looked_at = self.know(shared, Known::is_met).await?;
        if looked_at.iter().all(Known::votes) {
            return Ok(());
        }
        check_admissible(&looked_at)?;
        let mut acting = shared.act();
        let placed = self.know(shared, Known::has_place).await?;
        if placed.iter().all(Known::votes) {
            return Ok(());
        }
        check_admissible(&placed)?;
        acting.admit();
        self.await_admission(shared).await
    }

    /// Waits until each node is as wanted, or one of them is refused.
    async fn know(
        &self,
        shared: &SharedMembership,
        is_wanted: impl Fn(&Known) -> bool,
    ) -> Result<Vec<Known>, AdmitError> {
        let known = self.watch_nodes(PATIENCE, |reports| {
            let known = Known::of_all(shared, reports, false);
            let is_in_vain = known.iter().any(Known::is_refused);
            (is_in_vain || known.iter().all(&is_wanted)).then_some(known)
        });
        known.await.ok_or_else(|| AdmitError::Unheard { nodes: self.node_status() })
    }

    /// Waits until each node votes, or has refused to be let in.
    async fn await_admission(&self, shared: &SharedMembership) -> Result<(), AdmitError> {
        let votes = |report: &NodeReport| report.answer == NodeAnswer::Attached;
        let settled = self.watch_nodes(PATIENCE, |reports| {
            let holding = shared.lock().holding.clone();
            let mut nodes = reports.iter().zip(holding);
            nodes.all(|(report, keys)| votes(report) || keys.is_some()).then_some(())
        });
        // Who is silent by then is told to be so.
        let _ = settled.await;
        let nodes = self.node_status();
        let admitted = nodes.iter().filter(|report| votes(report)).count();
        if admitted == nodes.len() {
            return Ok(());
        }
        let holding = nodes.iter().zip(shared.lock().holding.clone());
        let holding = holding.filter(|(report, _)| !votes(report)).find_map(|(report, keys)| {
            Some(AdmitError::NotEmpty { node: report.node.clone(), keys: keys? })
        });
        Err(match (admitted, holding) {
            (0, Some(error)) => error,
            (0, None) => AdmitError::Unheard { nodes },
            (admitted, _) => AdmitError::Incomplete { admitted, nodes },
        })
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
    /// [`AdmitError`], if less than a majority answers, or a node must not be one. A client that
    /// [only looks](crate::ClientBuilder::read_only) has written nothing then.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::Client;
    /// // 10.0.0.1 is dead, 10.0.0.3 came back without its data, and no change is missing.
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let client = Client::builder().nodes(nodes).read_only().build()?;
    /// client.vouch_for_nodes().await?;
    /// # Ok(()) }
    /// ```
    pub async fn vouch_for_nodes(&self) -> Result<(), AdmitError> {
        let shared = self.inner.membership.as_deref().ok_or(AdmitError::QuarantineIsOff)?;
        // One that votes for all we know may have forgotten just now.
        shared.forget_all();
        let known = |reports: &[NodeReport]| Known::of_all(shared, reports, true);
        let heard = self.watch_nodes(PATIENCE, |reports| {
            let is_told = |it: &Known| it.is_met() || it.is_refused();
            known(reports).iter().all(is_told).then_some(())
        });
        // Whoever is silent by then is taken for dead: what it may have forgotten, nobody can help.
        let _ = heard.await;
        let looked_at = known(&self.node_status());
        let met = || looked_at.iter().filter(|it| it.is_met());
        if met().count() < majority(looked_at.len()) || !met().all(Known::may_have_place) {
            return Err(AdmitError::Unheard { nodes: Known::reports(&looked_at) });
        }
        if met().all(Known::has_place) {
            return Ok(());
        }
        let mut acting = shared.act();
        acting.vouch();
        let placed = self.watch_nodes(PATIENCE, |reports| {
            let known = known(reports);
            let mut nodes = known.iter().zip(&looked_at);
            nodes.all(|(now, then)| !then.is_met() || now.has_place()).then_some(())
        });
        placed.await.ok_or_else(|| AdmitError::Unheard { nodes: self.node_status() })
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
    /// [`ChangeError`]; what was begun goes on when this is called again with the same list. If the
    /// change is refused, a client that [only looks](crate::ClientBuilder::read_only) has written
    /// nothing; [`NotYet`](ChangeError::NotYet) may have told nodes of the change before.
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
    /// let client = Client::builder().nodes(nodes).read_only().build()?;
    /// println!("{}", client.change_nodes().await?);
    /// # Ok(()) }
    /// ```
    pub async fn change_nodes(&self) -> Result<NodesChanged, ChangeError> {
        let shared = self.inner.membership.as_deref().ok_or(ChangeError::QuarantineIsOff)?;
        shared.forget();
        let looked_at = self.hear(shared, &|_| true).await;
        if !looked_at.contains(&true) {
            return Err(ChangeError::Unheard { nodes: self.node_status() });
        }
        // With other terms no node would be told anything, whatever the list.
        let differs = shared.lock().view.check_terms();
        differs.map_err(|differs| ChangeError::Impossible(differs.to_string()))?;
        let under_way = match shared.plan(self.inner.engine.now()) {
            Ok(_) => None,
            Err(why) if is_to_go_on(shared, &why) => Some(why),
            Err(why) => return Err(why.into()),
        };
        let mut acting = shared.act();
        self.hear(shared, &|node| looked_at[node]).await;
        acting.begin_proposals();
        let config = self.plan(shared, &acting, under_way).await?;
        // The same, if it is one that was broken off before.
        acting.propose(&config);
        let agreed = self.watch_nodes(PATIENCE, |reports| {
            let too_soon = reports.iter().find_map(too_soon).map(Err);
            shared.agreed(&config).map(Ok).or(too_soon)
        });
        match agreed.await {
            Some(Ok(left)) => {
                acting.agree();
                Ok(NodesChanged::new(&config, left))
            }
            Some(Err(left)) => Err(ChangeError::TooSoon { left }),
            None => Err(ChangeError::Unheard { nodes: self.node_status() }),
        }
    }

    /// Waits until these nodes have told what they are, but no longer than they are waited for:
    /// whoever is silent by then may be one of those that are not needed. Says which have.
    async fn hear(
        &self,
        shared: &SharedMembership,
        is_wanted: &dyn Fn(usize) -> bool,
    ) -> Vec<bool> {
        let are_met = || shared.node_infos().iter().map(Option::is_some).collect::<Vec<bool>>();
        let heard = self.watch_nodes(PATIENCE, |_| {
            let mut nodes = are_met().into_iter().enumerate();
            nodes.all(|(node, is_met)| is_met || !is_wanted(node)).then_some(())
        });
        let _ = heard.await;
        are_met()
    }

    /// The next config, once enough have heard of the last one; or that one, if it was broken off
    /// and is what is wanted.
    async fn plan(
        &self,
        shared: &SharedMembership,
        acting: &Acting<'_>,
        mut under_way: Option<PlanError>,
    ) -> Result<AgreedConfig, ChangeError> {
        let planned = self.watch_nodes(PATIENCE, |_| match shared.plan(self.inner.engine.now()) {
            Err(why) if is_to_go_on(shared, &why) => {
                if let PlanError::Minority { config, .. } = &why {
                    acting.propose(config);
                }
                under_way = Some(why);
                None
            }
            planned => Some(planned),
        });
        match (planned.await, under_way) {
            (Some(planned), None) => planned.map_err(ChangeError::from),
            (Some(_), Some(PlanError::Minority { config, .. })) if shared.is_wanted(&config) => {
                Ok(*config)
            }
            (Some(planned), Some(_)) => planned.map_err(|why| {
                ChangeError::NotYet(format!("the last change was finished first: {why}"))
            }),
            (None, Some(why)) => Err(why.into()),
            (None, None) => Err(ChangeError::Unheard { nodes: self.node_status() }),
        }
    }
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
    fn new(config: &AgreedConfig, joins_in: Option<Duration>) -> Self {
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

/// Whether an earlier change is under way, of which some nodes are still to be told.
fn is_to_go_on(shared: &SharedMembership, why: &PlanError) -> bool {
    let is_told =
        |it: &Option<Opinion>| matches!(it, Some(Opinion::Update { .. } | Opinion::Enrol(_)));
    matches!(why, PlanError::Minority { .. } | PlanError::Joining)
        && shared.lock().view.outlook(false).iter().any(is_told)
}

/// For how long the node does not go by another list, if that is what it says.
fn too_soon(report: &NodeReport) -> Option<Duration> {
    match &report.answer {
        NodeAnswer::NodeError(NodeError::Quarantined { left, why }) if why == CHANGED_LATELY => {
            Some(*left)
        }
        _ => None,
    }
}

/// How long nodes are waited for.
const PATIENCE: Duration = Duration::from_secs(5);
