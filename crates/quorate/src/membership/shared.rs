//! What the links of one client know together, and what an operator does with it.

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
use crate::{clock::Clock, nonces::Nonces};

/// One view for all links of a client.
#[derive(Debug)]
pub(crate) struct SharedMembership {
    state: Mutex<State>,
    /// Counts the lists of nodes that were in force: a link that was judged by another one ends.
    lists: Version,
    /// Counts what a link that waits for the end of a quarantine should know of before that.
    calls: Version,
    /// Counts what an operator waits for: no link waits any longer before it tries again.
    orders: Version,
    pub(super) quarantine_ms: u64,
    pub(super) settings: Settings,
}

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) max_ttl: Duration,
    /// A server that writes everything to disk at once may vote again at once.
    pub(crate) is_durable: bool,
    /// Nodes are only looked at, unless an operator acts.
    pub(crate) is_read_only: bool,
    pub(crate) clock: Clock,
    pub(crate) nonces: Nonces,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) view: View,
    /// When each node told last what it is.
    told_at: Vec<Moment>,
    /// An operator has decided, and nodes are told.
    is_acting: bool,
    /// New nodes are let in without a wait.
    pub(super) is_admitting: bool,
    /// How many keys those hold that were not let in.
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
        let told_at = vec![Moment::ZERO; view.nodes().count()];
        let holding = vec![None; told_at.len()];
        let (is_acting, is_admitting) = (false, false);
        let state = Mutex::new(State { view, told_at, is_acting, is_admitting, holding });
        let [lists, calls, orders] = [(); 3].map(|()| Version::default());
        Self { state, lists, calls, orders, quarantine_ms, settings }
    }

    /// Takes in what a node told by now, and says what to do about it. Nothing, if it was looked at
    /// and somebody acts by now, or the other way round.
    pub(super) fn hear(
        &self,
        node: usize,
        info: NodeInfo,
        is_look: bool,
        now: Moment,
    ) -> Option<Opinion> {
        let mut state = self.lock();
        if is_look != self.is_looking_in(&state) {
            return None;
        }
        state.told_at[node] = now;
        let is_enrolled = info.is_enrolled;
        let (mut opinion, is_changed) = state.view.hear(node, info);
        if is_look {
            // Nothing comes of it. It is told as it is for one who acts, and has met all others.
            let outlook = state.view.outlook(false).swap_remove(node);
            opinion = outlook.unwrap_or(opinion);
        }
        drop(state);
        let is_in_need = match &opinion {
            Opinion::Votes(_) => false,
            Opinion::Quarantined(_) => !is_enrolled,
            Opinion::Enrol(_) | Opinion::Tell { .. } => true,
            Opinion::Differs(differs) => matches!(differs, Disagreement::Unsettled { .. }),
        };
        if is_changed {
            self.void();
        } else if is_in_need {
            // What the others are counts only if they were asked since.
            self.calls.raise();
        }
        Some(opinion)
    }

    /// Tells of every list that comes into force from now on.
    pub(super) fn watch(&self) -> Watch {
        self.lists.watch()
    }

    /// Tells whenever nodes must be asked soon.
    pub(super) fn calls(&self) -> Watch {
        self.calls.watch()
    }

    /// Tells whenever an operator waits for nodes to tell what they are.
    pub(super) fn orders(&self) -> Watch {
        self.orders.watch()
    }

    /// Whether the node has its place in the set, and only waits for the end of its quarantine.
    pub(super) fn is_placed(&self, node: usize) -> bool {
        let state = self.lock();
        let change = |config: Option<&AgreedConfig>| config.map(|config| config.change);
        let agreed = change(state.view.config());
        let info = state.info(node).filter(|info| info.is_waiting());
        info.is_some_and(|info| change(info.config.as_ref()) == agreed)
    }

    /// Whether nodes stay as they are.
    pub(super) fn is_read_only(&self) -> bool {
        self.is_looking_in(&self.lock())
    }

    const fn is_looking_in(&self, state: &State) -> bool {
        self.settings.is_read_only && !state.is_acting
    }

    /// Waits for news of every node that does not vote.
    pub(crate) fn forget(&self) {
        self.lock().view.forget();
        self.calls.raise();
    }

    /// Asks every node again what it is, even those that vote.
    pub(crate) fn forget_all(&self) {
        self.lock().view.forget_all();
        self.void();
    }

    /// What each node told last.
    pub(crate) fn told(&self) -> Vec<Option<NodeInfo>> {
        self.lock().view.nodes().map(|(_, info)| info.cloned()).collect()
    }

    /// The change that makes the nodes of this client the set.
    pub(crate) fn plan(&self, now: Moment) -> Result<AgreedConfig, PlanError> {
        let state = self.lock();
        // A node that votes is not asked again, and waits for less and less meanwhile.
        let since = |info: &NodeInfo, told_at: &Moment| {
            let passed = now.saturating_since(*told_at).as_millis();
            let passed_ms = u64::try_from(passed).unwrap_or(u64::MAX);
            let changes_in_ms = info.changes_in_ms.saturating_sub(passed_ms);
            NodeInfo { changes_in_ms, ..info.clone() }
        };
        let known = state.view.nodes().zip(&state.told_at);
        let known: Vec<(&Arc<str>, Option<NodeInfo>)> =
            known.map(|((label, info), at)| (label, info.map(|info| since(info, at)))).collect();
        plan(known.iter().map(|(label, info)| (*label, info.as_ref())))
    }

    /// Whether these are the nodes of this client, by their addresses.
    pub(crate) fn is_wanted(&self, config: &AgreedConfig) -> bool {
        let state = self.lock();
        state.told_at.len() == config.members.len()
            && state.view.nodes().all(|(label, _)| config.members.at(label).is_some())
    }

    /// Whether enough nodes go by the config, and if so, for how long a new one does not vote yet.
    #[expect(clippy::option_option, reason = "none yet, or none that is new")]
    pub(crate) fn agreed(&self, config: &AgreedConfig) -> Option<Option<Duration>> {
        let state = self.lock();
        let goes = |info: &&NodeInfo| info.config.as_ref() == Some(config);
        let going = || state.view.nodes().filter_map(|(_, info)| info).filter(goes);
        let sure = going().filter(|info| info.is_placed());
        let most = config.lists().map(Members::len).map(majority).max().unwrap_or(0);
        let newcomer = going().find(|info| config.newcomer == Some(info.id) && info.is_enrolled);
        let left = |info: &NodeInfo| info.quarantine.map(|it| Duration::from_millis(it.left_ms));
        let is_joined = config.newcomer.is_none() || newcomer.is_some();
        (sure.count() >= most && is_joined).then(|| newcomer.and_then(left))
    }

    /// An operator has decided by what was looked at, and acts while this lives.
    pub(crate) fn act(&self) -> Acting<'_> {
        let mut state = self.lock();
        state.is_acting = true;
        if self.settings.is_read_only {
            state.view.start_over();
            drop(state);
            self.void();
            self.order();
        }
        Acting { shared: self, has_ordered: false, is_proposing: false }
    }

    /// What nodes were judged by is another list from now on.
    fn void(&self) {
        self.lists.raise();
        self.calls.raise();
    }

    fn order(&self) {
        self.orders.raise();
        self.calls.raise();
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An operator acts for as long as this lives, however its caller goes.
pub(crate) struct Acting<'a> {
    shared: &'a SharedMembership,
    has_ordered: bool,
    /// What was proposed is told to nodes until it is agreed upon.
    is_proposing: bool,
}

impl Acting<'_> {
    /// Lets new nodes in without a wait.
    pub(crate) fn admit(&mut self) {
        let mut state = self.shared.lock();
        state.is_admitting = true;
        state.holding.fill(None);
        drop(state);
        self.order();
    }

    /// Gives the operator's word for the list of nodes.
    pub(crate) fn vouch(&mut self) {
        self.shared.lock().view.set_vouched(true);
        self.order();
    }

    fn order(&mut self) {
        self.has_ordered = true;
        self.shared.order();
    }

    /// Proposals begin.
    pub(crate) const fn begin_proposals(&mut self) {
        self.is_proposing = true;
    }

    /// From now on this is the set: every node is told with its next handshake.
    pub(crate) fn propose(&self, config: &AgreedConfig) {
        let mut state = self.shared.lock();
        if state.view.config() != Some(config) {
            state.view.propose(config.clone());
            drop(state);
            self.shared.void();
            self.shared.order();
        }
    }

    /// What was proposed is agreed upon.
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
            // It is not told to anybody any more.
            state.view.retract();
        }
        drop(state);
        if self.is_proposing {
            self.shared.void();
        }
        if self.has_ordered {
            self.shared.order();
        }
    }
}
