//! Schedules for guarded nodes.

mod classic;
mod durable;

use std::time::Duration;

use quorate_core::{
    command::{ClientId, Command, Owner, Reply, SessionTerms},
    contend::{Contend, Outcome, Output, Said, Saying, Wait},
    fence::Fence,
    line::{Ask, Extend, Place, Session, Speaker, Yield},
    membership::{
        self, AgreedConfig, Enrolment, Handshake, Mark, Member, Members, NodeId, NodeInfo, Reason,
    },
    moment::NodeTime,
    quorum::{NodeSet, Vote},
    renew::{self, Renew},
    store::Store,
};

pub use self::classic::a_node_that_was_a_replica_prolongs_nothing;
pub use self::durable::{
    durable_node_with_a_wrong_clock_is_guarded_after_a_restart,
    node_that_is_not_durable_any_more_is_guarded_after_a_restart,
    node_that_was_not_durable_is_guarded_after_a_restart,
    restart_does_not_end_the_guard_of_a_durable_node, stale_session_cannot_adopt,
};
use super::{at, name, terms};

/// A holds three nodes of five, and B has asked the two others. One of those restarts empty. A
/// extends, where it can, and the node that it cannot reach lets go of its key, which B gets.
///
/// # Errors
///
/// If A holds on with the help of a node that has voted for B, and forgotten that.
pub fn a_node_in_its_guard_takes_no_lost_key_again() -> Result<(), String> {
    let mut hall = Hall::founded(5);
    let mut a = Guest::start(&mut hall, 1, 0);
    let of_a = [0, 1, 3];
    of_a.iter().for_each(|node| a.exchange(&mut hall, *node, 1));
    let fence = a.held()?;

    let mut b = Guest::start(&mut hall, 2, 60);
    (0..5).for_each(|node| b.exchange(&mut hall, node, 61));
    hall.stores[2] = Store::new();
    hall.stores[2].membership.set_run(99);
    b.machine.handle_down(2);
    hall.enrol(2, 62);

    let mut machine = Renew::start(terms(TTL_MS), 5, terms(TTL_MS).valid_until(at(0)), at(80));
    let entry = Extend { name: name(), owner: a.owner(), fence, ttl_ms: TTL_MS, may_heal: true };
    for node in [0, 2, 3] {
        let entries = [entry.clone()].into();
        let extend = Command::Extend { speaker: a.speaker(node), entries };
        let reply = hall.apply(node, 81, &extend);
        machine.handle_vote(node, extend.vote(&reply), at(82));
    }
    b.machine.handle_timeout(at(110));
    b.pull();
    b.exchange(&mut hall, 1, 110);
    b.held()?;
    match machine.outcome() {
        Some(renew::Outcome::Extended { .. }) => {
            Err("a node that has forgotten its vote lets another hold on".to_owned())
        }
        _ => Ok(()),
    }
}

/// The set grows from three nodes to five, and A, who has a session with two of them, is told of
/// nothing: it goes on to speak of what they were.
///
/// # Errors
///
/// If A has a majority of three and B one of five.
pub fn a_session_does_not_outlive_what_was_judged() -> Result<(), String> {
    let mut hall = Hall::founded(3);
    let mut a = Guest::start(&mut hall, 1, 0);
    let mut now = 0;
    for change in 2..=3 {
        hall.grow(change, now);
        for _ in 0..3 * GUARD_MS / PING_MS {
            now += PING_MS;
            a.ping(&mut hall, now);
        }
    }
    a.machine.handle_timeout(at(now));
    a.pull();
    let granted = |hall: &mut Hall, guest: &mut Guest, nodes: &[usize]| {
        nodes.iter().for_each(|node| guest.exchange(hall, *node, now + 1));
        let check = Command::Check { name: name(), owner: guest.owner() };
        let has = |node: &&usize| check.vote(&hall.apply(**node, now + 2, &check)) == Vote::Grant;
        nodes.iter().filter(has).count()
    };
    let of_a = granted(&mut hall, &mut a, &[0, 1]);
    let mut b = Guest::start(&mut hall, 2, now);
    let of_b = granted(&mut hall, &mut b, &[2, 3, 4]);
    match (of_a, of_b) {
        (2, 3) => Err("one has a majority of three nodes, another one of five".to_owned()),
        (_, 3) => Ok(()),
        _ => Err(format!("{of_b} of three nodes are granted to one who knows them")),
    }
}

/// A holds two nodes of three, B has the third, and C waits there. One of A's nodes is made a
/// replica of the third, and a master again. Then B goes.
///
/// # Errors
///
/// If the node, which has forgotten A, hands the lock to C.
pub fn a_node_that_was_a_replica_hands_nothing_on() -> Result<(), String> {
    let mut hall = Hall::founded(3);
    let mut a = Guest::start(&mut hall, 1, 0);
    [0, 2].iter().for_each(|node| a.exchange(&mut hall, *node, 1));
    a.held()?;
    let [b, mut c] = [2, 3].map(|number| {
        let mut guest = Guest::start(&mut hall, number, number.into());
        (0..3).for_each(|node| guest.exchange(&mut hall, node, number.into()));
        guest
    });
    let other = hall.stores[1].clone();
    hall.stores[0].copy(&other);
    for node in 0..2 {
        let release = Command::Release { name: name(), owner: b.owner(), yields: None };
        hall.apply(node, 5, &release);
        for push in hall.stores[node].take_pushes() {
            if !push.counts_in(c.speaker(node).session) {
                continue;
            }
            let life = c.machine.life();
            c.machine.handle_push(node, life, push.news, push.fence, at(6));
        }
    }
    match c.held() {
        Ok(_) => Err("a node that has forgotten its vote hands the lock to another".to_owned()),
        Err(_) => Ok(()),
    }
}

/// A node's clock is set back by ten seconds, and right again while nobody looks. What was granted
/// in between is over. Then one comes who has never met it.
///
/// # Errors
///
/// If the node votes at once.
pub fn a_clock_that_is_set_right_again_is_doubted() -> Result<(), String> {
    let mut hall = Hall::founded(3);
    let a = Guest::start(&mut hall, 1, 20_000);
    let (speaker, terms) = (a.speaker(0), a.terms(0, 20_050));
    hall.apply(0, 10_050, &Command::Ping { speaker, terms });
    match hall.met(0, 20_100).and_then(|met| met.reason()) {
        Some(Reason::ClockStepped) => Ok(()),
        other => Err(format!("a node whose keys are over by its clock is doubted for {other:?}")),
    }
}

/// A holds two nodes of three. B meets the first of them, then its clock is set forward, and A's
/// key there is over; B begins its session, and asks.
///
/// # Errors
///
/// If the node votes for B, or if the session hides the step from whoever meets the node next.
pub fn a_clock_that_is_set_after_the_meeting_gives_no_session() -> Result<(), String> {
    let mut hall = Hall::founded(3);
    let mut a = Guest::start(&mut hall, 1, 0);
    (0..2).for_each(|node| a.exchange(&mut hall, node, 1));
    a.held()?;
    let mut b = Guest::meet(&mut hall, 2, 10);
    hall.ahead_ms[0] = STEP_MS;
    b.attach(&mut hall, 11);
    (0..3).for_each(|node| b.exchange(&mut hall, node, 12));
    if b.held().is_ok() {
        return Err("a node whose clock was set votes for another".to_owned());
    }
    match hall.met(0, 13).and_then(|met| met.reason()) {
        Some(Reason::ClockStepped) => Ok(()),
        other => Err(format!("a node whose clock was set is doubted for {other:?}")),
    }
}

/// A node's clock is set forward in its guard, by less than what would be noticed as a step.
///
/// # Errors
///
/// If that ends the guard.
pub fn the_guard_is_not_ended_by_the_nodes_clock_alone() -> Result<(), String> {
    let mut hall = Hall::founded(3);
    hall.stores[0] = Store::new();
    hall.enrol(0, 10);
    let met = hall.met_at(0, 20 + GUARD_MS, 20);
    match met.and_then(|met| met.reason()) {
        Some(_) => Ok(()),
        None => Err("a node whose clock was set votes before its guard is over".to_owned()),
    }
}

/// Guarded nodes.
struct Hall {
    stores: Vec<Store>,
    /// By how much each node's clock was set forward.
    ahead_ms: Vec<u64>,
    /// Whether clients find that the nodes write everything to disk at once.
    is_durable: bool,
    config: AgreedConfig,
}

impl Hall {
    fn founded(nodes: usize) -> Self {
        let members = Members::new((0..nodes).map(member));
        let config = AgreedConfig::founded_by(members, TTL_MS, GUARD_MS).expect("there are nodes");
        let mut hall = Self { stores: Vec::new(), ahead_ms: Vec::new(), is_durable: false, config };
        (0..nodes).for_each(|node| hall.open(node, 0));
        hall
    }

    /// A new node, which votes at once.
    fn open(&mut self, node: usize, ms: u64) {
        let mut store = Store::new();
        store.membership.set_run(node as u64 + 1);
        self.stores.push(store);
        self.ahead_ms.push(0);
        let mark = self.enrol(node, ms);
        self.apply(
            node,
            ms,
            &membership::Command::Admit { mark, fresh: fresh(node, self.config.change) }.into(),
        );
    }

    /// Gives a node that has no record its place. It does not vote yet.
    fn enrol(&mut self, node: usize, ms: u64) -> Mark {
        let mark = self.mark(node, ms);
        let config = self.config.clone();
        let enrolment = Enrolment { mark, id: member(node).id, config, wall_ms: wall(ms) };
        self.apply(node, ms, &membership::Command::Enrol(enrolment).into());
        mark
    }

    /// One more node.
    fn grow(&mut self, change: u64, ms: u64) {
        let nodes = self.stores.len();
        let members = Members::new((0..=nodes).map(member));
        let before = Some(self.config.members.clone());
        let newcomer = Some(member(nodes).id);
        self.config = AgreedConfig { change, members, before, newcomer, ..self.config.clone() };
        for node in 0..nodes {
            let (mark, config) = (self.mark(node, ms), self.config.clone());
            self.apply(
                node,
                ms,
                &membership::Command::Change { mark, config, fresh: fresh(node, change) }.into(),
            );
        }
        self.open(nodes, ms);
    }

    fn mark(&mut self, node: usize, ms: u64) -> Mark {
        self.met(node, ms).map_or_else(|| fresh(node, 0), |met| met.mark)
    }

    /// Somebody meets the node who has not met it before.
    fn met(&mut self, node: usize, ms: u64) -> Option<Box<NodeInfo>> {
        self.met_at(node, ms, ms)
    }

    /// By one whose wall clock shows something else.
    fn met_at(&mut self, node: usize, ms: u64, wall_ms: u64) -> Option<Box<NodeInfo>> {
        let greeting = Handshake {
            wall_ms: wall(wall_ms),
            known: None,
            mark: fresh(node, 100 + ms),
            id: member(node).id,
            life_ms: LIFE_MS,
            quarantine_ms: GUARD_MS,
            is_looking: false,
            is_durable: self.is_durable,
        };
        match self.apply(node, ms, &membership::Command::Handshake(greeting).into()) {
            Reply::Membership(membership::Reply::Info(met)) => Some(met),
            _ => None,
        }
    }

    fn apply(&mut self, node: usize, ms: u64, command: &Command) -> Reply {
        let node_ms = ms + self.ahead_ms[node];
        self.stores[node].apply(NodeTime::from_micros(BEGIN_US + node_ms * 1_000), command)
    }
}

/// A client with one attempt, and the marks by which it knows its nodes.
struct Guest {
    place: Place,
    machine: Contend,
    marks: Vec<Mark>,
    sent: Vec<(usize, Said)>,
}

impl Guest {
    /// Meets all nodes, and begins a session with each.
    fn start(hall: &mut Hall, number: u8, ms: u64) -> Self {
        let guest = Self::meet(hall, number, ms);
        guest.attach(hall, ms);
        guest
    }

    fn meet(hall: &mut Hall, number: u8, ms: u64) -> Self {
        let client = ClientId::from_random([number; 20]);
        let place = Place { ticket: BEGIN_US + ms * 1_000, ttl_ms: TTL_MS, client };
        let nodes = hall.stores.len();
        let mut up = NodeSet::EMPTY;
        (0..nodes).for_each(|node| up.insert(node));
        let machine = Contend::start(
            terms(TTL_MS),
            nodes,
            up,
            Wait::Patiently(Duration::from_secs(1)),
            at(ms),
        );
        let marks = (0..nodes).map(|node| hall.mark(node, ms)).collect();
        let mut guest = Self { place, machine, marks, sent: Vec::new() };
        guest.pull();
        guest
    }

    fn attach(&self, hall: &mut Hall, ms: u64) {
        for node in 0..self.marks.len() {
            hall.stores[node].listen(self.place.client);
            let (speaker, terms) = (self.speaker(node), self.terms(node, ms));
            hall.apply(node, ms, &Command::Attach { speaker, terms });
        }
    }

    /// Every connection has a session of its own.
    const fn speaker(&self, node: usize) -> Speaker {
        Speaker { client: self.place.client, session: Session::from_random(node as u128 + 1) }
    }

    fn terms(&self, node: usize, ms: u64) -> SessionTerms {
        let mark = Some(self.marks[node]);
        SessionTerms { life_ms: LIFE_MS, mark, slack_us: GUARD_MS * 250, wall_ms: wall(ms) }
    }

    fn ping(&self, hall: &mut Hall, ms: u64) {
        for node in 0..self.marks.len() {
            let (speaker, terms) = (self.speaker(node), self.terms(node, ms));
            hall.apply(node, ms, &Command::Ping { speaker, terms });
        }
    }

    fn owner(&self) -> Owner {
        self.place.owner(self.machine.life().into())
    }

    fn pull(&mut self) {
        while let Output::Say { node, said } = self.machine.poll_output() {
            self.sent.push((node, said));
        }
    }

    fn command(&self, node: usize, said: Said) -> Command {
        let (name, owner) = (name(), self.place.owner(said.life.into()));
        let speaker = self.speaker(node);
        match said.what {
            Saying::Ask { is_waiting, is_known } => {
                Command::Acquire { speaker, ask: Ask { name, owner, is_waiting, is_known } }
            }
            Saying::Yield(fence) | Saying::Doubt(fence) => {
                Command::Release { name, owner, yields: Some(Yield { fence, speaker }) }
            }
            Saying::Leave => Command::Release { name, owner, yields: None },
            Saying::Confirm(fence) => {
                let entry = Extend { name, owner, fence, ttl_ms: TTL_MS, may_heal: false };
                Command::Extend { speaker, entries: [entry].into() }
            }
        }
    }

    /// Everything that is on its way to the node arrives, and so do the answers.
    fn exchange(&mut self, hall: &mut Hall, node: usize, ms: u64) {
        while let Some(index) = self.sent.iter().position(|(to, _)| *to == node) {
            let (_, said) = self.sent.remove(index);
            let reply = hall.apply(node, ms, &self.command(node, said));
            self.machine.handle_reply(node, said, at(ms), Some(&reply), at(ms));
            self.pull();
        }
    }

    fn held(&self) -> Result<Fence, String> {
        match self.machine.outcome() {
            Some(Outcome::Held { fence, .. }) => Ok(fence),
            other => Err(format!("an attempt ended as {other:?}, not with the lock")),
        }
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

const BEGIN_US: u64 = 1_800_000_000_000_000;
const TTL_MS: u64 = 100;
const LIFE_MS: u64 = 200;
const GUARD_MS: u64 = 400;
const PING_MS: u64 = 50;

/// More than any clock may be wrong by.
const STEP_MS: u64 = 10_000;
