//! One world: founded, changed again and again, and at last left alone.

use quorate_core::{
    command::Command,
    membership::{AgreedConfig, View},
};

use super::{
    GUARD, GUARD_MS, Report, TTL_MS,
    client::Client,
    env::Env,
    faults::{self, Fault, Memory},
    operator::Operator,
};
use crate::{
    clock::{MS, Nanos},
    dice::Dice,
    event::{Direction, Due, Event, Part},
    links::Linked,
    net::Heard,
};

#[derive(Debug)]
pub(super) struct World {
    pub(super) env: Env,
    pub(super) clients: Vec<Client>,
    pub(super) operators: Vec<Operator>,
    /// All lists that were agreed upon, as far as operators know.
    pub(super) lists: Vec<Vec<usize>>,
    faults: Vec<(Nanos, Fault)>,
    pub(super) later: Vec<(Nanos, Later)>,
}

/// What follows from a fault.
#[derive(Clone, Copy, Debug)]
pub(super) enum Later {
    Crash(usize, Memory),
    Anew(usize),
    /// A client and a server do not hear each other until then.
    Cut(usize, usize, Nanos),
}

impl World {
    pub(super) fn new(seed: u64, is_traced: bool) -> Self {
        let mut dice = Dice::new(seed, 77);
        let nodes = dice.pick(&[2, 3, 3, 3, 3, 4, 5, 5]);
        let servers = nodes + dice.between(1, 3) as usize;
        let clients = dice.between(2, 4) as usize;
        let mut env = Env::new(dice, servers, is_traced);
        let list: Vec<usize> = (0..nodes).collect();
        let faults = faults::draw(&mut env);
        for (number, (when, _)) in faults.iter().enumerate() {
            env.plan(*when, Event::Fault { index: number as u16, part: Part::Begin });
        }
        let mut world = Self {
            env,
            clients: Vec::new(),
            operators: Vec::new(),
            lists: vec![list.clone()],
            faults,
            later: Vec::new(),
        };
        for _ in 0..clients {
            let party = world.env.add_party();
            let client = Client::new(&mut world.env, party, 0, &list);
            world.clients.push(client);
        }
        world
    }

    /// The list that was agreed upon last, as far as operators know.
    pub(super) fn latest(&self) -> Vec<usize> {
        self.lists.last().cloned().unwrap_or_default()
    }

    pub(super) fn operate(&mut self, wanted: Vec<usize>, tells: usize) {
        let party = self.env.add_party();
        if self.env.dice.below(2) == 0 && !self.env.is_calm {
            let server = self.env.dice.pick(&wanted);
            self.env.cut[party][server] = self.env.now + 2 * GUARD;
        }
        let operator = Operator::new(&mut self.env, party, wanted, tells);
        self.operators.push(operator);
    }

    /// The process of a client ends, and another one begins with this list.
    pub(super) fn begin_anew(&mut self, client: usize, list: Vec<usize>) {
        self.env.note(|| format!("client {client} begins anew with {list:?}"));
        self.clients[client].die(&mut self.env);
        let life = self.clients[client].me.life + 1;
        self.clients[client] = Client::new(&mut self.env, client, life, &list);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive { link, generation, way } => {
                let (party, seat) = self.env.net.ends(link);
                let server = self.env.net.link(party, seat).node;
                if let Some(until) = self.env.cut_until(party, server) {
                    self.env.plan(until, event);
                } else if way == Direction::ToNode {
                    self.handle_request(link, generation);
                } else if !self.defers(party, event) {
                    self.handle_heard(link, generation, way);
                }
            }
            Event::Straggle { slot } => {
                // What is late and held up, too, is lost.
                if let Some(late) = self.env.net.straggler(slot)
                    && self.env.cut_until(late.client, late.node).is_none()
                {
                    self.env.run(late.client, late.node, &late.request.what);
                }
            }
            Event::HangUp { link, generation } => {
                let servers = self.env.servers.iter_mut();
                servers.for_each(|server| server.node.hang_up(link, generation));
            }
            Event::Client { client, life, what } => {
                self.handle_due(usize::from(client), life, what, event);
            }
            Event::Fault { index, part: Part::Begin } if !self.env.is_calm => {
                self.strike(self.faults[usize::from(index)].1);
            }
            Event::Fault { index, part: Part::End } => {
                self.env.servers[usize::from(index)].node.crashes = 0;
            }
            _ => {}
        }
    }

    /// Puts off what comes while a client stands still. Returns true if it did.
    fn defers(&mut self, party: usize, event: Event) -> bool {
        let until = self.clients.get(party).map_or(0, |client| client.stopped_until);
        if until > self.env.now {
            self.env.plan(until, event);
        }
        until > self.env.now
    }

    fn handle_due(&mut self, party: usize, life: u32, what: Due, event: Event) {
        if let Some(client) = self.clients.get(party) {
            if client.me.life == life && !self.defers(party, event) {
                self.clients[party].handle(&mut self.env, what);
            }
            return;
        }
        let operator = &mut self.operators[party - self.clients.len()];
        if matches!(what, Due::Work { .. }) && operator.tick(&mut self.env) {
            let wanted = operator.wanted.clone();
            self.lists.push(wanted);
        }
    }

    fn handle_request(&mut self, link: u16, generation: u32) {
        let env = &mut self.env;
        let Some(request) = env.net.arrived_request(link, generation) else { return };
        let (party, seat) = env.net.ends(link);
        let server = env.net.link(party, seat).node;
        if !env.servers[server].node.is_up() {
            return;
        }
        if let Command::Attach { speaker, .. } = &request.what {
            env.servers[server].node.listen(speaker.client, link, generation);
        }
        let reply = env.run(party, server, &request.what);
        env.net.reply(&mut env.queue, env.now, link, Some(reply));
    }

    fn handle_heard(&mut self, link: u16, generation: u32, way: Direction) {
        let env = &mut self.env;
        let (party, seat) = env.net.ends(link);
        let Some(heard) = env.net.arrived_reply(link, generation, way) else { return };
        let link = env.net.link(party, seat);
        link.heard_at = env.now;
        let reply = match heard.what {
            Heard::Reply(reply) => reply,
            Heard::Push(push) => {
                self.clients[party].handle_push(env, seat, push);
                return;
            }
        };
        let Some(waiting) = link.waiting.pop_front() else { return };
        match self.clients.get_mut(party) {
            Some(client) => client.handle_answer(env, seat, waiting, reply),
            None => {
                let operator = &mut self.operators[party - self.clients.len()];
                operator.handle_answer(generation, seat, &waiting.command, reply);
            }
        }
    }

    fn play(&mut self, end: Nanos) {
        while self.env.judge.violation.is_none() {
            let now = self.env.now;
            let due = self.later.iter().position(|(when, _)| *when <= now);
            if let Some((_, later)) = due.map(|at| self.later.swap_remove(at)) {
                match later {
                    Later::Crash(server, memory) => self.crash(server, memory, 10 * MS),
                    Later::Anew(client) => self.begin_anew(client, self.latest()),
                    Later::Cut(client, server, until) => self.env.cut[client][server] = until,
                }
            }
            let Some((at, event)) = self.env.queue.next_by(end) else { break };
            self.env.now = at;
            self.handle(event);
        }
        self.env.now = end.max(self.env.now);
    }

    pub(super) fn run(mut self) -> Report {
        self.play(3 * GUARD - 1);
        self.env.set_rough(true);
        let last = self.faults.iter().map(|(when, _)| *when).max().unwrap_or(0);
        self.play(last + 4 * GUARD);
        self.calm_down();
        let lists: Vec<_> = self.agreed().iter().map(Self::list_of).collect();
        let is_settled = lists.iter().any(|list| self.settles(list));
        let needs = if is_settled { None } else { self.repairs() };
        let changes = self.agreed().first().map_or(0, |config| config.change);
        let (holds, violation) = (self.env.judge.count, self.env.judge.violation);
        Report { holds, changes, needs, violation, trace: self.env.trace.unwrap_or_default() }
    }

    fn calm_down(&mut self) {
        self.env.set_rough(false);
        self.env.note(|| "nothing goes wrong any more".into());
        self.later.clear();
        self.env.cut.iter_mut().flatten().for_each(|until| *until = 0);
        self.env.servers.iter_mut().for_each(|server| server.node.crashes = 0);
        self.operators.iter_mut().for_each(|operator| operator.is_done = true);
    }

    /// The latest pacts that any server knows: more than one if operators were at odds.
    fn agreed(&mut self) -> Vec<AgreedConfig> {
        let servers = self.env.servers.len();
        let told: Vec<AgreedConfig> =
            (0..servers).filter_map(|it| self.env.probe(it).config).collect();
        let last = told.iter().map(|config| config.change).max().unwrap_or(0);
        let mut latest: Vec<AgreedConfig> = Vec::new();
        for config in told.into_iter().filter(|config| config.change == last) {
            if !latest.contains(&config) {
                latest.push(config);
            }
        }
        latest
    }

    fn list_of(config: &AgreedConfig) -> Vec<usize> {
        let number = |label: &str| label.trim_start_matches('s').parse().unwrap_or(0);
        config.members.iter().map(|member| number(&member.label)).collect()
    }

    /// Whether every client gets the lock with this list.
    fn settles(&mut self, list: &[usize]) -> bool {
        for client in 0..self.clients.len() {
            self.begin_anew(client, list.to_vec());
        }
        for _ in 0..12 {
            self.play(self.env.now + GUARD);
            if self.env.judge.violation.is_some() {
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
        self.env.note(|| format!("it does not settle: {said}"));
        let mut why = Vec::new();
        for config in &agreed {
            let list = Self::list_of(config);
            self.operate(list.clone(), usize::MAX);
            self.play(self.env.now + 5 * GUARD);
            why.extend(self.operators.last().and_then(|it| it.why_not.clone()));
            if self.settles(&list) {
                return Some(said);
            }
        }
        if agreed.first().is_some_and(|config| self.rescues(config)) {
            return Some(format!("on its word: {said}"));
        }
        let stuck = format!("stuck for ever: {said} {why:?}");
        self.env.note(|| stuck.clone());
        self.env.judge.violation.get_or_insert(stuck);
        Some(said)
    }

    /// An operator gives its word: all other servers are off, and who goes by another list has
    /// nothing to remember.
    fn rescues(&mut self, config: &AgreedConfig) -> bool {
        let list = Self::list_of(config);
        for server in 0..self.env.servers.len() {
            self.env.servers[server].node.crashes = u32::from(!list.contains(&server));
            if self.env.probe(server).config.is_some_and(|told| told != *config) {
                self.env.servers[server].node.store.clear();
            }
        }
        let labels = list.iter().map(|server| super::label(*server));
        let mut council = View::new(labels, TTL_MS, GUARD_MS);
        council.set_vouched(true);
        self.env.settle(&mut council, &list, &[]);
        self.settles(&list)
    }

    fn show_all(&mut self) {
        for server in 0..self.env.servers.len() {
            let met = self.env.probe(server);
            let config = met.config.map(|it| {
                format!("{} {} after {}", it.change, it.members, it.before.unwrap_or_default())
            });
            let (doubt, is_enrolled) = (met.quarantine, met.is_enrolled);
            self.env.note(|| format!("server {server}: {config:?} {doubt:?} {is_enrolled}"));
        }
    }
}
