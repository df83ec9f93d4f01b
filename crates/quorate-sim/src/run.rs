//! One run from its seed to its end.

use quorate_core::{
    command::{Command, Owner},
    fence::Fence,
    name::Name,
    queue::AcquireRequest,
};

use crate::{
    check::{Checker, Promise, Violation},
    client::Client,
    clock::{ClientClock, MS, Nanos, NodeClock, SECOND},
    dice::Dice,
    event::{Direction, Event, Phase, Queue},
    fault::{self, Bound, Fault, KINDS, When},
    members::Changes,
    net::{Net, Received, Shape},
    node::Node,
    settings::{SETTLED_WITHIN, Settings},
    trace::{self, Scene, Trace},
};

mod env;
mod faults;
mod full;
mod quarantine;
mod without;

pub use self::without::Without;

/// The shared state of a run.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) settings: Settings,
    pub(crate) now: Nanos,
    pub(crate) queue: Queue,
    pub(crate) net: Net,
    /// All servers, including spare ones.
    pub(crate) nodes: Vec<Node>,
    pub(crate) dice: Dice,
    pub(crate) locks: Vec<Name>,
    pub(crate) check: Checker,
    pub(crate) trace: Trace,
    pub(crate) count: Counts,
    /// The clients that run, as bits.
    pub(crate) running: u32,
    /// By client: a lease that was detached for it.
    pub(crate) detached_leases: Vec<Option<Handover>>,
    /// The waiters in the queues of nodes when these became full.
    pub(crate) queued: Vec<full::Queued>,
    /// Owners whose keys no client releases.
    pub(crate) excused: Vec<Owner>,
    /// A client that is cut off from the majority for good, and gets no lock.
    pub(crate) cut_off: Option<usize>,
    /// The ids of crashed clients, which do not release their keys either.
    pub(crate) dead: Vec<String>,
    /// By client or operator: until when messages between it and each node are delayed.
    pub(crate) apart: Vec<Vec<Nanos>>,
    /// Messages may be very late now.
    pub(crate) is_rough: bool,
    /// A deliberate bug: the clients' clocks stop while the clients are paused.
    pub(crate) is_clock_stopping: bool,
}

/// A lease that was detached for another client.
#[derive(Clone, Debug)]
pub(crate) struct Handover {
    pub(crate) lock: usize,
    pub(crate) owner: Owner,
    /// The owner under which it was held.
    pub(crate) held_by: Owner,
    /// Its fence, in the default mode.
    pub(crate) fence: Option<Fence>,
}

/// What happened in a run, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Events.
    pub events: u64,
    /// Requests for a lock.
    pub attempts: u64,
    /// Locks that were won.
    pub acquisitions: u64,
    /// Locks that were won by readers.
    pub shared: u64,
    /// Readers that joined other readers.
    pub joined: u64,
    /// Entries of a reentrant lock that joined others of their identity.
    pub nested: u64,
    /// Leases of the default mode that were adopted.
    pub adopted: u64,
    /// Holders that asked to become readers.
    pub downgrades: u64,
    /// Locks that a writer won while readers waited.
    pub writers_first: u64,
    /// Renewals that a majority confirmed.
    pub renewals: u64,
    /// Losses that were reported.
    pub losses: u64,
    /// Batches that nodes answered.
    pub batches: u64,
    /// Batches that failed partially.
    pub split_batches: u64,
    /// How often a node with quarantine forgot its grants.
    pub forgettings: u64,
    /// Quarantines that began.
    pub doubts: u64,
    /// Quarantines without a reason.
    pub false_doubts: u64,
    /// Handshakes with a node that does not vote yet.
    pub waits: u64,
    /// How often an operator had to empty a node of a second set.
    pub emptied: u64,
    /// Handshakes with a node that does not vote for the client.
    pub differs: u64,
    /// Runs in which nodes use quarantine.
    pub quarantined: u64,
    /// Runs in which locks are shared.
    pub sharing: u64,
    /// Faults by kind: see [`KINDS`].
    pub faults: [u64; KINDS.len()],
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.attempts += other.attempts;
        self.acquisitions += other.acquisitions;
        self.shared += other.shared;
        self.joined += other.joined;
        self.nested += other.nested;
        self.batches += other.batches;
        self.split_batches += other.split_batches;
        self.adopted += other.adopted;
        self.downgrades += other.downgrades;
        self.writers_first += other.writers_first;
        self.renewals += other.renewals;
        self.losses += other.losses;
        self.forgettings += other.forgettings;
        self.doubts += other.doubts;
        self.false_doubts += other.false_doubts;
        self.waits += other.waits;
        self.emptied += other.emptied;
        self.differs += other.differs;
        self.quarantined += other.quarantined;
        self.sharing += other.sharing;
        for (sum, more) in self.faults.iter_mut().zip(other.faults) {
            *sum += more;
        }
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The numbers.
    pub count: Counts,
    /// The promise that was broken, if one was.
    pub violation: Option<Violation>,
    /// Overlaps after a bound was broken, each with the first bound that was.
    pub beyond: Vec<Bound>,
    /// The trace, if it was recorded.
    pub trace: Trace,
}

/// A simulated run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) env: Env,
    pub(crate) clients: Vec<Client>,
    /// Changes of the set of nodes, where it changes.
    pub(crate) changes: Changes,
    faults: Vec<Fault>,
}

/// Simulates one run until its end or until a promise is broken.
#[must_use]
pub fn run(settings: Settings, without: &Without, options: Options) -> Report {
    let mut run = Run::new(settings, without, options);
    run.begin(without);
    while let Some((at, event)) = run.env.queue.next() {
        run.env.now = at;
        run.env.count.events += 1;
        run.handle(event);
        if run.env.count.events >= EVENTS_MAX {
            let text = "the run does not end".to_owned();
            run.env.check.report(at, Promise::Progress, None, Vec::new(), text);
        }
        if run.env.check.violation.is_some() || event == Event::Phase(Phase::Expired) {
            break;
        }
    }
    let Env { count, check, trace, .. } = run.env;
    Report { count, violation: check.violation, beyond: check.beyond, trace }
}

/// How a run is simulated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Record a trace.
    pub is_traced: bool,
    /// A deliberate bug of the simulator: clocks stop while a client is paused.
    pub is_clock_stopping: bool,
}

const fn shape(settings: &Settings) -> Shape {
    Shape {
        seed: settings.seed,
        nodes: settings.servers(),
        has_sessions: settings.has_sessions(),
        latency: settings.latency,
        jitter: settings.jitter,
        timeout: settings.link_timeout,
    }
}

impl Run {
    pub(crate) fn new(settings: Settings, without: &Without, options: Options) -> Self {
        let seed = settings.seed;
        let mut dice = Dice::new(seed, STREAM);
        let node = |(number, ppm): (usize, &i32)| {
            let apart_us = dice.below(quarantine::apart_us(&settings));
            let clock = NodeClock::new(1_700_000_000_000_000 + apart_us, *ppm);
            Node::new(number, clock, Dice::new(seed, STREAM + 1 + number as u64))
        };
        let nodes = settings.node_rates.iter().enumerate().map(node).collect();
        let clients = settings.client_rates.iter().enumerate().map(|(number, ppm)| {
            let clock = ClientClock::new(dice.below(1_000 * SECOND), *ppm);
            Client::new(number, clock, &settings)
        });
        let clients = clients.collect::<Vec<_>>();
        let name = |lock| Name::parse(&format!("lock-{lock}"), "").expect("a fair name");
        // A node notices a waiter that is cut off by its closed link or its expired session.
        let unnoticed = match settings.has_queue {
            true => settings.link_timeout + settings.session_ms * MS,
            false => 0,
        };
        let progress_within = match settings.is_calm && settings.has_queue {
            true => PROGRESS_CALM,
            false => {
                let quarantined = quarantine::progress_within(&settings);
                settings.longest_ttl() / 50 * 51 + unnoticed + PROGRESS_SLACK + quarantined
            }
        };
        let mut check =
            Checker::new(settings.nodes, settings.locks, progress_within, settings.has_sets);
        if settings.beyond == Some(Bound::Clocks) {
            check.break_bound(Bound::Clocks);
        }
        let faults = fault::draw(&settings);
        let running = (0..settings.clients).fold(0, |set, client| set | 1 << client);
        let env = Env {
            now: 0,
            queue: Queue::default(),
            net: Net::new(shape(&settings), settings.clients),
            nodes,
            locks: (0..settings.locks).map(name).collect(),
            check,
            trace: Trace::recording(options.is_traced),
            count: Counts { sharing: u64::from(settings.sharing.is_some()), ..Counts::default() },
            running: without.clients.iter().fold(running, |set, client| set & !(1 << client)),
            detached_leases: vec![None; settings.clients],
            queued: Vec::new(),
            excused: Vec::new(),
            cut_off: None,
            apart: Vec::new(),
            is_rough: false,
            dice,
            dead: Vec::new(),
            is_clock_stopping: options.is_clock_stopping,
            settings,
        };
        Self { env, clients, changes: Changes::default(), faults }
    }

    fn begin(&mut self, without: &Without) {
        self.env.found();
        for (number, client) in self.clients.iter_mut().enumerate() {
            match without.clients.contains(&number) {
                true => client.leave_out(),
                false => client.start(&mut self.env),
            }
        }
        for index in (0..self.faults.len()).filter(|index| !without.faults.contains(index)) {
            self.plan_fault(index);
        }
        if self.env.settings.is_calm {
            self.env.check.heal(0);
        }
        let Env { settings, queue, .. } = &mut self.env;
        let (healed, resting) = (settings.faults_until, settings.work_until);
        queue.add(healed, Event::Phase(Phase::Healed));
        queue.add(resting, Event::Phase(Phase::Resting));
    }

    pub(crate) fn handle(&mut self, event: Event) {
        let env = &mut self.env;
        match event {
            Event::Arrive { link, generation, way } => {
                let (client, seat) = env.net.ends(link);
                let node = env.net.link(client, seat).node;
                if let Some(until) = env.apart_until(client, node) {
                    env.queue.add(until, event);
                } else if way == Direction::ToNode {
                    self.handle_request(link, generation);
                } else if !self.clients.get_mut(client).is_some_and(|it| it.defers(event)) {
                    self.handle_arrival(link, generation, way);
                }
            }
            Event::Snap { link, generation } => {
                let (client, node) = env.net.ends(link);
                let known = env.net.link(client, node);
                if let Some((_, late)) = known.breaks.filter(|_| known.generation == generation) {
                    self.break_link(client, node, late);
                }
            }
            Event::HangUp { link, generation } => {
                env.nodes.iter_mut().for_each(|node| node.hang_up(link, generation));
            }
            Event::Straggle { slot } => {
                let Some(late) = env.net.straggler(slot) else { return };
                // A late request that is also held back is lost.
                let is_apart = env.apart_until(late.client, late.node).is_some();
                let node = &env.nodes[late.node];
                if node.is_up() && node.failing == 0 && !is_apart {
                    for entry in late.request.what.entries() {
                        if let Command::SetKey { owner, .. }
                        | Command::Adopt { owner, .. }
                        | Command::Acquire { request: AcquireRequest { owner, .. }, .. } = entry
                        {
                            // No client knows of this grant, so it stays for a ttl from now.
                            env.excused.push(owner.clone());
                            env.check.delay_stalls(env.now);
                        }
                    }
                    env.answer(late.client, late.node, &late.request);
                }
            }
            Event::Client { client, restarts, what } => {
                match self.clients.get_mut(usize::from(client)) {
                    Some(client) => {
                        if client.me.restarts == restarts && !client.defers(event) {
                            client.handle(env, what);
                        }
                    }
                    None => self.tick(usize::from(client)),
                }
            }
            Event::Resume { client } => {
                let deferred = self.clients[usize::from(client)].resume(env);
                deferred.into_iter().for_each(|event| self.handle(event));
            }
            Event::Restart { client } => {
                if self.clients[usize::from(client)].is_dead() {
                    self.clients[usize::from(client)].restart(env);
                }
            }
            Event::Fault { index, part } if env.settings.is_changing() => {
                self.handle_change(usize::from(index), part);
            }
            Event::Fault { index, part } => self.handle_fault(usize::from(index), part),
            Event::Audit { claim } => env.audit(claim),
            Event::Phase(phase) => self.handle_phase(phase),
        }
    }

    /// A request reaches its node.
    fn handle_request(&mut self, link: u16, generation: u32) {
        let env = &mut self.env;
        let Some(request) = env.net.arrived_request(link, generation) else { return };
        let (client, seat) = env.net.ends(link);
        let node = env.net.link(client, seat).node;
        if !env.nodes[node].is_up() {
            return;
        }
        if let Command::Attach { sender, .. } = &request.what {
            env.nodes[node].listen(sender.client, link, generation);
        }
        let reply = env.answer(client, node, &request);
        match env.net.link(client, seat).breaks {
            Some((When::OnReply, late)) => self.break_link(client, seat, late),
            Some(_) | None => env.net.reply(&mut env.queue, env.now, link, reply),
        }
    }

    /// A reply or a push reaches its client.
    fn handle_arrival(&mut self, link: u16, generation: u32, way: Direction) {
        let env = &mut self.env;
        let (client, seat) = env.net.ends(link);
        let Some(arrived) = env.net.arrived_reply(link, generation, way) else { return };
        let known = env.net.link(client, seat);
        known.answered_at = env.now;
        let node = known.node;
        let reply = match arrived.what {
            Received::Reply(reply) => reply,
            Received::Push(push) => {
                self.clients[client].handle_push(env, seat, push);
                return;
            }
        };
        let Some(waiting) = known.waiting.pop_front() else { return };
        let Some(known) = self.clients.get_mut(client) else {
            let operator = &mut self.changes.operators[client - self.clients.len()];
            operator.handle_answer(generation, seat, &waiting.command, reply);
            return;
        };
        let lock = env.lock_of(&waiting.command);
        env.trace.add(env.now, lock, || Scene::Received {
            client,
            node,
            sent_at: arrived.sent_at,
            ask: trace::ask(&waiting.command),
            answer: reply.as_ref().map_or_else(|| "an error".into(), trace::answer),
        });
        known.handle_answer(env, seat, waiting, reply);
    }

    fn handle_phase(&mut self, phase: Phase) {
        let env = &mut self.env;
        match phase {
            Phase::Healed => {
                env.net.heal();
                env.end_split();
                // With quarantine, the last node that knows the set must not be cut off: no client
                // could enrol the others again.
                let is_known =
                    env.nodes.iter().all(|node| node.store.membership.origin().is_some());
                if env.settings.does_end_cut && (is_known || env.settings.quarantine.is_none()) {
                    self.cut_for_good();
                    self.clients.iter_mut().for_each(Client::vouch);
                }
                self.env.check.heal(self.env.now);
            }
            Phase::Resting => {
                (0..env.locks.len()).for_each(|lock| env.check.check_stall(env.now, lock));
                if env.check.is_stalled() {
                    // Clients continue while a waiter still waits for a free lock.
                    env.end_split();
                    env.queue.add(env.now + STALL_CHECK, Event::Phase(Phase::Resting));
                    return;
                }
                self.clients.iter_mut().for_each(|client| client.rest(env));
                let settled = env.now + SETTLED_WITHIN;
                // A queue exists for two ttls after the last request, a key for one.
                let ttls = if env.settings.has_queue { 2 } else { 1 };
                let expired = settled + ttls * (env.settings.longest_ttl() / 50 * 51) + 10 * MS;
                env.queue.add(settled, Event::Phase(Phase::Settled));
                env.queue.add(expired, Event::Phase(Phase::Expired));
            }
            Phase::Settled => env.check_leaks(true),
            Phase::Expired => {
                env.check_leaks(false);
                self.clients.iter().for_each(|client| client.check_owners(env));
            }
        }
    }
}

/// Far more than any run needs. Only timers that multiply reach this limit.
const EVENTS_MAX: u64 = 2_000_000;

/// The prefix of the values of other libraries.
const FOREIGN: &str = "foreign";

/// How often the end of a run checks for stalled waiters.
const STALL_CHECK: Nanos = 50 * MS;

/// In queue runs without faults, a free lock goes to a waiter within this time.
const PROGRESS_CALM: Nanos = 150 * MS;

/// The additional time for contention, on top of the longest ttl.
const PROGRESS_SLACK: Nanos = 500 * MS;

const STREAM: u64 = 10;
