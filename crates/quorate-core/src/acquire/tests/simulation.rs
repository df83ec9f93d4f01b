//! Acquires against three real stores, with messages delivered in random order.
//!
//! Connections break: replies are lost, and requests may still arrive late. All clocks agree here.
//! The simulator covers clocks that differ.

use std::collections::VecDeque;

use super::*;
use crate::{
    backoff::Jitter,
    command::{ClientId, Command, Owner, SessionTerms},
    moment::NodeTime,
    name::Name,
    queue::{AcquireRequest, Extend, Position, Push, Sender, Session, Yield},
    store::Store,
};

const NODES: usize = 3;
const CLIENTS: usize = 3;

/// How often each client acquires the lock.
const ROUNDS: u64 = 2;

/// The nodes' time at the start, in milliseconds.
const T0: u64 = 1_800_000_000_000;

#[test]
fn one_holder_at_a_time_with_growing_fences_in_any_order_of_messages() {
    let mut holds = 0;
    for seed in 0..3_000 {
        holds += Fixture::new(seed).run();
    }
    assert!(holds > 10_000, "only {holds} holders");
}

struct Fixture {
    seed: u64,
    jitter: Jitter,
    now: Moment,
    stores: [Store; NODES],
    clients: [Client; CLIENTS],
    /// The holder, and the end of its lease.
    holder: Option<(usize, Moment)>,
    fence: Fence,
    holds: u32,
    breaks_left: u32,
    /// Messages of older connections that have not arrived yet.
    late: Vec<(usize, Command)>,
}

struct Client {
    id: ClientId,
    links: [Link; NODES],
    position: Position,
    machine: Acquire,
    /// Whether the outcome of the machine was checked.
    is_judged: bool,
    rounds_left: u64,
}

#[derive(Default)]
struct Link {
    session: u128,
    requests: VecDeque<Request>,
    replies: VecDeque<(Request, Reply)>,
    pushes: VecDeque<Push>,
}

struct Request {
    /// The acquire that waits for the reply, if any.
    call: Option<(u64, NodeCall)>,
    sent_at: Moment,
    command: Command,
}

impl Fixture {
    fn new(seed: u64) -> Self {
        let mut jitter = Jitter::new(seed);
        let now = Moment::ZERO;
        let clients = [1, 2, 3].map(|byte| {
            let id = ClientId::from_random([byte; 20]);
            let position = Position { ticket: T0 * 1_000, ttl_ms: terms().ttl_ms(), client: id };
            let mut machine = Acquire::start(terms(), NODES, NodeSet::EMPTY, WAIT, now);
            machine.handle_abandon();
            let (links, is_judged) = (Default::default(), true);
            Client { id, links, position, machine, is_judged, rounds_left: ROUNDS }
        });
        let breaks_left = u32::try_from(jitter.next() % 4).unwrap();
        let stores = [const { Store::new() }; NODES];
        let (holder, fence, holds, late) = (None, Fence::ZERO, 0, Vec::new());
        let mut fixture =
            Self { seed, jitter, now, stores, clients, holder, fence, holds, breaks_left, late };
        for (client, node) in (0..CLIENTS * NODES).map(|pair| (pair / NODES, pair % NODES)) {
            fixture.attach(client, node);
        }
        fixture
    }

    /// Runs until every client is finished and every message has arrived.
    fn run(mut self) -> u32 {
        let mut steps = 0;
        while !self.is_finished() {
            steps += 1;
            assert!(steps < 50_000, "seed {}: does not terminate", self.seed);
            let (client, node) = (self.draw(CLIENTS), self.draw(NODES));
            match self.draw(16) {
                0..5 => self.deliver_request(client, node),
                5..10 => self.deliver_reply(client, node),
                10..12 => self.deliver_push(client, node),
                12 => self.deliver_late(),
                13 => self.tick(),
                14 => self.release_or_acquire(client),
                _ => match self.draw(20) {
                    0 if self.breaks_left > 0 => self.break_link(client, node),
                    1 if self.clients[client].machine.outcome().is_none() => {
                        self.clients[client].machine.handle_abandon();
                        self.drive(client);
                    }
                    _ => {}
                },
            }
        }
        for node in 0..NODES {
            let now = self.node_time();
            let left = (self.stores[node].names(now), self.stores[node].queued_names(now));
            assert_eq!(left, (vec![], vec![]), "seed {}", self.seed);
        }
        self.holds
    }

    fn is_finished(&self) -> bool {
        let is_done = |client: &Client| {
            let is_quiet = |link: &Link| {
                link.requests.is_empty() && link.replies.is_empty() && link.pushes.is_empty()
            };
            client.rounds_left == 0
                && client.machine.outcome().is_some()
                && client.links.iter().all(is_quiet)
        };
        self.holder.is_none() && self.late.is_empty() && self.clients.iter().all(is_done)
    }

    fn draw(&mut self, below: usize) -> usize {
        usize::try_from(self.jitter.next() % below as u64).unwrap()
    }

    fn node_time(&self) -> NodeTime {
        NodeTime::from_micros(T0 * 1_000 + self.now.as_nanos() / 1_000)
    }

    fn attach(&mut self, client: usize, node: usize) {
        let session = self.jitter.next().into();
        let id = self.clients[client].id;
        self.clients[client].links[node].session = session;
        let sender = Sender { client: id, session: Session::from_random(session) };
        self.stores[node].subscribe(id);
        let attach = Command::Attach { sender, terms: SessionTerms::without_membership(1_000_000) };
        self.stores[node].apply(self.node_time(), &attach);
    }

    fn deliver_request(&mut self, client: usize, node: usize) {
        let Some(request) = self.clients[client].links[node].requests.pop_front() else { return };
        let reply = self.stores[node].apply(self.node_time(), &request.command);
        self.clients[client].links[node].replies.push_back((request, reply));
        self.route_pushes(node);
    }

    fn deliver_late(&mut self) {
        if !self.late.is_empty() {
            let index = self.draw(self.late.len());
            let (node, command) = self.late.remove(index);
            self.stores[node].apply(self.node_time(), &command);
            self.route_pushes(node);
        }
    }

    fn route_pushes(&mut self, node: usize) {
        for push in self.stores[node].take_pushes() {
            let client = self.clients.iter_mut().find(|client| client.id == push.client);
            client.expect("known client").links[node].pushes.push_back(push);
        }
    }

    fn deliver_reply(&mut self, client: usize, node: usize) {
        let Some((request, reply)) = self.clients[client].links[node].replies.pop_front() else {
            return;
        };
        self.answer(client, node, &request, Some(&reply));
        self.drive(client);
    }

    fn answer(&mut self, client: usize, node: usize, request: &Request, reply: Option<&Reply>) {
        let Client { machine, rounds_left, .. } = &mut self.clients[client];
        if let Some((_, call)) = request.call.filter(|(round, _)| round == rounds_left) {
            machine.handle_reply(node, call, request.sent_at, reply, self.now);
        }
    }

    fn deliver_push(&mut self, client: usize, node: usize) {
        let Some(push) = self.clients[client].links[node].pushes.pop_front() else { return };
        let incarnation = self.clients[client].machine.incarnation();
        let is_ours = push.owner == self.clients[client].owner(incarnation);
        if is_ours && self.clients[client].machine.outcome().is_none() {
            let machine = &mut self.clients[client].machine;
            machine.handle_push(node, incarnation, push.kind, push.fence, self.now);
            self.drive(client);
        } else if !is_ours || self.holder.is_none_or(|(holder, _)| holder != client) {
            let release = Command::Release { name: name(), owner: push.owner, yields: None };
            self.send(client, node, None, release);
        }
    }

    fn tick(&mut self) {
        let longest = if self.draw(8) == 0 { 120 } else { 8 };
        self.now = self.now.saturating_add(self.jitter.up_to(Duration::from_millis(longest)));
        for client in 0..CLIENTS {
            let machine = &mut self.clients[client].machine;
            if let Output::Wait { until } = machine.poll_output()
                && until <= self.now
            {
                machine.handle_timeout(self.now);
                self.drive(client);
            }
        }
    }

    /// Releases the lock if the client holds it. An idle client starts a new acquire.
    fn release_or_acquire(&mut self, client: usize) {
        if self.holder.is_some_and(|(holder, _)| holder == client) {
            self.holder = None;
            let owner = self.clients[client].owner(self.clients[client].machine.incarnation());
            for node in 0..NODES {
                let owner = owner.clone();
                let release = Command::Release { name: name(), owner, yields: None };
                self.send(client, node, None, release);
            }
        } else if self.clients[client].rounds_left > 0
            && self.clients[client].machine.outcome().is_some()
        {
            let wait = if self.draw(4) == 0 { Wait::Never } else { WAIT };
            // Coarse tickets are often equal for two clients, and so are fences.
            let ticket = self.node_time().as_micros() / 16_000;
            let Client { position, machine, is_judged, rounds_left, .. } =
                &mut self.clients[client];
            position.ticket = ticket * 16_000;
            *is_judged = false;
            *machine = Acquire::start(terms(), NODES, NodeSet::all(NODES), wait, self.now);
            *rounds_left -= 1;
            self.drive(client);
        }
    }

    fn break_link(&mut self, client: usize, node: usize) {
        self.breaks_left -= 1;
        let broken = std::mem::take(&mut self.clients[client].links[node]);
        self.clients[client].machine.handle_down(node);
        let unanswered = broken.replies.into_iter().map(|(request, _)| (request, true));
        let undelivered = broken.requests.into_iter().map(|request| (request, false));
        let mut releases = Vec::new();
        for (request, is_done) in unanswered.chain(undelivered) {
            self.answer(client, node, &request, None);
            if !is_done && self.draw(2) == 0 {
                self.late.push((node, request.command.clone()));
            }
            if matches!(request.command, Command::Release { yields: None, .. }) {
                releases.push(request.command);
            }
        }
        self.stores[node].unsubscribe(self.clients[client].id);
        self.attach(client, node);
        releases.into_iter().for_each(|command| self.send(client, node, None, command));
        self.clients[client].machine.handle_up(node, self.now);
        self.drive(client);
    }

    fn send(&mut self, client: usize, node: usize, call: Option<NodeCall>, command: Command) {
        let call = call.map(|call| (self.clients[client].rounds_left, call));
        let request = Request { call, sent_at: self.now, command };
        self.clients[client].links[node].requests.push_back(request);
    }

    /// Sends the calls of the machine, and checks a new outcome.
    fn drive(&mut self, client: usize) {
        while let Output::Call { node, call } = self.clients[client].machine.poll_output() {
            let command = self.clients[client].command(node, call);
            self.send(client, node, Some(call), command);
        }
        let Some(outcome) = self.clients[client].machine.outcome() else { return };
        let is_judged = std::mem::replace(&mut self.clients[client].is_judged, true);
        if let Outcome::Held { valid_until, fence } = outcome
            && !is_judged
        {
            self.judge(client, valid_until, fence);
        }
    }

    fn judge(&mut self, client: usize, valid_until: Moment, fence: Fence) {
        let Self { seed, now, .. } = *self;
        if let Some((holder, until)) = self.holder {
            assert!(until <= now, "seed {seed}: two holders");
            self.release_or_acquire(holder);
        }
        assert!(now < valid_until, "seed {seed}: ended before it began");
        assert!(self.fence < fence, "seed {seed}: {} and then {fence}", self.fence);
        self.fence = fence;
        self.holder = Some((client, valid_until));
        self.holds += 1;
    }
}

impl Client {
    /// The owner of one incarnation of the current acquire.
    fn owner(&self, incarnation: u32) -> Owner {
        self.position.owner(self.rounds_left * 1_000 + u64::from(incarnation))
    }

    fn command(&self, node: usize, call: NodeCall) -> Command {
        let (name, owner) = (name(), self.owner(call.incarnation));
        let session = Session::from_random(self.links[node].session);
        let sender = Sender { client: self.id, session };
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
                let ttl_ms = terms().ttl_ms();
                let entry = Extend { name, owner, fence, ttl_ms, may_heal: false };
                Command::Extend { sender, entries: [entry].into() }
            }
        }
    }
}

fn name() -> Name {
    Name::parse("a", "").expect("valid")
}
