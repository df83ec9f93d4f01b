//! Operator actions: letting new nodes vote at once, and changing which nodes there are.
//!
//! Each call inspects all nodes first, decides, and only then acts. So a read-only client has
//! written nothing if the call fails. The scripts on the nodes detect changes in between.

mod known;

use std::{fmt, time::Duration};

use quorate_core::{
    membership::{AgreedConfig, Opinion, PlanError},
    quorum::majority,
    time_text::TimeText,
};

use self::known::{Known, check_admissible};
use super::Client;
use crate::{
    error::{AdmitError, ChangeError, NodeAnswer, NodeError, NodeReport},
    membership::{Acting, CHANGED_LATELY, SharedMembership},
};

impl Client {
    /// Whether [quarantine](crate::ClientBuilder::quarantine) is on for this client: nodes that may
    /// have forgotten locks do not vote.
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
    /// A new node is quarantined, because it could be a node that has forgotten its locks. It votes
    /// when these locks would have expired, somewhat later than
    /// [`max_ttl`](crate::ClientBuilder::max_ttl). An operator who sets up new servers knows that
    /// there are no such locks, and confirms it by this call. If all nodes vote, it does nothing.
    ///
    /// Never call it at every start: servers that have all lost their data look like new ones,
    /// while the holders of their locks may still work.
    ///
    /// Build the client with [`read_only`](crate::ClientBuilder::read_only). Then it writes nothing
    /// if one of the nodes is refused. Any other client has begun the quarantine of new nodes
    /// already, when it connected.
    ///
    /// # Errors
    ///
    /// [`AdmitError`]. No node was admitted, unless it is [`Incomplete`](AdmitError::Incomplete),
    /// or a node stopped answering while it was admitted
    /// ([`Unavailable`](AdmitError::Unavailable)).
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
        let inspected = self.know(shared, Known::has_answered).await?;
        if inspected.iter().all(Known::votes) {
            return Ok(());
        }
        check_admissible(&inspected)?;
        let mut acting = shared.act();
        let placed = self.know(shared, Known::has_place).await?;
        if placed.iter().all(Known::votes) {
            return Ok(());
        }
        check_admissible(&placed)?;
        acting.admit();
        self.await_admission(shared).await
    }

    /// Waits until each node is as wanted, or one of them cannot be a node.
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
        known.await.ok_or_else(|| AdmitError::Unavailable { nodes: self.node_status() })
    }

    /// Waits until each node votes or has refused.
    async fn await_admission(&self, shared: &SharedMembership) -> Result<(), AdmitError> {
        let votes = |report: &NodeReport| report.answer == NodeAnswer::Attached;
        let settled = self.watch_nodes(PATIENCE, |reports| {
            let holding = shared.lock().holding.clone();
            let mut nodes = reports.iter().zip(holding);
            nodes.all(|(report, keys)| votes(report) || keys.is_some()).then_some(())
        });
        // A node that is still silent is reported as such.
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
            (0, None) => AdmitError::Unavailable { nodes },
            (admitted, _) => AdmitError::Incomplete { admitted, nodes },
        })
    }

    /// Confirms the list of nodes, so that a node that has forgotten its record becomes a member
    /// again although too few other nodes answer.
    ///
    /// A node that lost its record needs the other nodes to confirm that it is a member: as many of
    /// them must answer as could have changed the set without the rest. With three nodes these are
    /// both others. So a node that comes back empty stays out while another node is down. If you
    /// know that the nodes that answer know the last change of the set, confirm it by this call.
    /// The node is still quarantined. If there is time, restart the node that is down instead.
    ///
    /// # Errors
    ///
    /// [`AdmitError`] if no majority answers, or if a server cannot be a node. Then a
    /// [read-only](crate::ClientBuilder::read_only) client has written nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::Client;
    /// // 10.0.0.1 is down, 10.0.0.3 came back without its data, and no change is missing.
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let client = Client::builder().nodes(nodes).read_only().build()?;
    /// client.vouch_for_nodes().await?;
    /// # Ok(()) }
    /// ```
    pub async fn vouch_for_nodes(&self) -> Result<(), AdmitError> {
        let shared = self.inner.membership.as_deref().ok_or(AdmitError::QuarantineIsOff)?;
        // A node that seems to vote may have forgotten its record just now.
        shared.forget_all();
        let known = |reports: &[NodeReport]| Known::of_all(shared, reports, true);
        let waiting = self.watch_nodes(PATIENCE, |reports| {
            let is_settled = |it: &Known| it.has_answered() || it.is_refused();
            known(reports).iter().all(is_settled).then_some(())
        });
        // A node that is still silent counts as down.
        let _ = waiting.await;
        let inspected = known(&self.node_status());
        let answered = || inspected.iter().filter(|it| it.has_answered());
        if answered().count() < majority(inspected.len()) || !answered().all(Known::may_have_place)
        {
            return Err(AdmitError::Unavailable { nodes: Known::reports(&inspected) });
        }
        if answered().all(Known::has_place) {
            return Ok(());
        }
        let mut acting = shared.act();
        acting.vouch();
        let placed = self.watch_nodes(PATIENCE, |reports| {
            let known = known(reports);
            let mut nodes = known.iter().zip(&inspected);
            nodes.all(|(now, then)| !then.has_answered() || now.has_place()).then_some(())
        });
        placed.await.ok_or_else(|| AdmitError::Unavailable { nodes: self.node_status() })
    }

    /// Makes the nodes of this client the agreed config of all clients. Compared with the current
    /// config, one node is added, removed, or replaced by a new one.
    ///
    /// Build a client with the new addresses, call this, and then give the new addresses to all
    /// clients. It is safe at every moment in between, even if it is interrupted and called again:
    ///
    /// - *Replace a node*, for example a failed one: clients with the old addresses continue with
    ///   the nodes that remain. The new node votes when its quarantine ends.
    /// - *Add or remove a node*: clients with either list are accepted until this is called once
    ///   more with the same list. Call it when all clients have the new list.
    ///
    /// Between two changes the duration of one quarantine must pass. The new node must be empty and
    /// no member of another set, and a majority of the old nodes must answer.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]. Call it again with the same list to continue a change that has begun. If
    /// the change is refused, a [read-only](crate::ClientBuilder::read_only) client has written
    /// nothing. [`NotYet`](ChangeError::NotYet) may have passed on the change before.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use quorate::Client;
    ///
    /// // 10.0.0.3 has failed, 10.0.0.4 replaces it.
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.4"];
    /// let client = Client::builder().nodes(nodes).read_only().build()?;
    /// println!("{}", client.change_nodes().await?);
    /// # Ok(()) }
    /// ```
    pub async fn change_nodes(&self) -> Result<NodesChanged, ChangeError> {
        let shared = self.inner.membership.as_deref().ok_or(ChangeError::QuarantineIsOff)?;
        shared.forget();
        let inspected = self.await_answers(shared, &|_| true).await;
        if !inspected.contains(&true) {
            return Err(ChangeError::NoQuorum { nodes: self.node_status() });
        }
        // With other terms no node accepts any list.
        let differs = shared.lock().view.check_terms();
        differs.map_err(|differs| ChangeError::Impossible(differs.to_string()))?;
        let under_way = match shared.plan(self.inner.engine.now()) {
            Ok(_) => None,
            Err(why) if is_to_go_on(shared, &why) => Some(why),
            Err(why) => return Err(why.into()),
        };
        let mut acting = shared.act();
        self.await_answers(shared, &|node| inspected[node]).await;
        acting.begin_proposals();
        let config = self.plan(shared, &acting, under_way).await?;
        // It is the same as before, if the change was interrupted.
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
            None => Err(ChangeError::NoQuorum { nodes: self.node_status() }),
        }
    }

    /// Waits until these nodes have answered, for at most `PATIENCE`: the call may not need a
    /// silent node. Returns which nodes have answered.
    async fn await_answers(
        &self,
        shared: &SharedMembership,
        is_wanted: &dyn Fn(usize) -> bool,
    ) -> Vec<bool> {
        let answered = || shared.node_infos().iter().map(Option::is_some).collect::<Vec<bool>>();
        let waiting = self.watch_nodes(PATIENCE, |_| {
            let mut nodes = answered().into_iter().enumerate();
            nodes.all(|(node, has_answered)| has_answered || !is_wanted(node)).then_some(())
        });
        let _ = waiting.await;
        answered()
    }

    /// The next config, once enough nodes know the last one; or the last one, if it was interrupted
    /// and is the wanted one.
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
            (None, None) => Err(ChangeError::NoQuorum { nodes: self.node_status() }),
        }
    }
}

/// A change of the agreed config.
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
    /// The number of this change. The first config has 1.
    pub change: u64,
    /// The addresses of the nodes.
    pub nodes: Vec<String>,
    /// The time until the new node votes, if there is one.
    pub joins_in: Option<Duration>,
    /// True if clients with the previous list are still accepted.
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
            write!(f, "; the new one votes in {}", TimeText(left))?;
        }
        if self.is_open {
            f.write_str("; clients with the old list are admitted until this is called again")?;
        }
        Ok(())
    }
}

/// Whether an earlier change has begun that some nodes do not know yet.
fn is_to_go_on(shared: &SharedMembership, why: &PlanError) -> bool {
    let is_settled =
        |it: &Option<Opinion>| matches!(it, Some(Opinion::Update { .. } | Opinion::Enrol(_)));
    matches!(why, PlanError::Minority { .. } | PlanError::Joining)
        && shared.lock().view.outlook(false).iter().any(is_settled)
}

/// For how long the node accepts no other list, if it reports that.
fn too_soon(report: &NodeReport) -> Option<Duration> {
    match &report.answer {
        NodeAnswer::NodeError(NodeError::Quarantined { left, why, .. })
            if why == CHANGED_LATELY =>
        {
            Some(*left)
        }
        _ => None,
    }
}

/// How long an action waits for nodes.
const PATIENCE: Duration = Duration::from_secs(5);
