//! The membership view of a client: what its nodes have reported, and what follows from that.

mod opinion;

use std::sync::Arc;

use super::{
    AgreedConfig, Disagreement, Enrolment, Known, Mark, Member, Members, NodeId, NodeInfo,
    Quarantine,
};
use crate::moment::Moment;

/// The nodes of one client, as far as they have reported about themselves.
///
/// Votes count only if all nodes have the same list. Otherwise two majorities need not have a node
/// in common.
#[derive(Clone, Debug)]
pub struct View {
    nodes: Box<[NodeView]>,
    max_ttl_ms: u64,
    quarantine_ms: u64,
    config: Option<AgreedConfig>,
    /// Whether the config comes from a node that votes or has its place.
    is_sure: bool,
    /// Whether an operator vouches that nodes which do not answer have not changed the set.
    is_vouched: bool,
    /// Counts requests and reports.
    moment: u64,
}

#[derive(Clone, Debug)]
struct NodeView {
    label: Arc<str>,
    info: Option<NodeInfo>,
    /// Whether it votes, as far as the client knows.
    is_voting: bool,
    /// When it first reported its present mark and config.
    since: u64,
    /// When the client sent the last request that it has answered: it had the mark until then, at
    /// least.
    asked_last: u64,
    /// When the client sent the last request.
    asked: u64,
    /// The last time that it reported, in milliseconds, and when the client sent that request.
    clock: Option<(u64, Moment)>,
}

impl NodeView {
    fn config(&self) -> Option<&AgreedConfig> {
        self.info.as_ref().and_then(|info| info.config.as_ref())
    }

    fn has_config(&self, config: &AgreedConfig) -> bool {
        self.config().is_some_and(|theirs| theirs.is_same(config))
    }

    fn is_new(&self) -> bool {
        self.info.is_some() && self.config().is_none()
    }

    fn id(&self) -> Option<NodeId> {
        self.info.as_ref().map(|info| info.id)
    }
}

/// Whether a node votes, and if it does not, why, and what to do about it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Opinion {
    /// It votes while it has this mark.
    Votes(Mark),
    /// It is in quarantine.
    Quarantined(Quarantine),
    /// It is in quarantine and must get its place first. The caller fills in the wall clock.
    Enrol(Enrolment),
    /// It does not know the last change of the set. Send it the config.
    Update {
        /// Its mark.
        mark: Mark,
        /// The config.
        config: AgreedConfig,
    },
    /// It does not vote for this client.
    Differs(Disagreement),
}

impl View {
    /// A client with nodes at these addresses, none of which has reported yet.
    #[must_use]
    pub fn new(
        labels: impl IntoIterator<Item = Arc<str>>,
        max_ttl_ms: u64,
        quarantine_ms: u64,
    ) -> Self {
        let (since, asked_last, asked, clock) = (0, 0, 0, None);
        let it = |label| NodeView {
            label,
            info: None,
            is_voting: false,
            since,
            asked_last,
            asked,
            clock,
        };
        let nodes = labels.into_iter().map(it).collect();
        let (config, is_sure, is_vouched, moment) = (None, false, false, 0);
        Self { nodes, max_ttl_ms, quarantine_ms, config, is_sure, is_vouched, moment }
    }

    /// The agreed config, if any node has reported it.
    #[must_use]
    pub const fn config(&self) -> Option<&AgreedConfig> {
        self.config.as_ref()
    }

    /// Discards the reports of the nodes that do not vote. They must report again.
    pub fn forget(&mut self) {
        self.nodes.iter_mut().filter(|it| !it.is_voting).for_each(|it| it.info = None);
    }

    /// Discards the reports of all nodes.
    pub fn forget_all(&mut self) {
        self.nodes.iter_mut().for_each(|it| it.is_voting = false);
        self.forget();
    }

    /// Discards everything that is known. A read-only handshake stores nothing on a node, so a
    /// client that writes needs another handshake with each node.
    pub fn start_over(&mut self) {
        self.forget_all();
        self.nodes.iter_mut().for_each(|it| it.since = 0);
        (self.config, self.is_sure) = (None, false);
    }

    /// The opinion of each node if all nodes repeated their last reports at one moment. An operator
    /// command decides by this before it writes anything.
    #[must_use]
    pub fn outlook(&self, is_vouched: bool) -> Vec<Option<Opinion>> {
        let mut view = Self { is_vouched, ..self.clone() };
        let mut opinions = vec![None; view.nodes.len()];
        // In the second pass each opinion takes all other reports into account.
        for node in (0..opinions.len()).chain(0..opinions.len()) {
            if let Some(info) = view.nodes[node].info.clone() {
                view.ask(node);
                opinions[node] = Some(view.record(node, info).0);
            }
        }
        opinions
    }

    /// Sets whether an operator vouches for the list: servers that once were nodes and are not in
    /// the list are off for good, and nodes that do not answer have not agreed on a later list.
    /// Then a node gets its place again without the confirmation of others.
    pub const fn set_vouched(&mut self, is_vouched: bool) {
        self.is_vouched = is_vouched;
    }

    /// Replaces the config by one that an operator requests. The nodes must receive it.
    pub fn propose(&mut self, config: AgreedConfig) {
        self.nodes.iter_mut().for_each(|it| it.is_voting = false);
        self.config = Some(config);
        self.is_sure = true;
    }

    /// Withdraws the proposed config. The latest config that the nodes have reported counts again.
    pub fn retract(&mut self) {
        let theirs = self.nodes.iter().filter_map(NodeView::config);
        self.config = theirs.max_by_key(|config| config.change).cloned();
        self.nodes.iter_mut().for_each(|it| it.is_voting = false);
    }

    /// The last report of each node.
    pub fn nodes(&self) -> impl Iterator<Item = (&Arc<str>, Option<&NodeInfo>)> {
        self.nodes.iter().map(|it| (&it.label, it.info.as_ref()))
    }

    /// Checks that the nodes which have reported have the same longest ttl as the client.
    ///
    /// # Errors
    ///
    /// [`Disagreement::MaxTtl`], if a node has another one.
    pub fn check_terms(&self) -> Result<(), Disagreement> {
        self.nodes.iter().filter_map(NodeView::config).try_for_each(|theirs| self.check_ttl(theirs))
    }

    const fn check_ttl(&self, config: &AgreedConfig) -> Result<(), Disagreement> {
        let (agreed_ms, ours_ms) = (config.max_ttl_ms, self.max_ttl_ms);
        match agreed_ms == ours_ms {
            true => Ok(()),
            false => Err(Disagreement::MaxTtl { agreed_ms, ours_ms }),
        }
    }

    /// Records that the connection to a node is lost. Another server may be the node now.
    pub fn leave(&mut self, node: usize) {
        self.nodes[node].is_voting = false;
    }

    /// Records that the client is about to send a handshake or a ping. There is one such request to
    /// a node at a time. The reply is at least as recent as this.
    pub fn ask(&mut self, node: usize) {
        self.moment = self.moment.saturating_add(1);
        self.nodes[node].asked = self.moment;
    }

    /// Records that the node's clock showed `time_us` after the request.
    pub fn record_time(&mut self, node: usize, time_us: u64, asked_at: Moment) {
        self.nodes[node].clock = Some((time_us / 1_000, asked_at));
    }

    /// What the client knows about the node's clock.
    #[must_use]
    pub fn known(&self, node: usize, now: Moment) -> Option<Known> {
        let (seen_ms, asked_at) = self.nodes[node].clock?;
        let passed = now.saturating_since(asked_at);
        // The rates of two clocks differ by 1 % at most.
        let passed = passed.saturating_add(passed.checked_div(100).unwrap_or_default());
        let passed_ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        let expected_ms = seen_ms.saturating_add(passed_ms).saturating_add(1);
        Some(Known { seen_ms, expected_ms })
    }

    /// Records that a session continues: the node still has its mark.
    pub fn record_ping(&mut self, node: usize) {
        let it = &mut self.nodes[node];
        it.asked_last = it.asked;
    }

    /// Records the report of a node. Returns the opinion of it, and whether the config has changed:
    /// then every other node needs another handshake.
    pub fn record(&mut self, node: usize, info: NodeInfo) -> (Opinion, bool) {
        let is_changed = self.take_config(node, &info);
        if is_changed {
            self.nodes.iter_mut().for_each(|it| it.is_voting = false);
        }
        self.moment = self.moment.saturating_add(1);
        let it = &mut self.nodes[node];
        // A node that gets its place receives a config, but no new mark.
        let is_same = |known: &NodeInfo| (known.mark, &known.config) == (info.mark, &info.config);
        if !it.info.as_ref().is_some_and(is_same) {
            it.since = self.moment;
        }
        it.asked_last = it.asked;
        let info = it.info.insert(info).clone();
        if self.are_all_new() {
            self.found();
        }
        let opinion = self.opinion(node, &info).unwrap_or_else(Opinion::Differs);
        self.nodes[node].is_voting = matches!(opinion, Opinion::Votes(_));
        (opinion, is_changed)
    }

    /// Takes over the config of a node if it is later. Returns true if it replaces another one.
    fn take_config(&mut self, node: usize, info: &NodeInfo) -> bool {
        let Some(theirs) = &info.config else { return false };
        let is_sure = info.is_placed();
        let is_news = match &self.config {
            None => true,
            Some(known) if known.origin == theirs.origin => known.change < theirs.change,
            // A set that only this client remembers does not exist any more.
            Some(known) => !self.is_backed(node, known) || is_sure && !self.is_sure,
        };
        self.is_sure |= is_sure;
        is_news && self.config.replace(theirs.clone()).is_some()
    }

    /// Whether another node belongs to this set, as far as the client knows.
    fn is_backed(&self, node: usize, config: &AgreedConfig) -> bool {
        self.others(node).filter_map(NodeView::config).any(|theirs| theirs.origin == config.origin)
    }

    /// Whether at one moment no node belongs to a set. Reports from different moments do not count:
    /// two clients could found different sets.
    fn are_all_new(&self) -> bool {
        let moment = self.nodes.iter().map(|it| it.since).max().unwrap_or(0);
        let is_alone = |node: usize| self.twin(node).is_none();
        self.nodes.iter().all(|it| it.is_new() && it.asked_last >= moment)
            && (0..self.nodes.len()).all(is_alone)
    }

    /// Another node with the same name: one has the data of the other, or they are the same server.
    fn twin(&self, node: usize) -> Option<&NodeView> {
        let id = self.nodes[node].id()?;
        self.others(node).find(|it| it.id() == Some(id))
    }

    /// Founds the set when all nodes are new or have forgotten their set. All clients derive the
    /// same config.
    fn found(&mut self) {
        self.is_sure = false;
        let member = |it: &NodeView| Some(Member { id: it.id()?, label: it.label.clone() });
        let members = self.nodes.iter().map(member).collect::<Option<Vec<_>>>();
        self.config = members.and_then(|it| {
            AgreedConfig::founded_by(Members::new(it), self.max_ttl_ms, self.quarantine_ms)
        });
    }

    fn others(&self, node: usize) -> impl Iterator<Item = &NodeView> {
        self.nodes.iter().enumerate().filter(move |(number, _)| *number != node).map(|it| it.1)
    }
}

#[cfg(test)]
mod tests;
