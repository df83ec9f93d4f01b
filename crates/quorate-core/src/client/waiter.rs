//! One call that acquires a lock: its owners, its commands and its position in the queue.

use std::collections::VecDeque;

use super::{
    CallId, Config, Debt, Observer,
    owners::{OwnerKind, Owners},
};
use crate::{
    acquire::{self, Acquire, NodeAction, NodeCall, Outcome, Wait},
    command::{Command, Owner, Reply},
    dialect::{Adoption, Dialect, Target},
    fence::Fence,
    moment::Moment,
    name::Name,
    queue::{FencedLease, Position, Push},
    quorum::{NodeSet, Vote},
    terms::Terms,
};

/// A request for a lock.
#[derive(Clone, Debug)]
pub struct Want {
    /// The lock.
    pub name: Name,
    /// The ttl and the vote timeout.
    pub terms: Terms,
    /// The kind of owner that requests it. `None`: a plain one.
    pub kind: Option<Box<OwnerKind>>,
    /// Whether it tries once or waits in the queue.
    pub wait: Wait,
    /// Default or classic mode.
    pub dialect: Dialect,
    /// The lease to adopt, if any. An adoption is tried once and needs no position in a queue.
    pub adopts: Option<Box<Adoption>>,
}

/// One call. It exists until every node has answered or timed out, even if the caller has left.
#[derive(Clone, Debug)]
pub struct Waiter {
    want: Want,
    /// The set of which it is a member, if any.
    set: Option<CallId>,
    machine: Acquire,
    started_at: Moment,
    /// Its ticket, once the nodes have reported their time.
    ticket: Option<u64>,
    /// The last one is the current one. Earlier ones are dropped once they were released.
    incarnations: VecDeque<Incarnation>,
    /// The number of incarnations that were dropped.
    dropped: u32,
    steps: VecDeque<Step>,
    is_end_added: bool,
}

/// An output in short form. The command is built when it is sent, which keeps waiters small.
#[derive(Clone, Debug)]
enum Step {
    Wait(Owner),
    Hold(Owner),
    Forget(Owner),
    Send { node: usize, node_call: NodeCall, is_first: bool },
}

/// One owner that requests the lock. After a withdrawal the call continues as a new owner, because
/// a late release must never remove a new grant.
#[derive(Clone, Debug, Hash)]
struct Incarnation {
    owner: Owner,
    /// The nodes that may know it. On others it has nothing to release.
    sent: NodeSet,
    is_forgotten: bool,
}

impl Incarnation {
    const fn new(owner: Owner) -> Self {
        Self { owner, sent: NodeSet::EMPTY, is_forgotten: false }
    }
}

/// What the driver must do next.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub enum Output {
    /// Route pushes about this owner to the waiter from now on.
    Wait(Owner),
    /// The owner holds the lock. Ignore pushes about it.
    Hold(Owner),
    /// Do not route pushes about this owner to the waiter any more.
    Forget(Owner),
    /// Send this command, or report immediately that it cannot be sent.
    Send {
        /// The node.
        node: usize,
        /// The node call of the command.
        node_call: NodeCall,
        /// Whether this is the first command to the node about this owner.
        is_first: bool,
        /// The command. Each connection inserts its own session.
        command: Command,
    },
    /// Call `handle_timeout` at this moment, unless another input comes first.
    Until(Moment),
    /// Nothing more to do.
    Idle,
}

impl Waiter {
    /// Starts at `now`, before the first byte is sent. `up` are the nodes that can be reached. The
    /// caller routes pushes about its [owner](Self::owner) to it from now on.
    #[must_use]
    pub fn start(
        want: Want,
        set: Option<CallId>,
        nodes: usize,
        up: NodeSet,
        owners: &mut impl Owners,
        now: Moment,
    ) -> Self {
        let machine = Acquire::start(want.terms, nodes, up, want.wait, now);
        let machine = match want.kind() {
            _ if !want.is_queueing() => machine.classic(owners.draw_seed()),
            OwnerKind { identity: Some(_), .. } => machine.reentrant(),
            OwnerKind { is_shared: true, .. } => machine.shared(),
            OwnerKind { .. } => machine,
        };
        let machine = if set.is_some() { machine.member() } else { machine };
        let mut waiter = Self {
            want,
            set,
            machine,
            started_at: now,
            ticket: None,
            steps: VecDeque::new(),
            incarnations: VecDeque::with_capacity(1),
            dropped: 0,
            is_end_added: false,
        };
        waiter.ticket = waiter.draw_ticket(owners);
        // Without a position this owner is only registered in the client, and never sent.
        let owner = waiter.next_owner(owners);
        waiter.incarnations.push_back(Incarnation::new(owner));
        waiter
    }

    /// The state machine of the acquire.
    #[must_use]
    pub const fn machine(&self) -> &Acquire {
        &self.machine
    }

    /// The set of which it is a member.
    pub(super) const fn set(&self) -> Option<CallId> {
        self.set
    }

    /// The request.
    #[must_use]
    pub const fn want(&self) -> &Want {
        &self.want
    }

    /// When the call started.
    #[must_use]
    pub const fn started_at(&self) -> Moment {
        self.started_at
    }

    /// Its ticket, once it has one.
    #[must_use]
    pub const fn ticket(&self) -> Option<u64> {
        self.ticket
    }

    /// The current owner.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.current().owner
    }

    /// Nodes to which the current owner was never sent.
    #[must_use]
    pub fn untaken(&self) -> NodeSet {
        NodeSet::all(self.machine.nodes()).without(self.current().sent)
    }

    /// The next output.
    pub fn poll_output(&mut self, config: &Config, owners: &mut impl Owners) -> Output {
        loop {
            if let Some(step) = self.steps.pop_front() {
                return match step {
                    Step::Wait(owner) => Output::Wait(owner),
                    Step::Hold(owner) => Output::Hold(owner),
                    Step::Forget(owner) => Output::Forget(owner),
                    Step::Send { node, node_call, is_first } => {
                        let Some(known) = self.incarnation(node_call.incarnation) else { continue };
                        let owner = known.owner.clone();
                        let command = self.command(config, owner, node_call.action);
                        Output::Send { node, node_call, is_first, command }
                    }
                };
            }
            match self.machine.poll_output() {
                acquire::Output::Call { node, call } => self.send(node, call, owners),
                _ if self.add_end() => {}
                acquire::Output::Wait { until } => {
                    self.drop_forgotten();
                    // It may wait for long, and there may be many.
                    self.steps = VecDeque::new();
                    return Output::Until(until);
                }
                acquire::Output::Idle => return Output::Idle,
            }
        }
    }

    /// Records that this could not be sent. Then its reply is handled as `None`.
    pub fn handle_unsent(&mut self, node: usize, node_call: NodeCall, is_first: bool) {
        if let Some(known) = self.incarnation(node_call.incarnation).filter(|_| is_first) {
            known.sent.remove(node);
        }
    }

    /// Handles the reply of `node` to `command`, which was sent at `sent_at`. `None`: there was no
    /// usable reply. Returns the debt of a release without a reply.
    pub fn handle_answer(
        &mut self,
        config: &Config,
        node: usize,
        (node_call, sent_at, command): (NodeCall, Moment, &Command),
        reply: Option<&Reply>,
        now: Moment,
    ) -> Option<Debt> {
        if self.machine.is_classic() {
            let vote = reply.map_or(Vote::Unknown, |reply| command.vote(reply));
            self.machine.handle_vote(node, node_call, sent_at, vote, now);
        } else {
            self.machine.handle_reply(node, node_call, sent_at, reply, now);
        }
        let is_owed = reply.is_none() && node_call.action == NodeAction::Release;
        is_owed.then(|| Debt::new(command, self.want.terms, config, now))
    }

    /// Handles a push about one of its owners.
    pub fn handle_push(&mut self, node: usize, push: &Push, now: Moment) {
        if self.owner() == &push.owner {
            self.machine.handle_push(node, self.machine.incarnation(), push.kind, push.fence, now);
        }
    }

    /// The node can be reached from now on.
    pub fn handle_up(&mut self, node: usize, now: Moment) {
        self.machine.handle_up(node, now);
    }

    /// The node cannot be reached any more. `is_forgotten`: it has also lost what it knew about
    /// this client.
    pub fn handle_down(&mut self, node: usize, is_forgotten: bool) {
        match is_forgotten {
            true => self.machine.handle_forgotten(node),
            false => self.machine.handle_down(node),
        }
    }

    /// Handles the moment of [`Output::Until`].
    pub fn handle_timeout(&mut self, now: Moment) {
        self.machine.handle_timeout(now);
    }

    /// Whether a majority has granted the lock.
    pub(super) fn has_majority(&self) -> bool {
        self.machine.has_majority()
    }

    /// Whether a member of a set could hold its lock now. Requests what is missing.
    pub(super) fn is_ready(&mut self, now: Moment) -> bool {
        self.machine.is_ready(now)
    }

    /// Until when it pauses after a try that failed.
    pub(super) fn retry_at(&self, now: Moment) -> Option<Moment> {
        self.machine.retry_at(now)
    }

    /// Pauses until then, because the try of another member of its set failed.
    pub(super) fn back_off_until(&mut self, at: Moment) {
        self.machine.back_off_until(at);
    }

    /// Takes the lock: all members of its set are ready.
    pub(super) fn conclude(&mut self, now: Moment) {
        self.machine.conclude(now);
    }

    /// Records that the caller has left and will never use the lock.
    pub fn handle_abandon(&mut self) {
        if self.machine.outcome() != Some(Outcome::Abandoned) {
            self.machine.handle_abandon();
            self.is_end_added = false;
        }
    }

    /// Reports every part, or only the owners if nothing remains to be decided.
    pub(super) fn observe(&self, is_settled: bool, to: &mut impl Observer) {
        let Self {
            want: _,
            set: _,
            machine,
            started_at: _,
            ticket,
            incarnations,
            dropped: _,
            steps,
            is_end_added,
        } = self;
        to.detail(machine);
        incarnations.iter().for_each(|known| to.whole(&known.owner));
        let (nodes, rest) = machine.parts();
        let rest = (rest, ticket, incarnations, steps.len(), is_end_added);
        if is_settled {
            to.detail(&rest);
            return;
        }
        to.whole(&rest);
        nodes.enumerate().for_each(|(node, state)| to.of_node(node, &state));
    }

    /// Adds a command to one node to the outputs.
    fn send(&mut self, node: usize, node_call: NodeCall, owners: &mut impl Owners) {
        self.take_ticket(owners);
        // Register the next incarnation before the last one is forgotten. In between, the client
        // would have no waiter to notify of nodes that come up.
        let last = self.machine.incarnation().max(node_call.incarnation);
        while self.last_incarnation() < last {
            let owner = self.next_owner(owners);
            self.incarnations.push_back(Incarnation::new(owner.clone()));
            mutate!(ReturnUnregistered => continue);
            self.add_routing(Step::Wait(owner));
        }
        let Some(known) = self.incarnation(node_call.incarnation) else { return };
        let is_known = known.sent.contains(node);
        if node_call.action == NodeAction::Release {
            if !std::mem::replace(&mut known.is_forgotten, true) {
                let owner = known.owner.clone();
                self.add_routing(Step::Forget(owner));
            }
            if !is_known {
                return;
            }
        } else {
            known.sent.insert(node);
        }
        self.steps.push_back(Step::Send { node, node_call, is_first: !is_known });
    }

    /// Draws its ticket: the nodes' time at which the caller came, even if the nodes reported their
    /// time only later.
    fn take_ticket(&mut self, owners: &mut impl Owners) {
        if self.ticket.is_some() || !self.want.is_queueing() {
            return;
        }
        // No command is sent before a majority has reported its time.
        self.ticket = Some(self.draw_ticket(owners).unwrap_or(0));
        let owner = self.next_owner(owners);
        self.add_routing(Step::Wait(owner.clone()));
        let before = std::mem::take(&mut self.incarnations);
        before.into_iter().for_each(|known| self.add_routing(Step::Forget(known.owner)));
        self.incarnations.push_back(Incarnation::new(owner));
    }

    /// Its ticket, if enough nodes have reported their time.
    fn draw_ticket(&self, owners: &mut impl Owners) -> Option<u64> {
        self.want.is_queueing().then(|| owners.draw_ticket(self.started_at, self.set))?
    }

    /// Its position in the queue. Without a ticket it is never sent.
    fn position(&self, owners: &impl Owners) -> Position {
        let (ticket, ttl_ms) = (self.ticket.unwrap_or(0), self.want.terms.ttl_ms());
        Position { ticket, ttl_ms, client: owners.client() }
    }

    fn next_owner(&self, owners: &mut impl Owners) -> Owner {
        let (kind, Want { adopts, dialect, .. }) = (self.want.kind(), &self.want);
        match adopts {
            Some(adoption) => adoption.owner.clone(),
            None if dialect.has_queue() => owners.next_owner(&self.position(owners), kind),
            None => owners.next_plain_owner(kind),
        }
    }

    /// Adds an output about push routing. Nodes send pushes only in the default mode.
    fn add_routing(&mut self, step: Step) {
        if self.want.gets_pushes() {
            self.steps.push_back(step);
        }
    }

    /// Drops owners that were given up: no more commands are sent for them.
    fn drop_forgotten(&mut self) {
        while self.incarnations.len() > 1 {
            self.incarnations.pop_front();
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    /// The number of the current incarnation.
    fn last_incarnation(&self) -> u32 {
        let kept = u32::try_from(self.incarnations.len()).unwrap_or(u32::MAX);
        self.dropped.saturating_add(kept).saturating_sub(1)
    }

    /// Adds the output that the outcome requires for the owner, once. Returns false if there is
    /// none.
    fn add_end(&mut self) -> bool {
        let Some(outcome) = self.machine.outcome() else { return false };
        if std::mem::replace(&mut self.is_end_added, true) {
            return false;
        }
        let owner = self.owner().clone();
        let is_held = matches!(outcome, Outcome::Held { .. });
        mutate!(HolderForgotten => let is_held = false);
        self.add_routing(if is_held { Step::Hold(owner) } else { Step::Forget(owner) });
        true
    }

    fn incarnation(&mut self, number: u32) -> Option<&mut Incarnation> {
        self.incarnations.get_mut(usize::try_from(number.checked_sub(self.dropped)?).ok()?)
    }

    fn current(&self) -> &Incarnation {
        self.incarnations.back().expect("a waiter has an incarnation from its start")
    }

    fn command(&self, config: &Config, owner: Owner, action: NodeAction) -> Command {
        let Want { name, terms, dialect, adopts, .. } = &self.want;
        let (builder, target) = (config.builder(), Target { name, owner, ttl_ms: terms.ttl_ms() });
        match (adopts, action) {
            (Some(adoption), NodeAction::Acquire { .. }) => builder.adopt(target, &adoption.from),
            _ => builder.acquire(target, *dialect, action),
        }
    }
}

impl Want {
    fn kind(&self) -> &OwnerKind {
        self.kind.as_deref().unwrap_or(&OwnerKind::PLAIN)
    }

    /// Whether it has a position in a queue.
    const fn is_queueing(&self) -> bool {
        self.dialect.has_queue() && self.adopts.is_none()
    }

    /// Whether nodes send pushes about its owner.
    #[must_use]
    pub(super) const fn gets_pushes(&self) -> bool {
        self.dialect.has_queue()
    }

    /// The fence of a lease that was acquired with this fence.
    pub(super) fn fenced(&self, fence: Fence) -> Option<FencedLease> {
        match &self.adopts {
            Some(adoption) => adoption.fenced,
            None => self.dialect.has_queue().then(|| FencedLease::acquired(fence)),
        }
    }
}
