//! A simulated client: the core's machine, driven by virtual time instead of sockets and threads.

mod calls;
mod leases;
mod links;
mod names;
mod notes;
mod work;

use quorate_core::{
    backoff::Jitter,
    client::{self, CallId, Config},
    command::ClientId,
    membership::Opinion,
    moment::Moment,
    terms::{Terms, vote_timeout},
};
use std::{collections::BTreeMap, time::Duration};

use self::{
    calls::Watched,
    leases::Held,
    links::{Handshakes, Process},
    work::Task,
};
pub(crate) use self::{links::view_of, names::Names};
use crate::{
    check::Promise,
    clock::{ClientClock, MS, Nanos},
    dice::Dice,
    driver::Driving,
    event::Event,
    run::Env,
    settings::{DRIFT, Settings},
    trace::{LeaseChange, client_name},
};

/// The machine that is shipped.
type Machine = client::Client<Names>;

/// One process that uses locks.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) me: Process,
    /// The servers of its node list.
    pub(crate) list: Vec<usize>,
    /// How often its process has held a lock.
    pub(crate) wins: u32,
    /// Its last opinion about a node.
    pub(crate) opinion: Option<Opinion>,
    jitter: Jitter,
    /// The checker's records of its calls and leases.
    calls: BTreeMap<CallId, Watched>,
    held: Vec<Held>,
    tasks: Vec<Task>,
    /// Events that arrived while it was paused.
    deferred: Vec<Event>,
    /// How many faults pause it, and since when it is paused.
    stops: u32,
    stopped_at: Option<Nanos>,
    is_dead: bool,
    /// It asks for no more locks.
    is_resting: bool,
}

impl Client {
    pub(crate) fn new(number: usize, clock: ClientClock, settings: &Settings) -> Self {
        let seed = settings.seed;
        let stream = STREAM + number as u64;
        let mut dice = Dice::new(seed, stream);
        let tasks =
            (0..settings.tasks).map(|task| Task::new(Dice::new(seed, task_stream(number, task))));
        let id = draw_id(number, &mut dice);
        let jitter = Jitter::new(dice.next());
        let list: Vec<usize> = (0..settings.nodes).collect();
        let names = Names::new(number, id, settings.is_coarse);
        let handshake_dice = Dice::new(seed, HANDSHAKE_STREAM + number as u64);
        let me = Process {
            number,
            restarts: 0,
            id,
            clock,
            machine: machine(settings, id, &list, names, jitter.clone()),
            driving: Driving::default(),
            handshakes: settings.quarantine.map(|quarantine| {
                let max_ttl_ms = settings.longest_ttl() / MS;
                Handshakes::new(&list, max_ttl_ms, quarantine, settings.session_ms, handshake_dice)
            }),
            dice,
        };
        Self {
            me,
            list,
            wins: 0,
            opinion: None,
            jitter,
            calls: BTreeMap::new(),
            held: Vec::new(),
            tasks: tasks.collect(),
            deferred: Vec::new(),
            stops: 0,
            stopped_at: None,
            is_dead: false,
            is_resting: false,
        }
    }

    pub(crate) fn start(&mut self, env: &mut Env) {
        for (seat, node) in self.list.clone().into_iter().enumerate() {
            let link = env.net.link(self.me.number, seat);
            link.node = node;
            let generation = link.generation;
            self.reconnect(env, seat, generation);
        }
        for task in 0..self.tasks.len() {
            self.think(env, task);
        }
    }

    pub(crate) const fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// It is left out of the run.
    pub(crate) const fn leave_out(&mut self) {
        self.is_dead = true;
    }

    /// Defers an event while the client is paused. Returns whether it did.
    pub(crate) fn defers(&mut self, event: Event) -> bool {
        if self.stopped_at.is_some() {
            self.deferred.push(event);
        }
        self.stopped_at.is_some()
    }

    /// Pauses the client.
    pub(crate) fn stop(&mut self, env: &mut Env) {
        self.stops += 1;
        self.stopped_at.get_or_insert(env.now);
        env.running &= !(1 << self.me.number);
    }

    /// A fault that paused it ends. If that was the last one, the client continues, and this
    /// returns the deferred events.
    pub(crate) fn resume(&mut self, env: &mut Env) -> Vec<Event> {
        self.stops -= 1;
        if self.stops > 0 {
            return Vec::new();
        }
        let stopped_at = self.stopped_at.take().unwrap_or(env.now);
        if env.is_clock_stopping {
            self.me.clock.miss(env.now - stopped_at);
        }
        if !self.is_dead {
            env.running |= 1 << self.me.number;
        }
        std::mem::take(&mut self.deferred)
    }

    /// The process crashes: its connections break, and its events are dropped.
    pub(crate) fn crash(&mut self, env: &mut Env) {
        for task in 0..self.tasks.len() {
            self.stop_waiting(env, task);
        }
        for known in std::mem::take(&mut self.held) {
            env.check.crash(env.now, known.claim);
            let Some(held) = self.me.machine.lease(known.id) else { continue };
            self.note_lease(env, &known, held.owner(), || LeaseChange::GaveUp("crashes with"));
        }
        env.check.order.forget(self.me.number);
        env.dead.push(self.me.id.to_string());
        for seat in 0..self.list.len() {
            let late = self.me.dice.pick(&[0, 3 * MS]).max(env.stragglers_for());
            env.break_link(self.me.number, seat, late);
            env.net.link(self.me.number, seat).waiting.clear();
        }
        self.is_dead = true;
        self.me.restarts += 1;
        self.calls.clear();
        self.begin_machine(env);
        self.tasks.iter_mut().for_each(Task::forget);
        env.running &= !(1 << self.me.number);
    }

    /// Some nodes will never return, so an operator must vouch for nodes that forgot locks.
    pub(crate) const fn vouch(&mut self) {
        if let Some(handshakes) = &mut self.me.handshakes {
            handshakes.vouch();
        }
    }

    /// From now on the client reaches no majority: it gets no lock, and need not release one.
    pub(crate) fn cut_off(&mut self, env: &mut Env) {
        for task in 0..self.tasks.len() {
            self.stop_waiting(env, task);
        }
        env.cut_off = Some(self.me.number);
        env.check.order.forget(self.me.number);
        env.dead.push(self.me.id.to_string());
    }

    /// Another process replaces it.
    pub(crate) fn restart(&mut self, env: &mut Env) {
        self.is_dead = false;
        self.me.id = draw_id(self.me.number, &mut self.me.dice);
        self.begin_machine(env);
        if let Some(handshakes) = &mut self.me.handshakes {
            handshakes.forget(&self.list);
        }
        self.wins = 0;
        if self.stopped_at.is_none() {
            env.running |= 1 << self.me.number;
        }
        self.start(env);
    }

    /// A client that holds nothing must not remember owners.
    pub(crate) fn check_owners(&self, env: &mut Env) {
        if self.me.machine.knows_owners() {
            let text =
                format!("{} remembers an owner that is not in use", client_name(self.me.number));
            env.check.report(env.now, Promise::Leak, None, Vec::new(), text);
        }
    }

    /// Replaces the machine by a new one.
    fn begin_machine(&mut self, env: &Env) {
        let mut names = self.me.machine.naming().source.clone();
        names.rename(self.me.id);
        self.me.machine =
            machine(&env.settings, self.me.id, &self.list, names, self.jitter.clone());
        self.me.driving.armed_at = None;
    }

    fn terms(&self, env: &mut Env, ttl_ms: u64) -> Terms {
        // All links of a run are alike, so any of them is as fast as the majority.
        let trip = Duration::from_nanos(env.net.link(self.me.number, 0).round_trip());
        let ttl = Duration::from_millis(ttl_ms);
        Terms::new(ttl, vote_timeout(ttl, trip), DRIFT).expect("the ttls of a run are valid")
    }
}

fn machine(
    settings: &Settings,
    client: ClientId,
    list: &[usize],
    names: Names,
    jitter: Jitter,
) -> Machine {
    let max_ttl = Duration::from_nanos(settings.longest_ttl());
    let (nodes, has_sessions) = (list.len(), settings.has_sessions());
    let mut machine = Machine::new(Config { client, nodes, has_sessions, max_ttl }, names, jitter);
    // Without sessions, the nodes can be asked from the start.
    (0..nodes).filter(|_| !has_sessions).for_each(|node| machine.handle_up(node, Moment::ZERO));
    machine
}

/// The first byte is the client's number, so that traces can show the client of an owner.
fn draw_id(number: usize, dice: &mut Dice) -> ClientId {
    let mut bytes = [0; 20];
    for chunk in bytes.chunks_mut(8) {
        let drawn = dice.next().to_le_bytes();
        chunk.copy_from_slice(&drawn[..chunk.len()]);
    }
    bytes[0] = number as u8;
    ClientId::from_random(bytes)
}

/// The streams of the clients begin here.
const STREAM: u64 = 100;
const HANDSHAKE_STREAM: u64 = 50;

const fn task_stream(client: usize, task: usize) -> u64 {
    STREAM + 100 + (client * 8 + task) as u64
}
