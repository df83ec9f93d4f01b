//! One acquire of a lock: waiting for it, or trying once.
//!
//! A waiter asks every node. A node that is free grants, the others put it in line and hand the
//! lock over when its turn comes. The lock is held when a majority of grants is alive and one fence
//! is stored at a majority of them. Those who split the vote give way to the earlier ticket.
//!
//! Where nodes have no queue ([`Rule::Classic`]) every round of questions is a try of its own. One
//! that fails is undone, and the waiter tries again under a new owner after a random delay.

mod bounds;
mod classic;
mod grants;
mod node_call;
mod node_state;
mod parts;
mod polls;
mod reentrant;
mod set;
mod traces;
mod tries;

use std::collections::VecDeque;

use self::{classic::Retry, node_state::NodeState};
pub use self::{
    node_call::{NodeAction, NodeCall, Outcome, Output, Rule, Wait},
    traces::Traces,
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

/// One attempt.
///
/// Every node's answers come in the order of the questions, but pushes may overtake them. What is
/// said to a node names the *life* of the owner: after a withdrawal the attempt goes on under a new
/// owner, since a late release must never hit a new grant.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Acquire {
    terms: Terms,
    wait: Wait,
    rule: Rule,
    /// When the next try of a waiter begins; only where nodes have no queue.
    retry: Option<Box<Retry>>,
    nodes: Box<[NodeState]>,
    /// The nodes that can be reached.
    up: NodeSet,
    incarnation: u32,
    /// How often an entry has looked in this life whether an earlier ticket waits.
    looks: u32,
    /// How often an entry has rested.
    rests: u32,
    is_contending: bool,
    /// It is one of several that end together: see [`member`](Self::member).
    is_member: bool,
    /// At the last look some nodes could be reached, but too few.
    is_cut_off: bool,
    started_at: Moment,
    beat_at: Moment,
    poll_at: Option<Moment>,
    /// Since when too few nodes can be reached.
    short_since: Option<Moment>,
    to_send: VecDeque<(usize, NodeCall)>,
    outcome: Option<Outcome>,
    traces: Traces,
}

impl Acquire {
    /// Starts at `now`, before the first byte is sent. `up` are the nodes that can be reached.
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
            looks: 0,
            rests: 0,
            is_contending: false,
            is_member: false,
            is_cut_off: false,
            started_at: now,
            beat_at: now,
            poll_at: None,
            short_since: None,
            to_send: VecDeque::new(),
            outcome: None,
            traces: Traces::default(),
        };
        attempt.beat(now);
        // One try asks nobody, and so waits for nobody, if too few nodes can be reached.
        attempt.decide_try(now);
        attempt
    }

    /// The same, of an owner that shares the lock with others of its kind.
    #[must_use]
    pub const fn shared(mut self) -> Self {
        self.rule = Rule::Shared;
        self
    }

    /// The same, of an entry of a reentrant lock.
    #[must_use]
    pub const fn reentrant(mut self) -> Self {
        self.rule = Rule::Reentrant;
        self
    }

    /// The same, of an owner that uses neither fences nor queues. The delays of a waiter follow
    /// from `seed`.
    #[must_use]
    pub fn plain(mut self, seed: u64) -> Self {
        self.rule = Rule::Classic;
        self.retry = self.is_waiting().then(|| Box::new(Retry::new(seed)));
        self
    }

    /// How many nodes there are.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The owner's present life; a push for an older one is for nobody.
    #[must_use]
    pub const fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// How it ended, as soon as that is certain.
    #[must_use]
    pub const fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    /// The nodes that were ever asked under today's owner: they may have something to give back.
    #[must_use]
    pub fn asked(&self) -> NodeSet {
        self.nodes_where(|state| state.asked_at.is_some())
    }

    /// True for one who stays in line until its turn comes.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        matches!(self.wait, Wait::Patiently(_))
    }

    /// True while a node has not answered the last question.
    #[must_use]
    pub fn is_acquire(&self) -> bool {
        !self.unanswered().is_empty()
    }

    /// The nodes whose last answer was that another has the lock.
    #[must_use]
    pub fn refused(&self) -> NodeSet {
        self.nodes_where(|state| state.is_refused)
    }

    /// True while too few nodes can be reached, or answer anything but errors.
    #[must_use]
    pub const fn is_short(&self) -> bool {
        self.short_since.is_some()
    }

    /// What the nodes may know of the owner besides its keys.
    #[must_use]
    pub const fn traces(&self) -> &Traces {
        &self.traces
    }

    /// The nodes whose grants are counted.
    #[must_use]
    pub fn granted(&self) -> NodeSet {
        self.nodes_where(|state| state.grant.is_some())
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Output {
        if let Some((node, call)) = self.to_send.pop_front() {
            return Output::Call { node, call };
        }
        match self.outcome {
            Some(_) => Output::Idle,
            None => Output::Wait { until: self.due_at() },
        }
    }

    /// What `node` answered to `said`, which was sent at `sent_at`. `None` is no usable answer. Of
    /// a plain owner only the [vote](Self::handle_vote) counts.
    pub fn handle_reply(
        &mut self,
        node: usize,
        call: NodeCall,
        sent_at: Moment,
        reply: Option<&Reply>,
        now: Moment,
    ) {
        self.traces.handle_reply(call.action, reply);
        if call.incarnation != self.incarnation || self.outcome.is_some() {
            return;
        }
        match (call.action, reply) {
            (NodeAction::Acquire { .. }, Some(Reply::Granted { fence, is_earlier })) => {
                self.nodes[node].handle_answer();
                self.handle_granted(node, *fence, sent_at, now);
                match *is_earlier {
                    true if self.rule == Rule::Reentrant => self.note_passed(call, node, now),
                    true => self.give_way(node, *fence, now),
                    false => {}
                }
            }
            (
                NodeAction::Acquire { .. },
                Some(Reply::Queued { fence, expires_in_ms, rank, is_foreign }),
            ) => {
                self.nodes[node].handle_refused(*fence, sent_at);
                self.plan_poll(*expires_in_ms, *rank, *is_foreign, now);
            }
            (NodeAction::Acquire { .. }, _) => {
                self.nodes[node].handle_failure();
                self.plan_retry(node, now);
                self.look_if_short(now);
            }
            (NodeAction::Yield(_), Some(Reply::Released { is_ours: true })) => {
                self.nodes[node].asked_at = Some(sent_at);
            }
            (NodeAction::Reject(fence), Some(Reply::Released { is_ours: true })) => {
                self.nodes[node].handle_forgotten(fence, sent_at);
            }
            (NodeAction::Confirm(_), Some(Reply::ExtendedLeases(fates))) => match **fates {
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
                    self.ask(node, now);
                }
                _ => self.handle_unconfirmed(node, now),
            },
            (NodeAction::Confirm(_), _) => self.handle_unconfirmed(node, now),
            (NodeAction::Yield(_) | NodeAction::Reject(_) | NodeAction::Release, _) => {}
        }
        if self.short_since.is_some() {
            self.look_if_short(now);
        }
        if call.is_acquire() {
            self.look_if_split(now);
        }
        self.decide_try(now);
    }

    /// What a node told unasked about one life of the owner.
    pub fn handle_push(
        &mut self,
        node: usize,
        incarnation: u32,
        kind: PushKind,
        fence: Fence,
        now: Moment,
    ) {
        mutate!(EarlyPushIgnored if self.nodes[node].is_acquire => return);
        if incarnation != self.incarnation || self.outcome.is_some() {
            return;
        }
        match kind {
            PushKind::Granted => {
                let since = self.nodes[node].asked_at.unwrap_or(now);
                mutate!(PushedNow => let since = now);
                let known = self.nodes[node].grant.map(|grant| grant.fence);
                if known.is_none_or(|known| known < fence) {
                    self.handle_granted(node, fence, since, now);
                    // Nobody may ask for long: what is handed over may be less than a majority.
                    self.look_if_split(now);
                }
            }
            PushKind::Inquired => self.give_way(node, fence, now),
        }
    }

    /// The node can be reached.
    pub fn handle_up(&mut self, node: usize, now: Moment) {
        self.up.insert(node);
        self.nodes[node].handle_silence();
        self.nodes[node].failures = 0;
        self.is_cut_off &= !self.has_quorum_up();
        if self.outcome.is_some() {
            return;
        }
        if self.is_contending {
            self.ask(node, now);
        } else if self.has_quorum_up() && !self.is_resting() {
            self.beat(now);
        }
    }

    /// The node cannot be reached any more. What it granted stays ours for its time.
    pub fn handle_down(&mut self, node: usize) {
        self.up.remove(node);
        self.nodes[node].handle_silence();
    }

    /// The node is not what it was: it knows nothing of us any more, or is judged anew. What it
    /// granted does not count.
    pub fn handle_forgotten(&mut self, node: usize) {
        self.handle_down(node);
        self.nodes[node].grant = None;
    }

    /// The time that `poll_output` has named has come.
    pub fn handle_timeout(&mut self, now: Moment) {
        if self.outcome.is_some() || now < self.due_at() {
            return;
        }
        if !self.is_trying() {
            self.beat(now);
        } else if !self.awaits_others(now) {
            self.end_try(now);
        }
    }

    /// The caller has gone and will never use the lock.
    pub fn handle_abandon(&mut self) {
        self.outcome = Some(Outcome::Abandoned);
        mutate!(AbandonKeeps => return);
        self.leave();
    }

    /// When a try is over, or a waiter has something to do: a heartbeat, a poll, or to give up.
    fn due_at(&self) -> Moment {
        if self.is_trying() {
            return self.terms.give_up_at(self.started_at);
        }
        let poll_at = self.poll_at.unwrap_or(self.beat_at);
        let ends_at =
            self.short_since.map_or(self.beat_at, |it| it.saturating_add(self.patience()));
        self.beat_at.min(poll_at).min(ends_at)
    }

    /// Asks every node that can be reached, or withdraws if those are too few.
    fn beat(&mut self, now: Moment) {
        self.poll_at = None;
        self.beat_at = heartbeat_due(now, self.terms.ttl());
        self.end_rest();
        if self.is_passed_over(now) {
            return self.give_up_place(now);
        }
        self.look_if_short(now);
        let has_quorum = self.has_quorum_up();
        mutate!(NoWithdraw => let has_quorum = true);
        if self.is_out_of_patience(now) {
            self.leave();
            self.outcome = Some(Outcome::NoQuorum);
        } else if has_quorum {
            self.is_cut_off = false;
            self.begin_try(now);
            mutate!(NoHeartbeat if self.is_contending => return self.drop_dead(now));
            self.is_contending = true;
            self.up.iter().for_each(|node| self.ask(node, now));
        } else if self.is_contending {
            self.look_if_cut_off(now);
        }
        self.drop_dead(now);
    }

    /// Notes since when too few nodes can be reached, or answer anything but errors.
    fn look_if_short(&mut self, now: Moment) {
        let sound = |node: &usize| self.nodes.get(*node).is_some_and(|state| state.failures == 0);
        let is_sound = self.up.iter().filter(sound).count() >= self.quorum();
        // A plain owner that tries again goes by how its tries end.
        if is_sound && self.retry.is_none() {
            self.short_since = None;
        } else if !is_sound {
            self.short_since.get_or_insert(now);
        }
    }

    /// Withdraws if it is cut off from the majority for good, for all that it knows. Connections
    /// that break together come back one after another, and a place that is given up may not be had
    /// again: a full node gives none. Where no node can be reached, nobody would hear of it.
    fn look_if_cut_off(&mut self, now: Moment) {
        mutate!(HastyWithdraw => return self.withdraw());
        let is_partly_up = self.up != NodeSet::EMPTY;
        let was_cut_off = std::mem::replace(&mut self.is_cut_off, is_partly_up);
        match (is_partly_up, was_cut_off) {
            (true, true) => self.withdraw(),
            (true, false) => self.poll_after(SECOND_LOOK_MS, now),
            (false, _) => {}
        }
    }

    /// An early ticket that is cut off from the majority would be in everybody's way for ever.
    fn withdraw(&mut self) {
        self.leave();
        self.begin_incarnation();
        self.is_cut_off = false;
        self.nodes.fill(NodeState::default());
    }

    /// Whatever is asked for next is asked for by a new owner.
    fn begin_incarnation(&mut self) {
        self.is_contending = false;
        self.looks = 0;
        mutate!(SameOwnerAgain => return);
        self.incarnation = self.incarnation.saturating_add(1);
    }

    /// Tells every node that may have something of the owner that it goes.
    fn leave(&mut self) {
        if self.is_resting() {
            return;
        }
        let told = self.nodes_where(|state| self.may_remain(state));
        told.iter().for_each(|node| self.say(node, NodeAction::Release));
    }

    /// True of every node that was ever asked, but for one that plainly refused a try.
    fn may_remain(&self, state: &NodeState) -> bool {
        mutate!(UnknownIsRefusal if self.is_plain() && state.is_acquire => return false);
        mutate!(UndoGrantedOnly if state.grant.is_none() => return false);
        let is_clean = self.is_trying() && state.is_refused && !state.is_acquire;
        state.asked_at.is_some() && !is_clean
    }

    fn ask(&mut self, node: usize, now: Moment) {
        let is_known = self.nodes[node].asked_at.is_some();
        // To ask twice for a plain owner tells nothing: its own key is in the way.
        let is_enough = is_known && self.rule == Rule::Classic;
        if !self.up.contains(node) || self.nodes[node].is_acquire || is_enough {
            return;
        }
        self.nodes[node].handle_asked(now);
        let is_waiting = self.is_waiting();
        self.say(node, NodeAction::Acquire { is_waiting, is_known });
    }

    fn say(&mut self, node: usize, action: NodeAction) {
        self.traces.handle_call(action);
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

/// How long connections have to come back before a place is given up: as long as it takes to notice
/// that one is silent and to make it anew. A heartbeat may come earlier.
const SECOND_LOOK_MS: u64 = 2_000;

#[cfg(test)]
mod tests;
