//! Servers, what carries messages to them, and the judge who knows true time.

use std::collections::BTreeMap;

use quorate_core::{
    command::{ClientId, Command, Reply},
    fence::Fence,
    guard::{Greeting, Mark, Met, NodeId},
    moment::NodeTime,
    store::Store,
};

use super::{GUARD, LIFE, Ms};
use crate::dice::Dice;

/// What happens at a point in time.
#[derive(Debug)]
pub(super) enum Event {
    Arrive(Call),
    Answer {
        to: usize,
        tag: Tag,
        epoch: u64,
        /// `None` if the connection broke.
        reply: Option<Reply>,
    },
    Tick {
        party: usize,
    },
    Fault(usize),
    Start(usize),
}

/// A command on its way.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) from: usize,
    pub(super) server: usize,
    /// The run of the server that the connection leads to; `None` for a new connection.
    pub(super) epoch: Option<u64>,
    pub(super) tag: Tag,
    pub(super) command: Command,
}

/// What an answer belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    /// Of one connection; an answer to an older one is of no use.
    pub(super) generation: u64,
    pub(super) seat: usize,
    pub(super) kind: Kind,
    pub(super) sent_at: Ms,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Meet,
    Repair,
    Attach,
    Ping,
    Acquire(u64),
    Confirm(u64),
    Renew(u64),
    Release,
}

/// One server, which may be a node.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) store: Store,
    pub(super) epoch: u64,
    pub(super) is_up: bool,
    pub(super) snapshot: Store,
    /// It has lost its memory and was not given its place again.
    pub(super) has_forgotten: bool,
}

/// Who holds the lock in truth.
#[derive(Debug, Default)]
pub(super) struct Judge {
    /// By number of the attempt: until when, and by whom.
    holds: BTreeMap<u64, (Ms, usize)>,
    last: Option<(Fence, usize)>,
    pub(super) count: u64,
    pub(super) violation: Option<String>,
}

/// Everything but the clients.
#[derive(Debug)]
pub(super) struct Net {
    pub(super) now: Ms,
    queue: BTreeMap<(Ms, u64), Event>,
    next: u64,
    pub(super) dice: Dice,
    pub(super) servers: Vec<Server>,
    /// Until when a party and a server do not hear each other.
    pub(super) cut: Vec<Vec<Ms>>,
    pub(super) is_calm: bool,
    pub(super) judge: Judge,
    pub(super) trace: Option<Vec<String>>,
}

impl Net {
    pub(super) fn new(dice: Dice, servers: usize, parties: usize, is_traced: bool) -> Self {
        let server = || Server {
            store: Store::new(),
            epoch: 1,
            is_up: true,
            snapshot: Store::new(),
            has_forgotten: false,
        };
        Self {
            now: 0,
            queue: BTreeMap::new(),
            next: 1,
            dice,
            servers: (0..servers).map(|_| server()).collect(),
            cut: vec![vec![0; servers]; parties],
            is_calm: true,
            judge: Judge::default(),
            trace: is_traced.then(Vec::new),
        }
    }

    /// A number that was not there before.
    pub(super) fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The same, so that names have no order that follows from their age.
    pub(super) fn random(&mut self) -> u128 {
        (u128::from(self.dice.next()) << 64) | u128::from(self.fresh())
    }

    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>7} {}", self.now, text()));
        }
    }

    pub(super) fn at(&mut self, when: Ms, event: Event) {
        let number = self.fresh();
        self.queue.insert((when.max(self.now), number), event);
    }

    /// The next event up to `end`, and time with it.
    pub(super) fn pop(&mut self, end: Ms) -> Option<Event> {
        let (&(when, _), _) = self.queue.first_key_value().filter(|((when, _), _)| *when <= end)?;
        self.now = when;
        self.queue.pop_first().map(|(_, event)| event)
    }

    pub(super) fn wall_ms(&self) -> u64 {
        EPOCH + self.now
    }

    fn delay(&mut self) -> Option<Ms> {
        match self.dice.below(if self.is_calm { 60 } else { 100 }) {
            0..60 => Some(self.dice.between(1, 4)),
            60..95 => Some(self.dice.between(1, 30)),
            95..98 => Some(self.dice.between(20, 400)),
            98 => Some(self.dice.between(100, 2 * GUARD)),
            _ => None,
        }
    }

    pub(super) fn is_cut(&self, party: usize, server: usize) -> bool {
        self.cut[party][server] > self.now
    }

    pub(super) fn send(&mut self, call: Call) {
        if self.is_cut(call.from, call.server) {
            return;
        }
        if let Some(delay) = self.delay() {
            self.at(self.now + delay, Event::Arrive(call));
        }
    }

    pub(super) fn arrive(&mut self, call: &Call) {
        let Call { from: to, server, epoch: known, tag, command } = call;
        let (to, tag, at) = (*to, *tag, self.servers[*server].epoch);
        if !self.servers[*server].is_up || self.is_cut(to, *server) {
            return;
        }
        let is_broken = known.is_some_and(|known| known != at);
        let reply = (!is_broken).then(|| self.apply(*server, command));
        if reply.as_ref().is_some_and(|it| matches!(it, Reply::Changed | Reply::Enrolled)) {
            self.note(|| format!("party {to} to server {server}: {}", short(command)));
        }
        if let Some(delay) = self.delay() {
            self.at(self.now + delay, Event::Answer { to, tag, epoch: at, reply });
        }
    }

    pub(super) fn apply(&mut self, server: usize, command: &Command) -> Reply {
        let now = NodeTime::from_micros(self.wall_ms() * 1_000);
        let store = &mut self.servers[server].store;
        // What is over by now goes with every command.
        store.apply(now, &Command::Who { client: ClientId::from_random([0; 20]) });
        let before = command.only_looks().then(|| store.clone());
        let reply = store.apply(now, command);
        // Whoever refuses has only looked, and must not have changed anything.
        if before.is_some_and(|before| before != *store) {
            let said = format!("server {server} is another one since it was looked at");
            self.judge.violation.get_or_insert(said);
        }
        reply
    }

    pub(super) fn greeting(&mut self) -> Greeting {
        Greeting {
            wall_ms: self.wall_ms(),
            known: None,
            mark: Mark::from_random(self.random()),
            id: NodeId::from_random(self.random()),
            life_ms: LIFE,
            guard_ms: GUARD,
            is_looking: false,
            is_durable: false,
        }
    }

    /// What a server would tell; nothing changes.
    pub(super) fn probe(&mut self, server: usize) -> Met {
        let greeting = self.greeting();
        let now = NodeTime::from_micros(self.wall_ms() * 1_000);
        let mut store = self.servers[server].store.clone();
        match store.apply(now, &Command::Meet { greeting }) {
            Reply::Met(met) => *met,
            other => unreachable!("{other:?}"),
        }
    }

    /// Whether some server has lost its memory and does not have its place again.
    pub(super) fn is_forgetful(&mut self) -> bool {
        for server in 0..self.servers.len() {
            if self.servers[server].has_forgotten {
                let met = self.probe(server);
                self.servers[server].has_forgotten = met.doubt.is_some() && !met.is_enrolled;
            }
        }
        self.servers.iter().any(|server| server.has_forgotten)
    }

    /// Somebody meets a server, at once.
    pub(super) fn meet(&mut self, server: usize) -> Met {
        let greeting = self.greeting();
        match self.apply(server, &Command::Meet { greeting }) {
            Reply::Met(met) => *met,
            other => unreachable!("{other:?}"),
        }
    }

    /// Somebody holds the lock until then, as far as it knows.
    pub(super) fn holds(&mut self, attempt: u64, by: usize, until: Ms, fence: Fence) {
        let now = self.now;
        self.judge.holds.retain(|_, (until, _)| *until > now);
        let other = self.judge.holds.iter().find(|(number, _)| **number != attempt);
        if let Some((_, (until, other))) = other {
            let said = format!("client {by} holds while client {other} does until {until}");
            self.judge.violation.get_or_insert(said);
        }
        let is_new = self.judge.holds.insert(attempt, (until, by)).is_none();
        if is_new {
            self.judge.count += 1;
            if let Some((last, other)) = self.judge.last
                && fence <= last
            {
                let said = format!("client {by} has fence {fence}, client {other} had {last}");
                self.judge.violation.get_or_insert(said);
            }
            self.judge.last = Some((fence, by));
            self.note(|| format!("client {by} holds with fence {fence} until {until}"));
        }
        if let Some(said) = self.judge.violation.clone() {
            self.note(|| said);
        }
    }

    pub(super) fn lets_go(&mut self, attempt: u64) {
        self.judge.holds.remove(&attempt);
    }
}

fn short(command: &Command) -> String {
    let text = |pact: &quorate_core::guard::Pact| {
        let open = if pact.before.is_some() { " open" } else { "" };
        format!("change {} {}{open}", pact.change, pact.members)
    };
    match command {
        Command::Enrol { enrolment } => format!("enrol {}", text(&enrolment.pact)),
        Command::Change { pact, .. } => text(pact),
        other => format!("{other:?}"),
    }
}

/// What all wall clocks show when a world begins.
const EPOCH: u64 = 1_800_000_000_000;
