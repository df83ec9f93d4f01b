//! One world: founded, changed again and again, and at last left alone.

use quorate_core::{
    command::Command,
    guard::{Council, Enrolment, Mark, Opinion, Pact},
};

use super::{
    GUARD, Ms, Report, TTL,
    client::Client,
    faults::{self, Fault, Memory},
    lock::Stage,
    net::{Event, Net},
    operator::Operator,
};
use crate::dice::Dice;

#[derive(Debug)]
pub(super) struct World {
    pub(super) net: Net,
    pub(super) clients: Vec<Client>,
    pub(super) operators: Vec<Operator>,
    /// All lists that were agreed upon, as far as operators know.
    pub(super) lists: Vec<Vec<usize>>,
    faults: Vec<(Ms, Fault)>,
    pub(super) later: Vec<(Ms, Later)>,
}

/// What follows from a fault.
#[derive(Clone, Copy, Debug)]
pub(super) enum Later {
    Crash(usize, Memory),
    Anew(usize),
    /// A client and a server do not hear each other until then.
    Cut(usize, usize, Ms),
}

impl World {
    pub(super) fn new(seed: u64, is_traced: bool) -> Self {
        let mut dice = Dice::new(seed, 77);
        let nodes = dice.pick(&[2, 3, 3, 3, 3, 4, 5, 5]);
        let servers = nodes + dice.between(1, 3) as usize;
        let clients = dice.between(2, 4) as usize;
        let mut net = Net::new(dice, servers, clients, is_traced);
        let list: Vec<usize> = (0..nodes).collect();
        let faults = faults::draw(&mut net);
        for (number, (when, _)) in faults.iter().enumerate() {
            net.at(*when, Event::Fault(number));
        }
        let mut world = Self {
            net,
            clients: Vec::new(),
            operators: Vec::new(),
            lists: vec![list.clone()],
            faults,
            later: Vec::new(),
        };
        for party in 0..clients {
            let client = Client::new(&mut world.net, party, list.clone());
            world.clients.push(client);
            world.net.at(0, Event::Tick { party });
        }
        world
    }

    /// The list that was agreed upon last, as far as operators know.
    pub(super) fn latest(&self) -> Vec<usize> {
        self.lists.last().cloned().unwrap_or_default()
    }

    pub(super) fn operate(&mut self, wanted: Vec<usize>, tells: usize) {
        let party = self.net.cut.len();
        self.net.cut.push(vec![0; self.net.servers.len()]);
        if self.net.dice.below(2) == 0 && !self.net.is_calm {
            let server = self.net.dice.pick(&wanted);
            self.net.cut[party][server] = self.net.now + 2 * GUARD;
        }
        let operator = Operator::new(&mut self.net, party, wanted, tells);
        self.operators.push(operator);
    }

    /// The process of a client ends, and another one begins with this list.
    pub(super) fn begin_anew(&mut self, client: usize, list: Vec<usize>) {
        if let Stage::Holding(hold) = &self.clients[client].lock.stage {
            self.net.lets_go(hold.number);
        }
        self.net.note(|| format!("client {client} begins anew with {list:?}"));
        self.clients[client] = Client::new(&mut self.net, client, list);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive(call) => self.net.arrive(&call),
            Event::Answer { to, tag, epoch, reply } => match self.clients.get_mut(to) {
                Some(client) => {
                    client.answer(&mut self.net, tag, epoch, reply);
                }
                _ => self.operators[to - self.clients.len()].answer(tag, epoch, reply),
            },
            Event::Tick { party } => match self.clients.get_mut(party) {
                Some(client) => client.tick(&mut self.net),
                None => {
                    let operator = &mut self.operators[party - self.clients.len()];
                    if operator.tick(&mut self.net) {
                        let wanted = operator.wanted.clone();
                        self.lists.push(wanted);
                    }
                }
            },
            Event::Fault(number) if !self.net.is_calm => self.strike(self.faults[number].1),
            Event::Fault(_) => {}
            Event::Start(server) => {
                self.net.servers[server].is_up = true;
            }
        }
    }

    fn play(&mut self, end: Ms) {
        while self.net.judge.violation.is_none() {
            let now = self.net.now;
            let due = self.later.iter().position(|(when, _)| *when <= now);
            if let Some((_, later)) = due.map(|at| self.later.swap_remove(at)) {
                match later {
                    Later::Crash(server, memory) => self.crash(server, memory, 10),
                    Later::Anew(client) => self.begin_anew(client, self.latest()),
                    Later::Cut(client, server, until) => self.net.cut[client][server] = until,
                }
            }
            let Some(event) = self.net.pop(end) else { break };
            self.handle(event);
        }
        self.net.now = end.max(self.net.now);
    }

    pub(super) fn run(mut self) -> Report {
        self.play(3 * GUARD - 1);
        self.net.is_calm = false;
        let last = self.faults.iter().map(|(when, _)| *when).max().unwrap_or(0);
        self.play(last + 4 * GUARD);
        self.calm_down();
        let lists: Vec<_> = self.agreed().iter().map(Self::list_of).collect();
        let is_settled = lists.iter().any(|list| self.settles(list));
        let needs = if is_settled { None } else { self.repairs() };
        let changes = self.agreed().first().map_or(0, |pact| pact.change);
        let (holds, violation) = (self.net.judge.count, self.net.judge.violation);
        Report { holds, changes, needs, violation, trace: self.net.trace.unwrap_or_default() }
    }

    fn calm_down(&mut self) {
        self.net.is_calm = true;
        self.net.note(|| "nothing goes wrong any more".into());
        self.later.clear();
        self.net.cut.iter_mut().flatten().for_each(|until| *until = 0);
        self.net.servers.iter_mut().for_each(|server| server.is_up = true);
        self.operators.iter_mut().for_each(|operator| operator.is_done = true);
    }

    /// The latest pacts that any server knows: more than one if operators were at odds.
    fn agreed(&mut self) -> Vec<Pact> {
        let servers = self.net.servers.len();
        let told: Vec<Pact> = (0..servers).filter_map(|it| self.net.probe(it).pact).collect();
        let last = told.iter().map(|pact| pact.change).max().unwrap_or(0);
        let mut latest: Vec<Pact> = Vec::new();
        for pact in told.into_iter().filter(|pact| pact.change == last) {
            if !latest.contains(&pact) {
                latest.push(pact);
            }
        }
        latest
    }

    fn list_of(pact: &Pact) -> Vec<usize> {
        let number = |label: &str| label.trim_start_matches('s').parse().unwrap_or(0);
        pact.members.iter().map(|member| number(&member.label)).collect()
    }

    /// Whether every client gets the lock with this list.
    fn settles(&mut self, list: &[usize]) -> bool {
        for client in 0..self.clients.len() {
            self.begin_anew(client, list.to_vec());
            self.clients[client].stopped_until = 0;
        }
        for _ in 0..12 {
            self.play(self.net.now + GUARD);
            if self.net.judge.violation.is_some() {
                return true;
            }
            if self.clients.iter().all(|client| client.wins > 0) {
                return true;
            }
        }
        false
    }

    /// An operator settles it, by wanting one of the latest lists. Says what was the matter.
    fn repairs(&mut self) -> Option<String> {
        let seen = self.clients.iter().find(|it| it.wins == 0).map(|it| format!("{:?}", it.last));
        let agreed = self.agreed();
        let seen = seen.unwrap_or_default();
        let seen = seen.split([' ', ';']).take(3).collect::<Vec<_>>().join(" ");
        let said = format!("{} lists, {seen}", agreed.len());
        self.show_all();
        self.net.note(|| format!("it does not settle: {said}"));
        let mut why = Vec::new();
        for pact in &agreed {
            let list = Self::list_of(pact);
            self.operate(list.clone(), usize::MAX);
            self.play(self.net.now + 5 * GUARD);
            why.extend(self.operators.last().and_then(|it| it.why_not.clone()));
            if self.settles(&list) {
                return Some(said);
            }
        }
        if agreed.first().is_some_and(|pact| self.rescues(pact)) {
            return Some(format!("on its word: {said}"));
        }
        let stuck = format!("stuck for ever: {said} {why:?}");
        self.net.note(|| stuck.clone());
        self.net.judge.violation.get_or_insert(stuck);
        Some(said)
    }

    /// An operator gives its word: all other servers are off, and who goes by another list has
    /// nothing to remember.
    fn rescues(&mut self, pact: &Pact) -> bool {
        let list = Self::list_of(pact);
        for server in 0..self.net.servers.len() {
            self.net.servers[server].is_up = list.contains(&server);
            if self.net.probe(server).pact.is_some_and(|told| told != *pact) {
                self.net.servers[server].store.clear();
            }
        }
        let labels = list.iter().map(|server| super::label(*server));
        let mut council = Council::new(labels, TTL, GUARD);
        council.set_vouched(true);
        for (seat, server) in list.iter().enumerate().cycle().take(4 * list.len()) {
            council.ask(seat);
            let met = self.net.meet(*server);
            let fresh = Mark::from_random(self.net.random());
            let command = match council.hear(seat, met).0 {
                Opinion::Enrol(it) => {
                    let enrolment = Enrolment { wall_ms: self.net.wall_ms(), ..it };
                    Command::Enrol { enrolment }
                }
                Opinion::Tell { mark, pact } => Command::Change { mark, pact, fresh },
                Opinion::Votes(_) | Opinion::Waits { .. } | Opinion::Differs(_) => continue,
            };
            self.net.apply(*server, &command);
        }
        self.settles(&list)
    }

    fn show_all(&mut self) {
        for server in 0..self.net.servers.len() {
            let met = self.net.probe(server);
            let pact = met.pact.map(|it| {
                format!("{} {} after {}", it.change, it.members, it.before.unwrap_or_default())
            });
            let (doubt, is_enrolled) = (met.doubt, met.is_enrolled);
            self.net.note(|| format!("server {server}: {pact:?} {doubt:?} {is_enrolled}"));
        }
    }
}
