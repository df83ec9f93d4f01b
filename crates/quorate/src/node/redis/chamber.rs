//! The restart guard on the client's side: what the links of one client know of their nodes.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use quorate_core::{
    guard::{
        Council, Disagreement, Mark, Members, Met, Opinion, Pact, Unplanned, guard_ms, plan,
        slack_us,
    },
    moment::Moment,
    quorum::majority,
};

use super::version::{Version, Watch};

/// One council for all links of a client.
#[derive(Debug)]
pub(crate) struct Chamber {
    state: Mutex<State>,
    /// Counts the lists of nodes that were in force: a link that was judged by another one ends.
    lists: Version,
    /// Counts what a link that waits until a guard is over should know of before that.
    calls: Version,
    /// Counts what an operator waits for: no link waits any longer before it tries again.
    orders: Version,
    pub(crate) guard_ms: u64,
    /// Whether a server that writes everything to disk at once may vote again at once.
    pub(crate) is_durable: bool,
    /// Nodes are only looked at, unless an operator acts.
    only_looks: bool,
}

#[derive(Debug)]
struct State {
    council: Council,
    /// When each node told last what it is.
    met_at: Vec<Moment>,
    /// New nodes are let in without a wait.
    is_admitting: bool,
    /// How many keys those hold that were not let in.
    holding: Vec<Option<u64>>,
    /// An operator has decided, and nodes are told.
    is_acting: bool,
}

/// What a node was judged to be.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) mark: Mark,
    pub(crate) slack_us: u64,
    /// For how long it is not to be asked for locks: holders renew theirs first.
    pub(crate) recovers_in: Duration,
    /// Why it does not vote before another client comes: this one only looks.
    pub(crate) why_not_yet: Option<&'static str>,
    /// Told when that is void.
    pub(crate) lists: Watch,
}

impl Chamber {
    pub(crate) fn new(
        labels: impl IntoIterator<Item = Arc<str>>,
        max_ttl: Duration,
        (is_durable, only_looks): (bool, bool),
    ) -> Self {
        let max_ttl_ms = u64::try_from(max_ttl.as_millis()).unwrap_or(u64::MAX);
        let guard_ms = guard_ms(max_ttl_ms);
        let council = Council::new(labels, max_ttl_ms, guard_ms);
        let met_at = vec![Moment::ZERO; council.met().count()];
        let holding = vec![None; met_at.len()];
        let (is_admitting, is_acting) = (false, false);
        let state = Mutex::new(State { council, met_at, is_admitting, holding, is_acting });
        let [lists, calls, orders] = [(); 3].map(|()| Version::default());
        Self { state, lists, calls, orders, guard_ms, is_durable, only_looks }
    }

    /// A node is about to be asked what it is, or whether its session goes on.
    pub(crate) fn ask(&self, node: usize) {
        self.lock().council.ask(node);
    }

    /// Its session goes on.
    pub(crate) fn hear_again(&self, node: usize) {
        self.lock().council.hear_again(node);
    }

    /// Takes in what a node told by now, and says what to do about it. Nothing, if it was looked at
    /// and somebody acts by now, or the other way round.
    pub(crate) fn hear(&self, node: usize, met: Met, look: bool, now: Moment) -> Option<Opinion> {
        let mut state = self.lock();
        if look != self.is_looking_in(&state) {
            return None;
        }
        state.met_at[node] = now;
        let is_enrolled = met.is_enrolled;
        let (mut opinion, is_changed) = state.council.hear(node, met);
        if look {
            // Nothing comes of it. It is told as it is for one who acts, and has met all others.
            let outlook = state.council.outlook(false).swap_remove(node);
            opinion = outlook.unwrap_or(opinion);
        }
        drop(state);
        let is_in_need = match &opinion {
            Opinion::Votes(_) => false,
            Opinion::Waits { .. } => !is_enrolled,
            Opinion::Enrol(_) | Opinion::Tell { .. } => true,
            Opinion::Differs(differs) => matches!(differs, Disagreement::Unsettled { .. }),
        };
        if is_changed {
            self.void();
        } else if is_in_need {
            // What the others are counts only if they were asked since.
            self.call();
        }
        Some(opinion)
    }

    /// What a link goes by that was judged now.
    pub(crate) fn judged(&self, mark: Mark, recovers_in_ms: u64, lists: Watch) -> Judged {
        let guard_ms = self.lock().council.pact().map(|pact| pact.guard_ms);
        let recovers_in = Duration::from_millis(recovers_in_ms);
        Judged { mark, slack_us: slack_us(guard_ms), recovers_in, why_not_yet: None, lists }
    }

    /// Tells of every list that comes into force from now on.
    pub(crate) fn watch(&self) -> Watch {
        self.lists.watch()
    }

    /// Tells whenever nodes are to be met soon.
    pub(crate) fn calls(&self) -> Watch {
        self.calls.watch()
    }

    /// Tells whenever an operator waits for nodes to be met.
    pub(crate) fn orders(&self) -> Watch {
        self.orders.watch()
    }

    /// Whether the node has its place among the others, and but waits until its guard is over.
    pub(crate) fn is_placed(&self, node: usize) -> bool {
        let state = self.lock();
        let (_, met) = state.council.met().nth(node).unzip();
        let change = state.council.pact().map(|pact| pact.change);
        met.flatten().is_some_and(|met| {
            met.is_enrolled
                && met.doubt.is_some()
                && met.pact.as_ref().map(|it| it.change) == change
        })
    }

    /// Whether the node's guard has begun, so that less and less of it is left.
    pub(crate) fn is_counting(&self, node: usize) -> bool {
        let state = self.lock();
        let (_, met) = state.council.met().nth(node).unzip();
        met.flatten().is_some_and(|met| met.is_enrolled && met.doubt.is_some())
    }

    /// The link to a node is down.
    pub(crate) fn leave(&self, node: usize) {
        self.lock().council.leave(node);
    }

    /// Waits for news of every node that does not vote.
    pub(crate) fn forget(&self) {
        self.lock().council.forget();
        self.call();
    }

    /// Lets every node be met again, also those that vote.
    pub(crate) fn forget_all(&self) {
        self.lock().council.forget_all();
        self.void();
    }

    pub(crate) fn set_vouched(&self, is_vouched: bool) {
        self.lock().council.set_vouched(is_vouched);
        self.order();
    }

    pub(crate) fn set_admitting(&self, is_admitting: bool) {
        let mut state = self.lock();
        state.is_admitting = is_admitting;
        state.holding.fill(None);
        drop(state);
        self.order();
    }

    /// The node was not let in, since it holds so many keys.
    pub(crate) fn hold(&self, node: usize, keys: u64) {
        self.lock().holding[node] = Some(keys);
    }

    /// For each node, how many keys it holds if it was not let in for that.
    pub(crate) fn holding(&self) -> Vec<Option<u64>> {
        self.lock().holding.clone()
    }

    pub(crate) fn is_admitting(&self) -> bool {
        self.lock().is_admitting
    }

    /// An operator has decided by what was looked at, and acts from now on; or does not any more.
    pub(crate) fn set_acting(&self, is_acting: bool) {
        let mut state = self.lock();
        state.is_acting = is_acting;
        if is_acting && self.only_looks {
            state.council.start_over();
            drop(state);
            self.void();
            self.order();
        }
    }

    /// Whether nodes are to stay as they are.
    pub(crate) fn is_looking(&self) -> bool {
        self.is_looking_in(&self.lock())
    }

    const fn is_looking_in(&self, state: &State) -> bool {
        self.only_looks && !state.is_acting
    }

    /// What would be done about each node if somebody acted.
    pub(crate) fn outlook(&self, is_vouched: bool) -> Vec<Option<Opinion>> {
        self.lock().council.outlook(is_vouched)
    }

    /// What each node told last, by its address.
    pub(crate) fn met(&self) -> Vec<(Arc<str>, Option<Met>)> {
        let state = self.lock();
        state.council.met().map(|(label, met)| (label.clone(), met.cloned())).collect()
    }

    /// From now on this is the set: every node is told as soon as it is met again.
    pub(crate) fn propose(&self, pact: &Pact) {
        let mut state = self.lock();
        if state.council.pact() != Some(pact) {
            state.council.propose(pact.clone());
            drop(state);
            self.void();
            self.order();
        }
    }

    /// What was proposed and not agreed upon is not told to anybody any more.
    pub(crate) fn retract(&self) {
        self.lock().council.retract();
        self.void();
    }

    /// Whether the nodes have agreed on the terms of this client.
    pub(crate) fn check_terms(&self) -> Result<(), Disagreement> {
        self.lock().council.check_terms()
    }

    /// The change that makes the nodes of this client the set.
    pub(crate) fn plan(&self, now: Moment) -> Result<Pact, Unplanned> {
        let state = self.lock();
        // A node that votes is not met again, and waits for less and less meanwhile.
        let since = |met: &Met, met_at: &Moment| {
            let passed = now.saturating_since(*met_at).as_millis();
            let passed_ms = u64::try_from(passed).unwrap_or(u64::MAX);
            let changes_in_ms = met.changes_in_ms.saturating_sub(passed_ms);
            Met { changes_in_ms, ..met.clone() }
        };
        let known = state.council.met().zip(&state.met_at);
        let known: Vec<(&Arc<str>, Option<Met>)> =
            known.map(|((label, met), at)| (label, met.map(|met| since(met, at)))).collect();
        plan(known.iter().map(|(label, met)| (*label, met.as_ref())))
    }

    /// Whether these are the nodes of this client, by their addresses.
    pub(crate) fn is_wanted(&self, pact: &Pact) -> bool {
        let state = self.lock();
        let wanted = || state.council.met().map(|(label, _)| label);
        wanted().count() == pact.members.len()
            && wanted().all(|label| pact.members.at(label).is_some())
    }

    /// Whether enough nodes go by the pact, and if so, for how long a new one does not vote yet.
    #[expect(clippy::option_option, reason = "none yet, or none that is new")]
    pub(crate) fn agreed(&self, pact: &Pact) -> Option<Option<Duration>> {
        let state = self.lock();
        let goes = |met: &&Met| met.pact.as_ref() == Some(pact);
        let going = || state.council.met().filter_map(|(_, met)| met).filter(goes);
        let sure = going().filter(|met| met.doubt.is_none() || met.is_enrolled);
        let needed = |members: &Members| majority(members.len());
        let most = needed(&pact.members).max(pact.before.as_ref().map_or(0, needed));
        let newcomer = going().find(|met| pact.newcomer == Some(met.id) && met.is_enrolled);
        let left = |met: &Met| met.doubt.map(|(_, left_ms)| Duration::from_millis(left_ms));
        let is_joined = pact.newcomer.is_none() || newcomer.is_some();
        (sure.count() >= most && is_joined).then(|| newcomer.and_then(left))
    }

    /// What nodes were judged by is another list from now on.
    fn void(&self) {
        self.lists.raise();
        self.call();
    }

    fn order(&self) {
        self.orders.raise();
        self.call();
    }

    fn call(&self) {
        self.calls.raise();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
