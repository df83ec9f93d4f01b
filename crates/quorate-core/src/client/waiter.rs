//! One call that acquires a lock: its owners, its commands and its position.

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

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Want {
    /// The lock.
    pub name: Name,
    /// For how long, and how long silent nodes are waited for.
    pub terms: Terms,
    /// By whom.
    pub kind: OwnerKind,
    /// Once, or until its turn comes.
    pub wait: Wait,
    /// How nodes are asked.
    pub dialect: Dialect,
    /// The lease that is taken over, if one is. That is tried once, and needs no place in a queue.
    pub adopts: Option<Box<Adoption>>,
}

/// One call. It lives until every node has answered or was given up, whatever becomes of the
/// caller.
#[derive(Clone, Debug)]
pub struct Waiter {
    want: Want,
    /// The set that it is a member of, if it is one of several.
    set: Option<CallId>,
    machine: Acquire,
    started_at: Moment,
    /// Its place in the queue, once the nodes have told their time.
    place: Option<Position>,
    /// The last one is that of today. Those before it are dropped once they are forgotten.
    incarnations: VecDeque<Incarnation>,
    /// How many were dropped.
    dropped: u32,
    to_do: VecDeque<Step>,
    is_end_noted: bool,
}

/// An output in short form. The command is built when it leaves, which keeps waiters small.
#[derive(Clone, Debug)]
enum Step {
    Wait(Owner),
    Hold(Owner),
    Forget(Owner),
    Send { node: usize, node_call: NodeCall, is_first: bool },
}

/// One owner under which the lock is asked for. After a withdrawal the call goes on under a new
/// one, since a late release must never hit a new grant.
#[derive(Clone, Debug, Hash)]
struct Incarnation {
    owner: Owner,
    /// Where it may be known. Elsewhere it has nothing to give back.
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
    /// Pushes about this owner go to the waiter from now on.
    Wait(Owner),
    /// The owner holds the lock: news about it are no news.
    Hold(Owner),
    /// Pushes about this owner do not go to the waiter any more.
    Forget(Owner),
    /// Send this, or say at once that it cannot be sent.
    Send {
        /// To which node.
        node: usize,
        /// What it is about.
        node_call: NodeCall,
        /// The node may not know the owner before this.
        is_first: bool,
        /// Each connection puts in its own session.
        command: Command,
    },
    /// Call `handle_timeout` at this moment; something else may come first.
    Until(Moment),
    /// Nothing to do any more.
    Idle,
}

impl Waiter {
    /// Starts at `now`, before the first byte is sent. `up` are the nodes that can be reached.
    /// Pushes about its [owner](Self::owner) go to it from now on.
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
        let machine = match &want.kind {
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
            place: None,
            to_do: VecDeque::new(),
            incarnations: VecDeque::with_capacity(1),
            dropped: 0,
            is_end_noted: false,
        };
        waiter.place = waiter.draw_place(owners);
        // Without a place it is only an entry in the client's own books, and is never sent.
        let owner = waiter.next_owner(owners);
        waiter.incarnations.push_back(Incarnation::new(owner));
        waiter
    }

    /// What it asks nodes for.
    #[must_use]
    pub const fn machine(&self) -> &Acquire {
        &self.machine
    }

    /// The set that it is a member of.
    pub(super) const fn set(&self) -> Option<CallId> {
        self.set
    }

    /// What is wanted.
    #[must_use]
    pub const fn want(&self) -> &Want {
        &self.want
    }

    /// When its caller came.
    #[must_use]
    pub const fn started_at(&self) -> Moment {
        self.started_at
    }

    /// Its ticket, once it has one.
    #[must_use]
    pub fn ticket(&self) -> Option<u64> {
        self.place.map(|place| place.ticket)
    }

    /// The owner of today.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.current().owner
    }

    /// Nodes to which the owner of today was never sent.
    #[must_use]
    pub fn untaken(&self) -> NodeSet {
        NodeSet::all(self.machine.nodes()).without(self.current().sent)
    }

    /// The next thing to do.
    pub fn poll_output(&mut self, config: &Config, owners: &mut impl Owners) -> Output {
        loop {
            if let Some(step) = self.to_do.pop_front() {
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
                _ if self.notes_end() => {}
                acquire::Output::Wait { until } => {
                    self.drop_forgotten();
                    return Output::Until(until);
                }
                acquire::Output::Idle => return Output::Idle,
            }
        }
    }

    /// This cannot be sent, and is answered with `None` next.
    pub fn handle_unsent(&mut self, node: usize, node_call: NodeCall, is_first: bool) {
        if let Some(known) = self.incarnation(node_call.incarnation).filter(|_| is_first) {
            known.sent.remove(node);
        }
    }

    /// What `node` answered to `command`, which said `said` and was sent at `sent_at`. `None` is no
    /// usable answer.
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

    /// A node tells something about one of its owners.
    pub fn handle_push(&mut self, node: usize, push: &Push, now: Moment) {
        if self.owner() == &push.owner {
            self.machine.handle_push(node, self.machine.incarnation(), push.kind, push.fence, now);
        }
    }

    /// The node can be reached.
    pub fn handle_up(&mut self, node: usize, now: Moment) {
        self.machine.handle_up(node, now);
    }

    /// The node cannot be reached any more, or has even forgotten us.
    pub fn handle_down(&mut self, node: usize, is_forgotten: bool) {
        match is_forgotten {
            true => self.machine.handle_forgotten(node),
            false => self.machine.handle_down(node),
        }
    }

    /// The moment of [`Output::Until`] has come.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.machine.handle_timeout(now);
    }

    /// Whether enough nodes have granted the lock for it to be ready soon.
    pub(super) fn has_majority(&self) -> bool {
        self.machine.has_majority()
    }

    /// Whether a member of a set could take its lock. Asks for what is missing.
    pub(super) fn is_ready(&mut self, now: Moment) -> bool {
        self.machine.is_ready(now)
    }

    /// Until when it rests after a try that failed.
    pub(super) fn retry_at(&self, now: Moment) -> Option<Moment> {
        self.machine.retry_at(now)
    }

    /// The try of another member of its set failed.
    pub(super) fn back_off_until(&mut self, at: Moment) {
        self.machine.back_off_until(at);
    }

    /// All members of its set are ready.
    pub(super) fn conclude(&mut self, now: Moment) {
        self.machine.conclude(now);
    }

    /// The caller has gone and will never use the lock.
    pub fn handle_abandon(&mut self) {
        if self.machine.outcome() != Some(Outcome::Abandoned) {
            self.machine.handle_abandon();
            self.is_end_noted = false;
        }
    }

    /// Shows every part; of one that has nothing left to decide only its owners.
    pub(super) fn observe(&self, is_settled: bool, to: &mut impl Observer) {
        let Self {
            want: _,
            set: _,
            machine,
            started_at: _,
            place,
            incarnations,
            dropped: _,
            to_do,
            is_end_noted,
        } = self;
        to.detail(machine);
        incarnations.iter().for_each(|known| to.whole(&known.owner));
        let (seats, rest) = machine.parts();
        let rest = (rest, place, incarnations, to_do.len(), is_end_noted);
        if is_settled {
            to.detail(&rest);
            return;
        }
        to.whole(&rest);
        seats.enumerate().for_each(|(node, seat)| to.of_node(node, &seat));
    }

    /// One thing to say to one node.
    fn send(&mut self, node: usize, node_call: NodeCall, owners: &mut impl Owners) {
        self.take_place(owners);
        // The next incarnation is known before the last one is forgotten: in between nobody would
        // tell the waiter of nodes that come up.
        let last = self.machine.incarnation().max(node_call.incarnation);
        while self.last_incarnation() < last {
            let owner = self.next_owner(owners);
            self.incarnations.push_back(Incarnation::new(owner.clone()));
            mutate!(ReturnUnregistered => continue);
            self.note(Step::Wait(owner));
        }
        let Some(known) = self.incarnation(node_call.incarnation) else { return };
        let is_known = known.sent.contains(node);
        if node_call.action == NodeAction::Release {
            if !std::mem::replace(&mut known.is_forgotten, true) {
                let owner = known.owner.clone();
                self.note(Step::Forget(owner));
            }
            if !is_known {
                return;
            }
        } else {
            known.sent.insert(node);
        }
        self.to_do.push_back(Step::Send { node, node_call, is_first: !is_known });
    }

    /// Takes its place in the queue: the nodes' time at which the caller came, however late they
    /// told it.
    fn take_place(&mut self, owners: &mut impl Owners) {
        if self.place.is_some() || !self.want.is_queueing() {
            return;
        }
        // Nothing is said to a node before a majority has told its time.
        self.place = self.draw_place(owners).or_else(|| Some(self.nowhere(owners)));
        let owner = self.next_owner(owners);
        self.note(Step::Wait(owner.clone()));
        let before = std::mem::take(&mut self.incarnations);
        before.into_iter().for_each(|known| self.note(Step::Forget(known.owner)));
        self.incarnations.push_back(Incarnation::new(owner));
    }

    /// Its place, if enough nodes have told their time.
    fn draw_place(&self, owners: &mut impl Owners) -> Option<Position> {
        let ticket =
            self.want.is_queueing().then(|| owners.draw_ticket(self.started_at, self.set))??;
        Some(Position { ticket, ..self.nowhere(owners) })
    }

    fn nowhere(&self, owners: &impl Owners) -> Position {
        Position { ticket: 0, ttl_ms: self.want.terms.ttl_ms(), client: owners.client() }
    }

    fn next_owner(&self, owners: &mut impl Owners) -> Owner {
        let Want { kind, adopts, dialect, .. } = &self.want;
        match adopts {
            Some(adoption) => adoption.owner.clone(),
            None if dialect.has_queue() => {
                let place = self.place.unwrap_or_else(|| self.nowhere(owners));
                owners.next_owner(&place, kind)
            }
            None => owners.next_plain_owner(kind),
        }
    }

    /// Nodes tell something about owners only where they have a queue.
    fn note(&mut self, step: Step) {
        if self.want.hears_pushes() {
            self.to_do.push_back(step);
        }
    }

    /// Nothing more is said for owners that were given up.
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

    /// Notes what the outcome means for the owner, once.
    fn notes_end(&mut self) -> bool {
        let Some(outcome) = self.machine.outcome() else { return false };
        if std::mem::replace(&mut self.is_end_noted, true) {
            return false;
        }
        let owner = self.owner().clone();
        let is_held = matches!(outcome, Outcome::Held { .. });
        mutate!(HolderForgotten => let is_held = false);
        self.note(if is_held { Step::Hold(owner) } else { Step::Forget(owner) });
        true
    }

    fn incarnation(&mut self, number: u32) -> Option<&mut Incarnation> {
        self.incarnations.get_mut(usize::try_from(number.checked_sub(self.dropped)?).ok()?)
    }

    fn current(&self) -> &Incarnation {
        self.incarnations.back().expect("there is one from the beginning")
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
    /// Whether it has a place in a queue.
    const fn is_queueing(&self) -> bool {
        self.dialect.has_queue() && self.adopts.is_none()
    }

    /// Whether nodes tell something about its owner.
    #[must_use]
    pub(super) const fn hears_pushes(&self) -> bool {
        self.dialect.has_queue()
    }

    /// The fence of a lease that was won with this one.
    pub(super) fn fenced(&self, fence: Fence) -> Option<FencedLease> {
        match &self.adopts {
            Some(adoption) => adoption.fenced,
            None => self.dialect.has_queue().then(|| FencedLease::won(fence)),
        }
    }
}
