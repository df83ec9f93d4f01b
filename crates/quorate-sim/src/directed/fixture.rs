//! Nodes whose clocks agree, and clients with one attempt each, for schedules.

use std::time::Duration;

use quorate_core::{
    acquire::{Acquire, NodeAction, NodeCall, Outcome, Output, Wait},
    command::{ClientId, Command, Owner, Reply, SessionTerms},
    fence::Fence,
    membership::{
        self, AgreedConfig, Enrolment, Handshake, Mark, Member, Members, NodeId, NodeInfo,
    },
    moment::{Moment, NodeTime},
    queue::{AcquireRequest, Extend, Position, Sender, Session, Yield},
    quorum::{NodeSet, Vote},
    store::Store,
};

use super::{at, name, terms};

/// Nodes, with quarantine or without.
pub(super) struct Fixture {
    pub(super) stores: Vec<Store>,
    pub(super) begin_us: u64,
    /// By how much each node's clock was set forward.
    pub(super) ahead_ms: Vec<u64>,
    /// Whether clients find the nodes durable.
    pub(super) is_durable: bool,
    /// The agreed config, where nodes use quarantine.
    config: Option<AgreedConfig>,
}

impl Fixture {
    /// Three nodes without quarantine.
    pub(super) fn bare(begin_us: u64) -> Self {
        let stores = vec![Store::new(); 3];
        Self { stores, begin_us, ahead_ms: vec![0; 3], is_durable: false, config: None }
    }

    /// Nodes with quarantine, which vote.
    pub(super) fn founded(nodes: usize) -> Self {
        let members = Members::new((0..nodes).map(member));
        let config = AgreedConfig::founded_by(members, TTL_MS, QUARANTINE_MS);
        let (stores, ahead_ms) = (Vec::new(), Vec::new());
        let mut fixture = Self { stores, begin_us: BEGIN_US, ahead_ms, is_durable: false, config };
        (0..nodes).for_each(|node| fixture.open(node, 0));
        fixture
    }

    fn config(&self) -> AgreedConfig {
        self.config.clone().expect("the nodes are quarantined")
    }

    /// A new node, which votes at once.
    fn open(&mut self, node: usize, ms: u64) {
        let mut store = Store::new();
        store.membership.set_run(node as u64 + 1);
        self.stores.push(store);
        self.ahead_ms.push(0);
        let mark = self.enrol(node, ms);
        let fresh = fresh(node, self.config().change);
        self.apply(node, ms, &membership::Command::Admit { mark, fresh }.into());
    }

    /// Enrols a node that has no record. It does not vote yet.
    pub(super) fn enrol(&mut self, node: usize, ms: u64) -> Mark {
        let (mark, config) = (self.mark(node, ms), self.config());
        let enrolment = Enrolment { mark, id: member(node).id, config, wall_ms: wall(ms) };
        self.apply(node, ms, &membership::Command::Enrol(enrolment).into());
        mark
    }

    /// Adds a node.
    pub(super) fn grow(&mut self, change: u64, ms: u64) {
        let (nodes, last) = (self.stores.len(), self.config());
        let members = Members::new((0..=nodes).map(member));
        let (before, newcomer) = (Some(last.members.clone()), Some(member(nodes).id));
        self.config = Some(AgreedConfig { change, members, before, newcomer, ..last });
        for node in 0..nodes {
            let (mark, config) = (self.mark(node, ms), self.config());
            let fresh = fresh(node, change);
            self.apply(node, ms, &membership::Command::Change { mark, config, fresh }.into());
        }
        self.open(nodes, ms);
    }

    fn mark(&mut self, node: usize, ms: u64) -> Mark {
        self.handshake(node, ms).map_or_else(|| fresh(node, 0), |info| info.mark)
    }

    /// The membership handshake of a client that does not know the node.
    pub(super) fn handshake(&mut self, node: usize, ms: u64) -> Option<Box<NodeInfo>> {
        self.handshake_at(node, ms, ms)
    }

    /// The same, by a client whose wall clock shows `wall_ms`.
    pub(super) fn handshake_at(
        &mut self,
        node: usize,
        ms: u64,
        wall_ms: u64,
    ) -> Option<Box<NodeInfo>> {
        let handshake = Handshake {
            wall_ms: wall(wall_ms),
            known: None,
            mark: fresh(node, 100 + ms),
            id: member(node).id,
            lifetime_ms: SESSION_MS,
            quarantine_ms: QUARANTINE_MS,
            is_read_only: false,
            is_durable: self.is_durable,
        };
        match self.apply(node, ms, &membership::Command::Handshake(handshake).into()) {
            Reply::Membership(membership::Reply::Info(info)) => Some(info),
            _ => None,
        }
    }

    pub(super) const fn time(&self, ms: u64) -> NodeTime {
        NodeTime::from_micros(self.begin_us + ms * 1_000)
    }

    pub(super) fn apply(&mut self, node: usize, ms: u64, command: &Command) -> Reply {
        let now = self.time(ms + self.ahead_ms[node]);
        self.stores[node].apply(now, command)
    }

    /// The same, as a vote.
    pub(super) fn vote(&mut self, node: usize, ms: u64, command: &Command) -> Vote {
        command.vote(&self.apply(node, ms, command))
    }

    pub(super) fn has(&mut self, node: usize, owner: &Owner, ms: u64) -> bool {
        let check = Command::Check { name: name(), owner: owner.clone() };
        self.vote(node, ms, &check) == Vote::Grant
    }

    /// The owner releases the lock on these nodes.
    pub(super) fn release(&mut self, nodes: &[usize], owner: &Owner, ms: u64) {
        let release = Command::Release { name: name(), owner: owner.clone(), yields: None };
        nodes.iter().for_each(|node| _ = self.apply(*node, ms, &release));
    }

    /// A node becomes a replica of another, and a master again.
    pub(super) fn copy(&mut self, of: usize, node: usize) {
        let other = self.stores[of].clone();
        self.stores[node].copy(&other);
    }
}

/// A client with one attempt.
pub(super) struct TestClient {
    pub(super) place: Position,
    pub(super) machine: Acquire,
    /// Counts its connections. Each of them has its own sessions.
    connection: u128,
    /// The marks of its nodes, where they use quarantine.
    marks: Vec<Mark>,
    /// The requests in flight, and when they were sent.
    sent: Vec<(usize, NodeCall, Moment)>,
}

/// A reply of a node.
pub(super) struct Answer {
    node: usize,
    call: NodeCall,
    sent_at: Moment,
    reply: Reply,
}

impl TestClient {
    /// Begins a session with each node, and asks the nodes that are up.
    pub(super) fn start(
        fixture: &mut Fixture,
        number: u8,
        ticket: u64,
        up: &[usize],
        ms: u64,
    ) -> Self {
        let client = Self::new(fixture, number, ticket, up, ms);
        client.attach(fixture, ms);
        client
    }

    /// Attaches to all nodes, and asks them.
    pub(super) fn come(fixture: &mut Fixture, number: u8, ms: u64) -> Self {
        let client = Self::unattached(fixture, number, ms);
        client.attach(fixture, ms);
        client
    }

    /// The same, without a session so far.
    pub(super) fn unattached(fixture: &mut Fixture, number: u8, ms: u64) -> Self {
        let all: Vec<usize> = (0..fixture.stores.len()).collect();
        Self::new(fixture, number, fixture.begin_us + ms * 1_000, &all, ms)
    }

    fn new(fixture: &mut Fixture, number: u8, ticket: u64, up: &[usize], ms: u64) -> Self {
        let place =
            Position { ticket, ttl_ms: TTL_MS, client: ClientId::from_random([number; 20]) };
        let mut reached = NodeSet::EMPTY;
        up.iter().for_each(|node| reached.insert(*node));
        let (nodes, wait) = (fixture.stores.len(), Wait::Patiently(Duration::from_secs(1)));
        let machine = Acquire::start(terms(TTL_MS), nodes, reached, wait, at(ms));
        let quarantined = 0..if fixture.config.is_some() { nodes } else { 0 };
        let marks = quarantined.map(|node| fixture.mark(node, ms)).collect();
        let mut client = Self { place, machine, connection: 1, marks, sent: Vec::new() };
        client.pull(ms);
        client
    }

    pub(super) fn attach(&self, fixture: &mut Fixture, ms: u64) {
        for node in 0..fixture.stores.len() {
            fixture.stores[node].subscribe(self.place.client);
            let (sender, terms) = (self.sender(node), self.terms(node, ms));
            fixture.apply(node, ms, &Command::Attach { sender, terms });
        }
    }

    /// Reconnects.
    pub(super) fn attach_anew(&mut self, fixture: &mut Fixture, ms: u64) {
        self.connection += 1;
        self.attach(fixture, ms);
    }

    pub(super) fn ping(&self, fixture: &mut Fixture, ms: u64) {
        for node in 0..self.marks.len() {
            let (sender, terms) = (self.sender(node), self.terms(node, ms));
            fixture.apply(node, ms, &Command::Ping { sender, terms });
        }
    }

    pub(super) const fn sender(&self, node: usize) -> Sender {
        let session = Session::from_random(self.connection << 8 | node as u128);
        Sender { client: self.place.client, session }
    }

    pub(super) fn terms(&self, node: usize, ms: u64) -> SessionTerms {
        let Some(mark) = self.marks.get(node).copied() else {
            return SessionTerms::without_membership(5_000);
        };
        let (mark, slack_us) = (Some(mark), QUARANTINE_MS * 250);
        SessionTerms { lifetime_ms: SESSION_MS, mark, slack_us, wall_ms: wall(ms) }
    }

    pub(super) fn owner(&self) -> Owner {
        self.place.owner(self.machine.incarnation().into())
    }

    /// Takes the requests of the machine.
    pub(super) fn pull(&mut self, ms: u64) {
        while let Output::Call { node, call } = self.machine.poll_output() {
            self.sent.push((node, call, at(ms)));
        }
    }

    /// Its timer fires.
    pub(super) fn time_out(&mut self, ms: u64) {
        self.machine.handle_timeout(at(ms));
        self.pull(ms);
    }

    /// It can reach these nodes from now on.
    pub(super) fn come_up(&mut self, nodes: &[usize], ms: u64) {
        nodes.iter().for_each(|node| self.machine.handle_up(*node, at(ms)));
        self.pull(ms);
    }

    fn command(&self, node: usize, call: NodeCall) -> Command {
        let (name, owner) = (name(), self.place.owner(call.incarnation.into()));
        let sender = self.sender(node);
        match call.action {
            NodeAction::Acquire { is_waiting, is_known } => Command::Acquire {
                sender,
                request: AcquireRequest { name, owner, is_waiting, is_known },
            },
            NodeAction::Yield(fence) | NodeAction::Reject(fence) => {
                Command::Release { name, owner, yields: Some(Yield { fence, sender }) }
            }
            NodeAction::Release => Command::Release { name, owner, yields: None },
            NodeAction::Confirm(fence) => {
                let entry = Extend { name, owner, fence, ttl_ms: TTL_MS, may_heal: false };
                Command::Extend { sender, entries: [entry].into() }
            }
        }
    }

    /// Takes the first request in flight, which will arrive late. The others are lost.
    pub(super) fn hold_up(&mut self) -> Result<Command, String> {
        let (node, call, _) = *self.sent.first().ok_or("no request is in flight")?;
        self.sent.clear();
        Ok(self.command(node, call))
    }

    /// The first request in flight to the node arrives.
    pub(super) fn reach(
        &mut self,
        fixture: &mut Fixture,
        node: usize,
        ms: u64,
    ) -> Result<Answer, String> {
        let index = self.sent.iter().position(|(to, _, _)| *to == node);
        let index = index.ok_or_else(|| format!("no request is in flight to n{node}"))?;
        let (_, call, sent_at) = self.sent.remove(index);
        let reply = fixture.apply(node, ms, &self.command(node, call));
        Ok(Answer { node, call, sent_at, reply })
    }

    pub(super) fn receive(&mut self, answer: &Answer, ms: u64) {
        let Answer { node, call, sent_at, reply } = answer;
        self.machine.handle_reply(*node, *call, *sent_at, Some(reply), at(ms));
        self.pull(ms);
    }

    /// The last push of the node arrives.
    pub(super) fn listen(
        &mut self,
        fixture: &mut Fixture,
        node: usize,
        ms: u64,
    ) -> Result<(), String> {
        let pushes = fixture.stores[node].take_pushes();
        let ours = pushes.into_iter().filter(|push| push.owner == self.owner());
        let push = ours.last().ok_or_else(|| format!("n{node} pushes nothing"))?;
        if push.counts_in(self.sender(node).session) {
            self.machine.handle_push(
                node,
                self.machine.incarnation(),
                push.kind,
                push.fence,
                at(ms),
            );
            self.pull(ms);
        }
        Ok(())
    }

    /// All requests in flight to these nodes arrive, one after the other, and so do the replies.
    pub(super) fn exchange(&mut self, fixture: &mut Fixture, these: &[usize], ms: u64) {
        for node in these {
            while let Ok(answer) = self.reach(fixture, *node, ms) {
                self.receive(&answer, ms);
            }
        }
    }

    /// The same, until no request to them is left.
    pub(super) fn settle(&mut self, fixture: &mut Fixture, these: &[usize], ms: u64) {
        while self.sent.iter().any(|(to, _, _)| these.contains(to)) {
            self.exchange(fixture, these, ms);
        }
    }

    /// The same. Returns the fence with which it then holds the lock.
    pub(super) fn win(
        &mut self,
        fixture: &mut Fixture,
        these: &[usize],
        ms: u64,
    ) -> Result<Fence, String> {
        self.settle(fixture, these, ms);
        self.held()
    }

    pub(super) fn held(&self) -> Result<Fence, String> {
        match self.machine.outcome() {
            Some(Outcome::Held { fence, .. }) => Ok(fence),
            other => Err(format!("an attempt ended as {other:?}, not with the lock")),
        }
    }

    /// Extends a lease on a node.
    pub(super) fn extend(
        &self,
        fixture: &mut Fixture,
        node: usize,
        entry: &Extend,
        ms: u64,
    ) -> Vote {
        let entries = [entry.clone()].into();
        fixture.vote(node, ms, &Command::Extend { sender: self.sender(node), entries })
    }

    /// Its own lease, to be extended with this fence.
    pub(super) fn lease(&self, fence: Fence) -> Extend {
        Extend { name: name(), owner: self.owner(), fence, ttl_ms: TTL_MS, may_heal: true }
    }

    /// The owner of a key becomes another one, on a node.
    pub(super) fn adopt(
        &self,
        fixture: &mut Fixture,
        node: usize,
        (from, owner): (&Owner, &Owner),
        ms: u64,
    ) -> Vote {
        let (from, owner, sender) = (from.clone(), owner.clone(), Some(self.sender(node)));
        let adopt = Command::Adopt { name: name(), from, owner, ttl_ms: TTL_MS, sender };
        fixture.vote(node, ms, &adopt)
    }
}

fn member(node: usize) -> Member {
    let id = NodeId::from_random(node as u128 + 1);
    Member { id, label: format!("n{node}").into() }
}

const fn fresh(node: usize, number: u64) -> Mark {
    Mark::from_random(((node as u128) << 64) | number as u128)
}

const fn wall(ms: u64) -> u64 {
    BEGIN_US / 1_000 + ms
}

/// All of three nodes.
pub(super) const ALL: [usize; 3] = [0, 1, 2];

pub(super) const BEGIN_US: u64 = 1_800_000_000_000_000;
pub(super) const TTL_MS: u64 = 100;
const SESSION_MS: u64 = 200;
pub(super) const QUARANTINE_MS: u64 = 400;
