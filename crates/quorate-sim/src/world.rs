//! One world from its seed to its end.

use std::{fmt, str::FromStr};

use quorate_core::{
    command::{Command, Fate, Owner, Reply, Sighting, Value},
    name::Name,
};

use crate::{
    check::{Checker, Claim, Promise, Violation, majority},
    client::Client,
    clock::{ClientClock, MS, NEVER, Nanos, NodeClock, SECOND},
    dice::Dice,
    event::{Direction, Event, Phase, Queue},
    fault::{self, Bound, Fault, KINDS, When},
    net::Net,
    node::Node,
    settings::{SETTLED_WITHIN, Settings},
    trace::{self, Key, Scene, Trace},
};

mod faults;

/// What everybody in a world can touch.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) settings: Settings,
    pub(crate) now: Nanos,
    pub(crate) queue: Queue,
    pub(crate) net: Net,
    pub(crate) nodes: Vec<Node>,
    pub(crate) locks: Vec<Name>,
    pub(crate) check: Checker,
    pub(crate) trace: Trace,
    pub(crate) count: Counts,
    /// The clients that run, as bits.
    pub(crate) running: u32,
    /// By client: a lock that was left to it.
    pub(crate) handovers: Vec<Option<Handover>>,
    /// Owners whose keys nobody frees.
    pub(crate) excused: Vec<Owner>,
    /// The ids of clients that died: nobody frees their keys either.
    pub(crate) dead: Vec<String>,
    /// A deliberate bug: the clients' clocks do not count the time in which they stand still.
    pub(crate) is_clock_stopping: bool,
}

/// A lock that was left to another client.
#[derive(Clone, Debug)]
pub(crate) struct Handover {
    pub(crate) lock: usize,
    pub(crate) owner: Owner,
}

/// What happened in a world, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Things that happened.
    pub events: u64,
    /// Rounds of asking for a lock.
    pub attempts: u64,
    /// Locks that were won.
    pub acquisitions: u64,
    /// Renewals that a majority confirmed.
    pub renewals: u64,
    /// Losses that were told.
    pub losses: u64,
    /// Faults by kind: see [`KINDS`].
    pub faults: [u64; KINDS.len()],
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.attempts += other.attempts;
        self.acquisitions += other.acquisitions;
        self.renewals += other.renewals;
        self.losses += other.losses;
        for (sum, more) in self.faults.iter_mut().zip(other.faults) {
            *sum += more;
        }
    }
}

/// What became of a world.
#[derive(Debug)]
pub struct Report {
    /// The numbers.
    pub count: Counts,
    /// The promise that was broken, if one was.
    pub violation: Option<Violation>,
    /// Overlaps after a bound was broken, each with the first bound that was.
    pub beyond: Vec<Bound>,
    /// What happened, if it was recorded.
    pub trace: Trace,
}

/// What is left out of a world, to make a violation easier to read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Without {
    /// Faults, by their index in the list.
    pub faults: Vec<usize>,
    /// Clients, by number: they are there and do nothing.
    pub clients: Vec<usize>,
}

impl Without {
    /// True if nothing is left out.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.faults.is_empty() && self.clients.is_empty()
    }

    /// Says so if the world of `settings` has no such fault or client.
    ///
    /// # Errors
    ///
    /// What there is instead.
    pub fn check(&self, settings: &Settings) -> Result<(), String> {
        let Settings { seed, faults, clients, .. } = *settings;
        let is_there = self.faults.iter().all(|fault| *fault < faults)
            && self.clients.iter().all(|client| *client < clients);
        match is_there {
            true => Ok(()),
            false => Err(format!(
                "the world of seed {seed} has the faults f0 to f{} and the clients c0 to c{}",
                faults.saturating_sub(1),
                clients.saturating_sub(1)
            )),
        }
    }
}

/// As on the command line: `f0,f3,c1`.
impl fmt::Display for Without {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.faults.iter().map(|fault| format!("f{fault}"));
        let clients = self.clients.iter().map(|client| format!("c{client}"));
        f.write_str(&faults.chain(clients).collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Without {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut without = Self::default();
        for part in text.split(',') {
            let unknown = || format!("`{part}` is neither a fault such as f3 nor a client like c1");
            let (kind, number) = part.split_at_checked(1).ok_or_else(unknown)?;
            let number = number.parse().map_err(|_| unknown())?;
            match kind {
                "f" => without.faults.push(number),
                "c" => without.clients.push(number),
                _ => return Err(unknown()),
            }
        }
        Ok(without)
    }
}

/// A running world.
#[derive(Debug)]
pub(crate) struct World {
    env: Env,
    clients: Vec<Client>,
    faults: Vec<Fault>,
}

/// Runs one world until its end or until a promise is broken.
#[must_use]
pub fn run(settings: Settings, without: &Without, options: Options) -> Report {
    let mut world = World::new(settings, without, options);
    world.begin(without);
    while let Some((at, event)) = world.env.queue.next() {
        world.env.now = at;
        world.env.count.events += 1;
        world.handle(event);
        if world.env.count.events >= EVENTS_MAX {
            let text = "the world does not come to an end".to_owned();
            world.env.check.report(at, Promise::Progress, None, Vec::new(), text);
        }
        if world.env.check.violation.is_some() {
            break;
        }
    }
    let Env { count, check, trace, .. } = world.env;
    Report { count, violation: check.violation, beyond: check.beyond, trace }
}

/// How a world is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Record what happens.
    pub is_traced: bool,
    /// A deliberate bug of the simulated machine: clocks stop while a client stands still.
    pub is_clock_stopping: bool,
}

impl World {
    fn new(settings: Settings, without: &Without, options: Options) -> Self {
        let seed = settings.seed;
        let mut dice = Dice::new(seed, STREAM);
        let node = |(number, ppm): (usize, &i32)| {
            let origin = 1_700_000_000_000_000 + dice.below(1_000_000_000);
            Node::new(NodeClock::new(origin, *ppm), Dice::new(seed, STREAM + 1 + number as u64))
        };
        let nodes = settings.node_rates.iter().enumerate().map(node).collect();
        let clients = settings.client_rates.iter().enumerate().map(|(number, ppm)| {
            let clock = ClientClock::new(dice.below(1_000 * SECOND), *ppm);
            Client::new(number, clock, settings.tasks, seed)
        });
        let clients = clients.collect::<Vec<_>>();
        let name = |lock| Name::parse(&format!("lock-{lock}"), "").expect("a fair name");
        let progress_within = settings.longest_ttl() / 50 * 51 + PROGRESS_SLACK;
        let mut check = Checker::new(settings.nodes, settings.locks, progress_within);
        if settings.beyond == Some(Bound::Clocks) {
            check.break_bound(Bound::Clocks);
        }
        let faults = fault::draw(&settings);
        let running = (0..settings.clients).fold(0, |set, client| set | 1 << client);
        let env = Env {
            now: 0,
            queue: Queue::default(),
            net: Net::new(&settings),
            nodes,
            locks: (0..settings.locks).map(name).collect(),
            check,
            trace: Trace::recording(options.is_traced),
            count: Counts::default(),
            running: without.clients.iter().fold(running, |set, client| set & !(1 << client)),
            handovers: vec![None; settings.clients],
            excused: Vec::new(),
            dead: Vec::new(),
            is_clock_stopping: options.is_clock_stopping,
            settings,
        };
        Self { env, clients, faults }
    }

    fn begin(&mut self, without: &Without) {
        for (number, client) in self.clients.iter_mut().enumerate() {
            match without.clients.contains(&number) {
                true => client.leave_out(),
                false => client.start(&mut self.env),
            }
        }
        for index in (0..self.faults.len()).filter(|index| !without.faults.contains(index)) {
            self.plan_fault(index);
        }
        let Env { settings, queue, .. } = &mut self.env;
        let (healed, resting) = (settings.faults_until, settings.work_until);
        queue.add(healed, Event::Phase(Phase::Healed));
        queue.add(resting, Event::Phase(Phase::Resting));
    }

    fn handle(&mut self, event: Event) {
        let env = &mut self.env;
        match event {
            Event::Arrive { link, generation, way: Direction::ToNode } => {
                let Some(request) = env.net.arrived_request(link, generation) else { return };
                let (client, node) = env.net.ends(link);
                let reply = match env.nodes[node].failing {
                    0 => Some(env.run(client, node, request.sent_at, &request.what)),
                    _ => Node::fail(&request.what),
                };
                match env.net.link(client, node).breaks {
                    Some((When::OnReply, late)) => self.break_link(client, node, late),
                    Some(_) | None => env.net.reply(&mut env.queue, env.now, link, reply),
                }
            }
            Event::Snap { link, generation } => {
                let (client, node) = env.net.ends(link);
                let known = env.net.link(client, node);
                if let Some((_, late)) = known.breaks.filter(|_| known.generation == generation) {
                    self.break_link(client, node, late);
                }
            }
            Event::Arrive { link, generation, way: Direction::ToClient } => {
                let (client, _) = env.net.ends(link);
                if !self.clients[client].defers(event) {
                    self.handle_reply(link, generation);
                }
            }
            Event::Straggle { slot } => {
                let Some(late) = env.net.straggler(slot) else { return };
                if env.nodes[late.node].is_up() && env.nodes[late.node].failing == 0 {
                    if let Command::Take { owner, .. } | Command::Adopt { owner, .. } =
                        &late.request.what
                    {
                        // Nobody knows of what it takes, so it stays for a ttl from now.
                        env.excused.push(owner.clone());
                        env.check.delay_stalls(env.now);
                    }
                    let request = &late.request;
                    env.run(late.client, late.node, request.sent_at, &request.what);
                }
            }
            Event::Client { client, life, what } => {
                let client = &mut self.clients[usize::from(client)];
                if client.life == life && !client.defers(event) {
                    client.handle(env, what);
                }
            }
            Event::Resume { client } => {
                let deferred = self.clients[usize::from(client)].resume(env);
                deferred.into_iter().for_each(|event| self.handle(event));
            }
            Event::Reborn { client } => {
                if self.clients[usize::from(client)].is_dead() {
                    self.clients[usize::from(client)].reborn(env);
                }
            }
            Event::Fault { index, part } => self.handle_fault(usize::from(index), part),
            Event::Audit { claim } => env.audit(claim),
            Event::Phase(phase) => self.handle_phase(phase),
        }
    }

    fn handle_reply(&mut self, link: u16, generation: u32) {
        let env = &mut self.env;
        let (client, node) = env.net.ends(link);
        let Some(reply) = env.net.arrived_reply(link, generation) else { return };
        let known = env.net.link(client, node);
        known.heard_at = env.now;
        let Some(waiting) = known.waiting.pop_front() else { return };
        let lock = env.lock_of(&waiting.command);
        env.trace.add(env.now, lock, || Scene::Heard {
            client,
            node,
            sent_at: reply.sent_at,
            ask: trace::ask(&waiting.command),
            answer: reply.what.as_ref().map_or_else(|| "an error".into(), trace::answer),
        });
        self.clients[client].handle_answer(env, node, waiting, reply.what);
    }

    fn handle_phase(&mut self, phase: Phase) {
        let env = &mut self.env;
        match phase {
            Phase::Healed => {
                env.net.heal();
                env.check.heal(env.now);
            }
            Phase::Resting => {
                (0..env.locks.len()).for_each(|lock| env.check.check_stall(env.now, lock));
                if env.check.is_stalled() {
                    // Nobody rests while somebody still waits for a lock that nobody has.
                    env.queue.add(env.now + STALL_LOOK, Event::Phase(Phase::Resting));
                    return;
                }
                self.clients.iter_mut().for_each(|client| client.rest(env));
                let settled = env.now + SETTLED_WITHIN;
                let expired = settled + env.settings.longest_ttl() / 50 * 51 + 10 * MS;
                env.queue.add(settled, Event::Phase(Phase::Settled));
                env.queue.add(expired, Event::Phase(Phase::Expired));
            }
            Phase::Settled => env.check_leaks(true),
            Phase::Expired => env.check_leaks(false),
        }
    }
}

impl Env {
    /// Runs a command on a node and notes what came of it.
    fn run(&mut self, client: usize, node: usize, sent_at: Nanos, command: &Command) -> Reply {
        let reply = self.nodes[node].run(self.now, command);
        if self.trace.is_on() {
            self.note_run(client, node, sent_at, command, &reply);
        }
        if self.nodes[node].has_revived
            && let Command::Prolong { entries } = command
        {
            let text = format!("an extension made a key on n{node} that was not there");
            let lock = self.locks.iter().position(|known| *known == entries[0].name);
            let owner = trace::owner_name(&entries[0].owner);
            self.check.report_owner(self.now, Promise::Loss, lock, owner, text);
        }
        reply
    }

    fn note_run(
        &mut self,
        client: usize,
        node: usize,
        sent_at: Nanos,
        command: &Command,
        reply: &Reply,
    ) {
        let key = match (command, reply) {
            (
                Command::Take { name, owner, .. } | Command::Adopt { name, owner, .. },
                Reply::Taken,
            ) => self.key(node, name, owner),
            (Command::Free { .. }, Reply::Freed) => Key::Gone,
            (Command::Prolong { entries }, Reply::Each(fates)) => {
                let first = entries.first().filter(|_| fates.first() == Some(&Fate::LivesOn));
                first.map_or(Key::Same, |entry| self.key(node, &entry.name, &entry.owner))
            }
            _ => Key::Same,
        };
        let lock = self.lock_of(command);
        self.trace.add(self.now, lock, || Scene::Ran {
            client,
            node,
            sent_at,
            ask: trace::ask(command),
            answer: trace::answer(reply),
            key,
        });
    }

    /// An owner's key as the node has it now, whatever was asked.
    fn key(&self, node: usize, name: &Name, owner: &Owner) -> Key {
        let node = &self.nodes[node];
        let look = Command::Look { name: name.clone() };
        // Whether somebody looks must not change anything.
        let until = match node.store.clone().apply(node.clock.at(self.now), &look) {
            Reply::Seen(Some(Sighting { expires_in_ms: Some(left), .. })) => self.now + left * MS,
            Reply::Seen(Some(_)) => NEVER,
            _ => self.now,
        };
        Key::Is(trace::owner_name(owner), until)
    }

    /// Which lock a command is about; of a batch the first one.
    pub(crate) fn lock_of(&self, command: &Command) -> Option<usize> {
        if !self.trace.is_on() {
            return None;
        }
        let name = match command {
            Command::Prolong { entries } => &entries.first()?.name,
            Command::Take { name, .. }
            | Command::Adopt { name, .. }
            | Command::Free { name, .. }
            | Command::Check { name, .. }
            | Command::Look { name } => name,
            _ => return None,
        };
        self.locks.iter().position(|known| known == name)
    }

    /// Somebody was told that it holds a lock.
    pub(crate) fn begin(&mut self, claim: Claim) -> u32 {
        let end = claim.end;
        let is_foreign = claim.client.is_none();
        let number = self.check.begin(self.now, claim, self.running);
        if !is_foreign {
            self.audit(number);
        }
        if end != NEVER {
            self.queue.add(end - 1, Event::Audit { claim: number });
        }
        number
    }

    /// A claim that is valid must be carried by a majority.
    pub(crate) fn audit(&mut self, number: u32) {
        let claim = self.check.claim(number);
        if !claim.is_backed(self.now) || !self.check.is_within_bounds() {
            return;
        }
        let name = &self.locks[claim.lock];
        let mut holders = 0;
        for node in &mut self.nodes {
            holders += usize::from(node.holds(self.now, name, &claim.owner));
        }
        self.check.back(self.now, number, holders);
    }

    /// True if all is well for this client from now on: no more faults, and no message is late.
    pub(crate) fn is_calm(&self, client: usize) -> bool {
        let is_well = self.check.is_healed() && self.check.is_within_bounds();
        is_well && self.net.is_calm(self.now, client)
    }

    /// Breaks a connection. Its client does not know yet.
    pub(crate) fn break_link(&mut self, client: usize, node: usize, late: Nanos) {
        self.net.break_link(&mut self.queue, self.now, (client, node), late);
    }

    /// No node may have a key that somebody should have freed, or that should have gone by now.
    fn check_leaks(&mut self, are_some_excused: bool) {
        if !self.check.is_within_bounds() {
            return;
        }
        for node in 0..self.nodes.len() {
            let time = self.nodes[node].clock.at(self.now);
            for name in self.nodes[node].store.names(time) {
                let look = Command::Look { name: name.clone() };
                let Reply::Seen(Some(seen)) = self.nodes[node].store.apply(time, &look) else {
                    continue;
                };
                let Value::Text(text) = &seen.value else { continue };
                if are_some_excused && self.is_excused(text) {
                    continue;
                }
                let lock = self.locks.iter().position(|known| *known == name);
                let owner = trace::bytes_name(text);
                let text = format!("n{node} still has the key of {owner}");
                self.check.report_owner(self.now, Promise::Leak, lock, owner, text);
            }
        }
    }

    fn is_excused(&self, value: &[u8]) -> bool {
        self.excused.iter().any(|owner| owner.as_bytes() == value)
            || self.dead.iter().any(|id| value.starts_with(id.as_bytes()))
            || value.starts_with(FOREIGN.as_bytes())
    }

    const fn quorum(&self) -> usize {
        majority(self.nodes.len())
    }
}

/// Many times what the busiest world needs: timers that multiply would keep it busy for ever.
const EVENTS_MAX: u64 = 2_000_000;

/// How the values of other libraries begin.
const FOREIGN: &str = "foreign";

/// How often it is looked whether somebody still waits.
const STALL_LOOK: Nanos = 50 * MS;

/// What contention may cost on top of the longest ttl.
const PROGRESS_SLACK: Nanos = 500 * MS;

const STREAM: u64 = 10;
