//! The machine that acquires a lock: it waits for the lock, or tries once.
//!
//! It asks every node. A free node grants the lock. The others queue the waiter and grant it the
//! lock in FIFO order. The lock is held when a majority of grants is alive and a majority stores
//! the same fence. If waiters split the vote, they yield to the earliest ticket.
//!
//! In classic mode ([`Rule::Classic`]) nodes have no queue, and every round of requests is a
//! separate try. A failed try is undone, and the waiter retries as a new owner after a random
//! delay.

mod bounds;
mod classic;
mod grants;
mod node_call;
mod node_state;
mod parts;
mod polls;
mod reentrant;
mod set;
mod side_effects;
mod tries;

use std::collections::VecDeque;

use self::{classic::Retry, node_state::NodeState};
pub use self::{
    node_call::{NodeAction, NodeCall, Outcome, Output, Rule, Wait},
    side_effects::SideEffects,
};
use crate::{
    command::Reply,
    fence::Fence,
    moment::Moment,
    queue::{Extended, PushKind},
    quorum::NodeSet,
    schedule::heartbeat_due,
    terms::Terms,
};

/// One acquire of a lock.
///
/// The replies of a node arrive in the order of the requests, but pushes may overtake them. Every
/// call to a node names an *incarnation* of the owner. After a withdrawal the machine continues as
/// a new incarnation, so that a late release never hits a new grant.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Acquire {
    terms: Terms,
    wait: Wait,
    rule: Rule,
    /// When a waiter retries; only in classic mode.
    retry: Option<Box<Retry>>,
    nodes: Box<[NodeState]>,
    /// The reachable nodes.
    up: NodeSet,
    incarnation: u32,
    /// How often an entry has polled in this incarnation for an earlier ticket.
    split_polls: u32,
    /// How often an entry has backed off.
    backoffs: u32,
    is_contending: bool,
    /// Whether it belongs to a set that ends together: see [`member`](Self::member).
    is_member: bool,
    /// At the last check some nodes were reachable, but too few.
    is_cut_off: bool,
    started_at: Moment,
    heartbeat_at: Moment,
    poll_at: Option<Moment>,
    /// Since when too few nodes are reachable or answer without errors.
    no_quorum_since: Option<Moment>,
    to_send: VecDeque<(usize, NodeCall)>,
    outcome: Option<Outcome>,
    side_effects: SideEffects,
}

impl Acquire {
    /// Starts at `now`, before the first byte is sent. `up` has the reachable nodes.
    #[must_use]
    pub fn start(terms: Terms, nodes: usize, up: NodeSet, wait: Wait, now: Moment) -> Self {
        let mut attempt = Self {
            terms,
            wait,
            rule: Rule::Fenced,
            retry: None,
            nodes: vec![NodeState::default(); nodes].into(),
            up,
            incarnation: 0,
            split_polls: 0,
            backoffs: 0,
            is_contending: false,
            is_member: false,
            is_cut_off: false,
            started_at: now,
            heartbeat_at: now,
            poll_at: None,
            no_quorum_since: None,
            to_send: VecDeque::new(),
            outcome: None,
            side_effects: SideEffects::default(),
        };
        attempt.heartbeat(now);
        // Fail immediately if too few nodes are reachable: a single try sends no requests then.
        attempt.decide_try(now);
        attempt
    }

    /// The same for a reader, which shares the lock with other readers.
    #[must_use]
    pub const fn shared(mut self) -> Self {
        self.rule = Rule::Shared;
        self
    }

    /// The same for an entry of a reentrant lock.
    #[must_use]
    pub const fn reentrant(mut self) -> Self {
        self.rule = Rule::Reentrant;
        self
    }

    /// The same for classic mode, without fences and queues. `seed` determines the delays of a
    /// waiter.
    #[must_use]
    pub fn classic(mut self, seed: u64) -> Self {
        self.rule = Rule::Classic;
        self.retry = self.is_waiting().then(|| Box::new(Retry::new(seed)));
        self
    }

    /// The number of nodes.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The current incarnation of the owner. Pushes for older incarnations are ignored.
    #[must_use]
    pub const fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// The outcome, as soon as it is certain.
    #[must_use]
    pub const fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    /// The nodes that were asked in this incarnation. They may store something of the owner.
    #[must_use]
    pub fn asked(&self) -> NodeSet {
        self.nodes_where(|state| state.not_granted_at.is_some())
    }

    /// Whether it waits for the lock instead of trying once.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        matches!(self.wait, Wait::Patiently(_))
    }

    /// Whether a node has not answered the last request.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        !self.unanswered().is_empty()
    }

    /// The nodes whose last reply was that another owner holds the lock.
    #[must_use]
    pub fn refused(&self) -> NodeSet {
        self.nodes_where(|state| state.is_refused)
    }

    /// Whether too few nodes are reachable or answer without errors.
    #[must_use]
    pub const fn lacks_quorum(&self) -> bool {
        self.no_quorum_since.is_some()
    }

    /// What nodes may store for the owner besides its keys.
    #[must_use]
    pub const fn side_effects(&self) -> &SideEffects {
        &self.side_effects
    }

    /// The nodes whose grants count.
    #[must_use]
    pub fn granted(&self) -> NodeSet {
        self.nodes_where(|state| state.grant.is_some())
    }

    /// The next action.
    pub fn poll_output(&mut self) -> Output {
        if let Some((node, call)) = self.to_send.pop_front() {
            return Output::Call { node, call };
        }
        // It may wait for long, and there may be many.
        self.to_send = VecDeque::new();
        match self.outcome {
            Some(_) => Output::Idle,
            None => Output::Wait { until: self.due_at() },
        }
    }

    /// The reply of `node` to `call`, which was sent at `sent_at`; `None` without a usable reply.
    /// In classic mode only [`handle_vote`](Self::handle_vote) counts.
    pub fn handle_reply(
        &mut self,
        node: usize,
        call: NodeCall,
        sent_at: Moment,
        reply: Option<&Reply>,
        now: Moment,
    ) {
        self.side_effects.handle_reply(call.action, reply);
        if call.incarnation != self.incarnation || self.outcome.is_some() {
            return;
        }
        match (call.action, reply) {
            (NodeAction::Acquire { .. }, Some(Reply::Granted { fence, is_earlier })) => {
                self.nodes[node].handle_answer();
                self.handle_granted(node, *fence, sent_at, now);
                match *is_earlier {
                    true if self.rule == Rule::Reentrant => {
                        self.note_earlier_waiter(call, node, now);
                    }
                    true => self.yield_grant(node, *fence, now),
                    false => {}
                }
            }
            (
                NodeAction::Acquire { .. },
                Some(Reply::Queued { fence, expires_in_ms, rank, is_foreign }),
            ) => {
                self.nodes[node].handle_refused(*fence, sent_at);
                self.schedule_poll(*expires_in_ms, *rank, *is_foreign, now);
            }
            (NodeAction::Acquire { .. }, _) => {
                self.nodes[node].handle_failure();
                self.schedule_retry(node, now);
                self.track_quorum(now);
            }
            (NodeAction::Yield(_), Some(Reply::Released { is_ours: true })) => {
                self.nodes[node].not_granted_at = Some(sent_at);
            }
            (NodeAction::Reject(fence), Some(Reply::Released { is_ours: true })) => {
                self.nodes[node].handle_forgotten(fence, sent_at);
            }
            (NodeAction::Confirm(_), Some(Reply::ExtendedLeases(results))) => match **results {
                [Extended::Renewed(fence)] => {
                    mutate!(ConfirmAnyFence => let fence = match call.action {
                        NodeAction::Confirm(wanted) => wanted,
                        _ => fence,
                    });
                    self.handle_granted(node, fence, sent_at, now);
                }
                [Extended::Refused(fence)] => {
                    self.nodes[node].handle_unconfirmed();
                    self.nodes[node].drop_grant(fence);
                    self.send_acquire(node, now);
                }
                _ => self.handle_unconfirmed(node, now),
            },
            (NodeAction::Confirm(_), _) => self.handle_unconfirmed(node, now),
            (NodeAction::Yield(_) | NodeAction::Reject(_) | NodeAction::Release, _) => {}
        }
        if self.no_quorum_since.is_some() {
            self.track_quorum(now);
        }
        if call.is_acquire() {
            self.poll_if_split(now);
        }
        self.decide_try(now);
    }

    /// A push of a node about one incarnation of the owner.
    pub fn handle_push(
        &mut self,
        node: usize,
        incarnation: u32,
        kind: PushKind,
        fence: Fence,
        now: Moment,
    ) {
        mutate!(EarlyPushIgnored if self.nodes[node].is_pending => return);
        if incarnation != self.incarnation || self.outcome.is_some() {
            return;
        }
        match kind {
            PushKind::Granted => {
                let since = self.nodes[node].not_granted_at.unwrap_or(now);
                mutate!(PushedNow => let since = now);
                let known = self.nodes[node].grant.map(|grant| grant.fence);
                if known.is_none_or(|known| known < fence) {
                    self.handle_granted(node, fence, since, now);
                    // No request may follow for a long time, and the pushed grants may be less than
                    // a majority.
                    self.poll_if_split(now);
                }
            }
            PushKind::Inquired => self.yield_grant(node, fence, now),
        }
    }

    /// The node is reachable.
    pub fn handle_up(&mut self, node: usize, now: Moment) {
        self.up.insert(node);
        self.nodes[node].handle_silence();
        self.nodes[node].failures = 0;
        self.is_cut_off &= !self.has_quorum_up();
        if self.outcome.is_some() {
            return;
        }
        if self.is_contending {
            self.send_acquire(node, now);
        } else if self.has_quorum_up() && !self.is_backing_off() {
            self.heartbeat(now);
        }
    }

    /// The node is unreachable. Its grant still counts until it expires.
    pub fn handle_down(&mut self, node: usize) {
        self.up.remove(node);
        self.nodes[node].handle_silence();
    }

    /// The node lost its data or is judged anew. Its grant no longer counts.
    pub fn handle_forgotten(&mut self, node: usize) {
        self.handle_down(node);
        self.nodes[node].grant = None;
    }

    /// The time has come that `poll_output` returned.
    pub fn handle_timeout(&mut self, now: Moment) {
        if self.outcome.is_some() || now < self.due_at() {
            return;
        }
        if !self.is_trying() {
            self.heartbeat(now);
        } else if !self.waits_for_set(now) {
            self.end_try(now);
        }
    }

    /// The caller is gone and will never use the lock.
    pub fn handle_abandon(&mut self) {
        self.outcome = Some(Outcome::Abandoned);
        mutate!(AbandonKeeps => return);
        self.release_all();
    }

    /// When a try times out, or when a waiter sends a heartbeat or a poll, or gives up.
    fn due_at(&self) -> Moment {
        if self.is_trying() {
            return self.terms.give_up_at(self.started_at);
        }
        let poll_at = self.poll_at.unwrap_or(self.heartbeat_at);
        let ends_at =
            self.no_quorum_since.map_or(self.heartbeat_at, |it| it.saturating_add(self.patience()));
        self.heartbeat_at.min(poll_at).min(ends_at)
    }

    /// Asks every reachable node, or withdraws if too few are reachable.
    fn heartbeat(&mut self, now: Moment) {
        self.poll_at = None;
        self.heartbeat_at = heartbeat_due(now, self.terms.ttl());
        self.end_backoff();
        if self.must_withdraw(now) {
            return self.withdraw_and_back_off(now);
        }
        self.track_quorum(now);
        let has_quorum = self.has_quorum_up();
        mutate!(NoWithdraw => let has_quorum = true);
        if self.is_out_of_patience(now) {
            self.release_all();
            self.outcome = Some(Outcome::NoQuorum);
        } else if has_quorum {
            self.is_cut_off = false;
            self.begin_try(now);
            mutate!(NoHeartbeat if self.is_contending => return self.drop_expired_grants(now));
            self.is_contending = true;
            self.up.iter().for_each(|node| self.send_acquire(node, now));
        } else if self.is_contending {
            self.check_cut_off(now);
        }
        self.drop_expired_grants(now);
    }

    /// Tracks since when too few nodes are reachable or answer without errors.
    fn track_quorum(&mut self, now: Moment) {
        let sound = |node: &usize| self.nodes.get(*node).is_some_and(|state| state.failures == 0);
        let is_sound = self.up.iter().filter(sound).count() >= self.quorum();
        // A waiter in classic mode judges this by the outcome of its tries.
        if is_sound && self.retry.is_none() {
            self.no_quorum_since = None;
        } else if !is_sound {
            self.no_quorum_since.get_or_insert(now);
        }
    }

    /// Withdraws if it is permanently cut off from the majority, as far as it knows. Broken
    /// connections return one by one, and a lost queue position may not be available again: a full
    /// node accepts no new waiters. If no node is reachable, a withdrawal would reach none.
    fn check_cut_off(&mut self, now: Moment) {
        mutate!(HastyWithdraw => return self.withdraw());
        let is_partly_up = self.up != NodeSet::EMPTY;
        let was_cut_off = std::mem::replace(&mut self.is_cut_off, is_partly_up);
        match (is_partly_up, was_cut_off) {
            (true, true) => self.withdraw(),
            (true, false) => self.poll_after(CUT_OFF_CHECK_MS, now),
            (false, _) => {}
        }
    }

    /// Withdraws: a cut-off waiter with an early ticket would block all other waiters.
    fn withdraw(&mut self) {
        self.release_all();
        self.begin_incarnation();
        self.is_cut_off = false;
        self.nodes.fill(NodeState::default());
    }

    /// Later requests use a new owner.
    fn begin_incarnation(&mut self) {
        self.is_contending = false;
        self.split_polls = 0;
        mutate!(SameOwnerAgain => return);
        self.incarnation = self.incarnation.saturating_add(1);
    }

    /// Releases every node that may store something of the owner.
    fn release_all(&mut self) {
        if self.is_backing_off() {
            return;
        }
        let nodes = self.nodes_where(|state| self.may_store_owner(state));
        nodes.iter().for_each(|node| self.send(node, NodeAction::Release));
    }

    /// Whether the node was asked, and did not reject a try.
    fn may_store_owner(&self, state: &NodeState) -> bool {
        mutate!(UnknownIsRefusal if self.is_classic() && state.is_pending => return false);
        mutate!(UndoGrantedOnly if state.grant.is_none() => return false);
        let is_clean = self.is_trying() && state.is_refused && !state.is_pending;
        state.not_granted_at.is_some() && !is_clean
    }

    fn send_acquire(&mut self, node: usize, now: Moment) {
        let is_known = self.nodes[node].not_granted_at.is_some();
        // Asking twice in classic mode is useless: the owner's own key is in the way.
        let is_enough = is_known && self.rule == Rule::Classic;
        if !self.up.contains(node) || self.nodes[node].is_pending || is_enough {
            return;
        }
        self.nodes[node].handle_sent(now);
        let is_waiting = self.is_waiting();
        self.send(node, NodeAction::Acquire { is_waiting, is_known });
    }

    fn send(&mut self, node: usize, action: NodeAction) {
        self.side_effects.handle_call(action);
        self.to_send.push_back((node, NodeCall { incarnation: self.incarnation, action }));
    }

    fn nodes_where(&self, is: impl Fn(&NodeState) -> bool) -> NodeSet {
        let mut nodes = NodeSet::EMPTY;
        self.nodes.iter().enumerate().filter(|(_, state)| is(state)).for_each(|(node, _)| {
            nodes.insert(node);
        });
        nodes
    }
}

/// How long connections may take to return before the queue position is given up: the time to
/// detect a silent connection and to replace it. A heartbeat may check earlier.
const CUT_OFF_CHECK_MS: u64 = 2_000;

#[cfg(test)]
mod tests;
