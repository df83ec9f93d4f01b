//! The membership that all links of one client share, and what an operator does with it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use quorate_core::{
    membership::{
        AgreedConfig, Disagreement, Members, NodeInfo, Opinion, PlanError, View, plan,
        quarantine_ms,
    },
    moment::Moment,
    quorum::majority,
};

use super::version::{Version, Watch};
use crate::{clock::Clock, node_error::votes_in, nonces::Nonces};

/// One view for all links of a client.
#[derive(Debug)]
pub(crate) struct SharedMembership {
    state: Mutex<State>,
    /// Counts the lists of nodes that were in force. A link whose terms are for another list
    /// closes.
    lists: Version,
    /// Counts requests to check nodes again before a quarantine ends.
    rechecks: Version,
    /// Counts an operator's requests: every link tries again immediately.
    urgent_rechecks: Version,
    pub(super) quarantine_ms: u64,
    pub(super) settings: Settings,
}

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) max_ttl: Duration,
    /// A server that writes everything to disk immediately may vote again immediately.
    pub(crate) is_durable: bool,
    /// Nodes are only read, unless an operator acts.
    pub(crate) is_read_only: bool,
    pub(crate) clock: Clock,
    pub(crate) nonces: Nonces,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) view: View,
    /// When each node last reported its record.
    reported_at: Vec<Moment>,
    /// An operator has decided, and nodes are changed.
    is_acting: bool,
    /// New nodes are admitted without a wait.
    pub(super) is_admitting: bool,
    /// How many keys each node holds that was not admitted because of them.
    pub(crate) holding: Vec<Option<u64>>,
}

impl State {
    pub(super) fn info(&self, node: usize) -> Option<&NodeInfo> {
        self.view.nodes().nth(node)?.1
    }
}

impl SharedMembership {
    pub(crate) fn new(labels: impl IntoIterator<Item = Arc<str>>, settings: Settings) -> Self {
        let max_ttl_ms = u64::try_from(settings.max_ttl.as_millis()).unwrap_or(u64::MAX);
        let quarantine_ms = quarantine_ms(max_ttl_ms);
        let view = View::new(labels, max_ttl_ms, quarantine_ms);
        let reported_at = vec![Moment::ZERO; view.nodes().count()];
        let holding = vec![None; reported_at.len()];
        let (is_acting, is_admitting) = (false, false);
        let state = Mutex::new(State { view, reported_at, is_acting, is_admitting, holding });
        let [lists, rechecks, urgent_rechecks] = [(); 3].map(|()| Version::default());
        Self { state, lists, rechecks, urgent_rechecks, quarantine_ms, settings }
    }

    /// Handles the record that a node reported, and returns what to do about it. Returns `None` if
    /// the handshake was read-only and an operator acts now, or the other way round.
    pub(super) fn handle_info(
        &self,
        node: usize,
        info: NodeInfo,
        is_read_only: bool,
        now: Moment,
    ) -> Option<Opinion> {
        let mut state = self.lock();
        if is_read_only != self.is_read_only_in(&state) {
            return None;
        }
        state.reported_at[node] = now;
        let is_enrolled = info.is_enrolled;
        let (mut opinion, is_changed) = state.view.record(node, info);
        if is_read_only {
            // A read-only handshake has no effect. Report what a read-write client would find after
            // it has asked all nodes.
            let outlook = state.view.outlook(false).swap_remove(node);
            opinion = outlook.unwrap_or(opinion);
        }
        drop(state);
        let is_in_need = match &opinion {
            Opinion::Votes(_) => false,
            Opinion::Quarantined(_) => !is_enrolled,
            Opinion::Enrol(_) | Opinion::Update { .. } => true,
            Opinion::Differs(differs) => matches!(differs, Disagreement::Unsettled { .. }),
        };
        if is_changed {
            self.void();
        } else if is_in_need {
            // The records of other nodes count only if they were read since.
            self.rechecks.raise();
        }
        Some(opinion)
    }

    /// Watches for every list that comes into force from now on.
    pub(super) fn watch(&self) -> Watch {
        self.lists.watch()
    }

    /// Watches for requests to check nodes again soon.
    pub(super) fn rechecks(&self) -> Watch {
        self.rechecks.watch()
    }

    /// Watches for an operator that waits for the nodes' records.
    pub(super) fn urgent_rechecks(&self) -> Watch {
        self.urgent_rechecks.watch()
    }

    /// The rest of its quarantine, without the recovery, if the node has its place in the set and
    /// only waits for that.
    pub(super) fn quarantine_left(&self, node: usize) -> Option<Duration> {
        let state = self.lock();
        let change = |config: Option<&AgreedConfig>| config.map(|config| config.change);
        let agreed = change(state.view.config());
        let info = state.info(node).filter(|info| info.is_waiting())?;
        let is_placed = change(info.config.as_ref()) == agreed;
        info.quarantine.filter(|_| is_placed).map(|it| Duration::from_millis(it.left_ms))
    }

    /// Whether nodes must not be changed.
    pub(super) fn is_read_only(&self) -> bool {
        self.is_read_only_in(&self.lock())
    }

    const fn is_read_only_in(&self, state: &State) -> bool {
        self.settings.is_read_only && !state.is_acting
    }

    /// Drops the records of the nodes that do not vote, and waits for new ones.
    pub(crate) fn forget(&self) {
        self.lock().view.forget();
        self.rechecks.raise();
    }

    /// Drops all records and asks every node again, including those that vote.
    pub(crate) fn forget_all(&self) {
        self.lock().view.forget_all();
        self.void();
    }

    /// The last record of each node.
    pub(crate) fn node_infos(&self) -> Vec<Option<NodeInfo>> {
        self.lock().view.nodes().map(|(_, info)| info.cloned()).collect()
    }

    /// The change that makes the nodes of this client the set.
    pub(crate) fn plan(&self, now: Moment) -> Result<AgreedConfig, PlanError> {
        let state = self.lock();
        // A node that votes is not asked again. Its remaining time shrinks meanwhile.
        let since = |info: &NodeInfo, reported_at: &Moment| {
            let passed = now.saturating_since(*reported_at).as_millis();
            let passed_ms = u64::try_from(passed).unwrap_or(u64::MAX);
            let changes_in_ms = info.changes_in_ms.saturating_sub(passed_ms);
            NodeInfo { changes_in_ms, ..info.clone() }
        };
        let known = state.view.nodes().zip(&state.reported_at);
        let known: Vec<(&Arc<str>, Option<NodeInfo>)> =
            known.map(|((label, info), at)| (label, info.map(|info| since(info, at)))).collect();
        plan(known.iter().map(|(label, info)| (*label, info.as_ref())))
    }

    /// Whether the config lists exactly the nodes of this client, by address.
    pub(crate) fn is_wanted(&self, config: &AgreedConfig) -> bool {
        let state = self.lock();
        state.reported_at.len() == config.members.len()
            && state.view.nodes().all(|(label, _)| config.members.at(label).is_some())
    }

    /// Whether enough nodes have adopted the config, and if so, how long it takes until a new node
    /// votes.
    #[expect(clippy::option_option, reason = "not agreed, or no new node")]
    pub(crate) fn agreed(&self, config: &AgreedConfig) -> Option<Option<Duration>> {
        let state = self.lock();
        let has_adopted = |info: &&NodeInfo| info.config.as_ref() == Some(config);
        let adopters = || state.view.nodes().filter_map(|(_, info)| info).filter(has_adopted);
        let placed = adopters().filter(|info| info.is_placed());
        let quorum = config.lists().map(Members::len).map(majority).max().unwrap_or(0);
        let newcomer = adopters().find(|info| config.newcomer == Some(info.id) && info.is_enrolled);
        let left = |info: &NodeInfo| info.quarantine.map(|it| votes_in(it.left_ms));
        let is_joined = config.newcomer.is_none() || newcomer.is_some();
        (placed.count() >= quorum && is_joined).then(|| newcomer.and_then(left))
    }

    /// Lets an operator act, after its decision, until the result is dropped.
    pub(crate) fn act(&self) -> Acting<'_> {
        let mut state = self.lock();
        state.is_acting = true;
        if self.settings.is_read_only {
            state.view.start_over();
            drop(state);
            self.void();
            self.recheck_urgently();
        }
        Acting { shared: self, has_requested: false, is_proposing: false }
    }

    /// Another list is in force: the terms of all connections are void.
    fn void(&self) {
        self.lists.raise();
        self.rechecks.raise();
    }

    fn recheck_urgently(&self) {
        self.urgent_rechecks.raise();
        self.rechecks.raise();
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An operator acts until this is dropped, even if its caller is cancelled.
pub(crate) struct Acting<'a> {
    shared: &'a SharedMembership,
    has_requested: bool,
    /// Proposals are sent to nodes until they are agreed upon.
    is_proposing: bool,
}

impl Acting<'_> {
    /// Admits new nodes without a wait.
    pub(crate) fn admit(&mut self) {
        let mut state = self.shared.lock();
        state.is_admitting = true;
        state.holding.fill(None);
        drop(state);
        self.recheck_urgently();
    }

    /// Records that the operator vouches for the list of nodes.
    pub(crate) fn vouch(&mut self) {
        self.shared.lock().view.set_vouched(true);
        self.recheck_urgently();
    }

    fn recheck_urgently(&mut self) {
        self.has_requested = true;
        self.shared.recheck_urgently();
    }

    /// Proposals begin.
    pub(crate) const fn begin_proposals(&mut self) {
        self.is_proposing = true;
    }

    /// Makes this the set: every node gets it with its next handshake.
    pub(crate) fn propose(&self, config: &AgreedConfig) {
        let mut state = self.shared.lock();
        if state.view.config() != Some(config) {
            state.view.propose(config.clone());
            drop(state);
            self.shared.void();
            self.shared.recheck_urgently();
        }
    }

    /// The proposal is agreed upon.
    pub(crate) const fn agree(&mut self) {
        self.is_proposing = false;
    }
}

impl Drop for Acting<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        (state.is_acting, state.is_admitting) = (false, false);
        state.holding.fill(None);
        state.view.set_vouched(false);
        if self.is_proposing {
            // The proposal is not sent to any further node.
            state.view.retract();
        }
        drop(state);
        if self.is_proposing {
            self.shared.void();
        }
        if self.has_requested {
            self.shared.recheck_urgently();
        }
    }
}
