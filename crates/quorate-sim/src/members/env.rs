//! What is around the clients and operators: servers, connections, and the judge.

use quorate_core::{
    command::{ClientId, Command, Reply},
    fence::Fence,
    membership::{self, Enrolment, Handshake, Mark, NodeId, NodeInfo, Opinion, View},
    store::Store,
};

use super::{GUARD, GUARD_MS, LIFE_MS, LINK_TIMEOUT, judge::Judge};
use crate::{
    clock::{MS, Nanos, NodeClock, US},
    dice::Dice,
    event::{Event, Queue},
    links::Surroundings,
    net::{Net, Shape},
    node::Node,
    settings::wall_ms,
};

/// One server, which may be a node.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) node: Node,
    pub(super) snapshot: Store,
    /// It has lost its memory and was not given its place again.
    pub(super) has_forgotten: bool,
}

#[derive(Debug)]
pub(super) struct Env {
    pub(super) now: Nanos,
    pub(super) queue: Queue,
    pub(super) net: Net,
    pub(super) servers: Vec<Server>,
    pub(super) dice: Dice,
    next: u64,
    /// Until when a party and a server do not hear each other.
    pub(super) cut: Vec<Vec<Nanos>>,
    pub(super) is_calm: bool,
    /// Servers write everything to disk at once.
    pub(super) is_durable: bool,
    pub(super) judge: Judge,
    pub(super) trace: Option<Vec<String>>,
}

impl Env {
    pub(super) fn new(mut dice: Dice, servers: usize, is_traced: bool) -> Self {
        let seed = dice.next();
        // Clocks of nodes are apart by less than a quarter of the guard, however long a world is.
        let mut clock = || {
            let origin = wall_ms(0) * 1_000 + dice.below(GUARD / 8 / US);
            NodeClock::new(origin, dice.pick(&[-500, 0, 500]))
        };
        let mut server = |number: usize| Server {
            node: Node::new(number, clock(), Dice::new(seed, 1)),
            snapshot: Store::new(),
            has_forgotten: false,
        };
        let (latency, jitter, timeout) = (MS / 2, 2 * MS, LINK_TIMEOUT);
        let shape = Shape { seed, nodes: servers, has_sessions: true, latency, jitter, timeout };
        let servers = (0..servers).map(&mut server).collect();
        Self {
            now: 0,
            queue: Queue::default(),
            net: Net::new(shape, 0),
            servers,
            dice,
            next: 1,
            cut: Vec::new(),
            is_calm: true,
            is_durable: false,
            judge: Judge::default(),
            trace: is_traced.then(Vec::new),
        }
    }

    /// One more client or operator. Returns its number.
    pub(super) fn add_party(&mut self) -> usize {
        self.net.add_client();
        self.cut.push(vec![0; self.servers.len()]);
        self.set_rough(!self.is_calm);
        self.cut.len() - 1
    }

    /// Messages may be late from now on, or are not any more.
    pub(super) fn set_rough(&mut self, is_rough: bool) {
        self.is_calm = !is_rough;
        let late_max = if is_rough { 2 * GUARD } else { 0 };
        self.net.links().for_each(|link| link.late_max = late_max);
    }

    /// A number that was not there before.
    pub(super) const fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The same, so that names have no order that follows from their age.
    pub(super) fn random(&mut self) -> u128 {
        (u128::from(self.dice.next()) << 64) | u128::from(self.fresh())
    }

    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>11.3} {}", self.now as f64 / MS as f64, text()));
        }
    }

    /// Until when a party does not hear this server.
    pub(super) fn cut_until(&self, party: usize, server: usize) -> Option<Nanos> {
        Some(self.cut[party][server]).filter(|until| *until > self.now)
    }

    /// A party closes all its connections.
    pub(super) fn hang_up(&mut self, party: usize) {
        for seat in 0..self.servers.len() {
            self.break_link(party, seat);
            self.net.link(party, seat).waiting.clear();
        }
    }

    /// Breaks a connection. Requests on their way may arrive late.
    pub(super) fn break_link(&mut self, party: usize, seat: usize) {
        let late = self.stragglers_for();
        self.net.break_link(&mut self.queue, self.now, (party, seat), late);
    }

    /// A request reaches its server.
    pub(super) fn run(&mut self, party: usize, server: usize, command: &Command) -> Reply {
        let reply = self.apply(server, command);
        if let Reply::Membership(membership::Reply::Changed | membership::Reply::Enrolled) = reply {
            self.note(|| format!("party {party} to server {server}: {}", short(command)));
        }
        let node = &mut self.servers[server].node;
        self.net.push_all(&mut self.queue, self.now, node, false);
        reply
    }

    pub(super) fn apply(&mut self, server: usize, command: &Command) -> Reply {
        let Node { store, clock, .. } = &mut self.servers[server].node;
        let now = clock.at(self.now);
        // Removes what has expired by now, as every command does.
        store.apply(now, &Command::Who { client: ClientId::from_random([0; 20]) });
        let before = command.only_looks().then(|| store.clone());
        let reply = store.apply(now, command);
        // A command that only looks must not change anything.
        if before.is_some_and(|before| before != *store) {
            let said = format!("server {server} is another one since it was looked at");
            self.judge.violation.get_or_insert(said);
        }
        reply
    }

    pub(super) fn greeting(&mut self) -> Handshake {
        Handshake {
            wall_ms: wall_ms(self.now),
            known: None,
            mark: Mark::from_random(self.random()),
            id: NodeId::from_random(self.random()),
            life_ms: LIFE_MS,
            quarantine_ms: GUARD_MS,
            is_looking: false,
            is_durable: self.is_durable,
        }
    }

    /// What a server would tell; nothing changes.
    pub(super) fn probe(&mut self, server: usize) -> NodeInfo {
        let greeting = self.greeting();
        let Node { store, clock, .. } = &self.servers[server].node;
        match store
            .clone()
            .apply(clock.at(self.now), &membership::Command::Handshake(greeting).into())
        {
            Reply::Membership(membership::Reply::Info(met)) => *met,
            other => unreachable!("{other:?}"),
        }
    }

    /// Whether some server has lost its memory and does not have its place again.
    pub(super) fn is_forgetful(&mut self) -> bool {
        for server in 0..self.servers.len() {
            if self.servers[server].has_forgotten {
                let met = self.probe(server);
                self.servers[server].has_forgotten = met.quarantine.is_some() && !met.is_enrolled;
            }
        }
        self.servers.iter().any(|server| server.has_forgotten)
    }

    /// A client meets these servers, each at its seat, until there is nothing left to do about
    /// them. Messages take no time, and servers that are `away` do not hear it. Returns how each
    /// server that votes is marked.
    pub(super) fn settle(
        &mut self,
        council: &mut View,
        list: &[usize],
        away: &[usize],
    ) -> Vec<Option<Mark>> {
        let mut votes = vec![None; list.len()];
        let seats = list.iter().enumerate().cycle().take(8 * list.len());
        for (seat, server) in seats.filter(|(_, server)| !away.contains(server)) {
            council.ask(seat);
            let met = self.meet(*server);
            let fresh = Mark::from_random(self.random());
            votes[seat] = None;
            let command = match council.hear(seat, met).0 {
                Opinion::Enrol(it) => {
                    membership::Command::Enrol(Enrolment { wall_ms: wall_ms(self.now), ..it })
                }
                Opinion::Tell { mark, config } => {
                    membership::Command::Change { mark, config, fresh }
                }
                Opinion::Votes(mark) => {
                    votes[seat] = Some(mark);
                    continue;
                }
                Opinion::Quarantined(_) | Opinion::Differs(_) => continue,
            };
            self.apply(*server, &command.into());
        }
        votes
    }

    pub(super) fn meet(&mut self, server: usize) -> NodeInfo {
        let greeting = self.greeting();
        match self.apply(server, &membership::Command::Handshake(greeting).into()) {
            Reply::Membership(membership::Reply::Info(met)) => *met,
            other => unreachable!("{other:?}"),
        }
    }

    /// A client holds the lock until then, as far as it knows.
    pub(super) fn hold(&mut self, number: u64, by: usize, until: Nanos, fence: Fence) {
        if self.judge.hold(self.now, number, by, until, fence) {
            self.note(|| format!("client {by} holds with fence {fence} until {}", until / MS));
        }
        if let Some(said) = self.judge.violation.clone() {
            self.note(|| said);
        }
    }

    pub(super) fn plan(&mut self, at: Nanos, event: Event) {
        self.queue.add(at.max(self.now), event);
    }
}

impl Surroundings for Env {
    fn true_time(&self) -> Nanos {
        self.now
    }

    fn wire(&mut self) -> (&mut Net, &mut Queue) {
        (&mut self.net, &mut self.queue)
    }

    fn session_ms(&self) -> Option<u64> {
        Some(LIFE_MS)
    }

    fn is_reachable(&mut self, party: usize, seat: usize) -> bool {
        let server = self.net.link(party, seat).node;
        self.servers[server].node.is_up() && self.cut_until(party, server).is_none()
    }

    fn stragglers_for(&mut self) -> Nanos {
        match self.is_calm {
            true => 0,
            false => self.dice.pick(&[0, 30 * MS, 400 * MS, 2 * GUARD]),
        }
    }

    fn note(&mut self, party: usize, seat: usize, text: impl FnOnce() -> String) {
        let server = self.net.link(party, seat).node;
        Self::note(self, || format!("party {party}, server {server}: {}", text()));
    }
}

fn short(command: &Command) -> String {
    let text = |config: &membership::AgreedConfig| {
        let open = if config.before.is_some() { " open" } else { "" };
        format!("change {} {}{open}", config.change, config.members)
    };
    match command {
        Command::Membership(membership::Command::Enrol(it)) => {
            format!("enrol {}", text(&it.config))
        }
        Command::Membership(membership::Command::Change { config, .. }) => text(config),
        other => format!("{other:?}"),
    }
}
