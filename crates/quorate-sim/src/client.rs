//! A simulated client: the core's machines, driven by virtual time instead of sockets and threads.

mod calls;
mod guard;
mod leases;
mod link;
mod names;
mod work;

use quorate_core::{
    backoff::Jitter,
    client::{self, CallId, Config, Transmit},
    command::{ClientId, Reply},
    moment::Moment,
    quorum::majority,
    terms::{Terms, vote_timeout},
};
use std::{collections::BTreeMap, time::Duration};

use self::{calls::Watched, guard::Meetings, leases::Held, names::Names, work::Task};
use crate::{
    clock::{ClientClock, Nanos},
    dice::Dice,
    event::{Due, Event},
    net::{Waiting, Whose},
    settings::{DRIFT, Settings, WAKE_LAG_MAX},
    trace::{self, Scene},
    world::Env,
};

/// The machine that is shipped.
type Machine = client::Client<Names>;

/// One process that uses locks.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) number: usize,
    /// Counts the processes that had this place.
    pub(crate) life: u32,
    pub(crate) clock: ClientClock,
    id: ClientId,
    dice: Dice,
    jitter: Jitter,
    /// Everything that it decides.
    machine: Machine,
    armed_at: Option<Moment>,
    /// The machine is being driven.
    is_driving: bool,
    /// The link that has just heard something takes all that waits for its node.
    pulling: Option<usize>,
    /// What the judge knows of its calls and leases.
    calls: BTreeMap<CallId, Watched>,
    held: Vec<Held>,
    tasks: Vec<Task>,
    /// What it makes of its nodes, where they are guarded.
    meetings: Option<Meetings>,
    /// What came while it stood still.
    deferred: Vec<Event>,
    /// How many faults let it stand still, and since when it does.
    stops: u32,
    stopped_at: Option<Nanos>,
    is_dead: bool,
    /// Nobody wants a lock any more.
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
        Self {
            number,
            life: 0,
            clock,
            id,
            machine: machine(settings, id, Names::new(number, settings.is_coarse), jitter.clone()),
            jitter,
            dice,
            armed_at: None,
            is_driving: false,
            pulling: None,
            calls: BTreeMap::new(),
            held: Vec::new(),
            tasks: tasks.collect(),
            meetings: Meetings::new(settings, Dice::new(seed, MEETING_STREAM + number as u64)),
            deferred: Vec::new(),
            stops: 0,
            stopped_at: None,
            is_dead: false,
            is_resting: false,
        }
    }

    pub(crate) fn start(&mut self, env: &mut Env) {
        for node in 0..env.nodes.len() {
            let generation = env.net.link(self.number, node).generation;
            self.reconnect(env, node, generation);
        }
        for task in 0..self.tasks.len() {
            self.think(env, task);
        }
    }

    /// It has no part in the world.
    pub(crate) const fn leave_out(&mut self) {
        self.is_dead = true;
    }

    /// Something is due, or has been due while it stood still.
    pub(crate) fn handle(&mut self, env: &mut Env, what: Due) {
        match what {
            Due::Silence { node, generation } => self.look(env, usize::from(node), generation),
            Due::Broken { node, generation } => {
                self.handle_break(env, usize::from(node), generation);
            }
            Due::Reconnect { node, generation } => {
                self.reconnect(env, usize::from(node), generation);
            }
            Due::Ping { node, generation } => self.ping(env, usize::from(node), generation),
            Due::Recovered { node, generation } => {
                self.handle_recovered(env, usize::from(node), generation);
            }
            Due::Machine => self.handle_machine_timeout(env),
            Due::Work { task, step } => self.handle_work(env, usize::from(task), step),
            Due::Cancel { task, operation } => self.cancel(env, usize::from(task), operation),
        }
    }

    /// Puts off what comes while it stands still. Returns true if it did.
    pub(crate) fn defers(&mut self, event: Event) -> bool {
        if self.stopped_at.is_some() {
            self.deferred.push(event);
        }
        self.stopped_at.is_some()
    }

    /// Stands still.
    pub(crate) fn stop(&mut self, env: &mut Env) {
        self.stops += 1;
        self.stopped_at.get_or_insert(env.now);
        env.running &= !(1 << self.number);
    }

    /// A fault that let it stand still is over. Goes on if that was the last one, and returns what
    /// has to be seen to first.
    pub(crate) fn resume(&mut self, env: &mut Env) -> Vec<Event> {
        self.stops -= 1;
        if self.stops > 0 {
            return Vec::new();
        }
        let stopped_at = self.stopped_at.take().unwrap_or(env.now);
        if env.is_clock_stopping {
            self.clock.miss(env.now - stopped_at);
        }
        if !self.is_dead {
            env.running |= 1 << self.number;
        }
        std::mem::take(&mut self.deferred)
    }

    /// The process dies: its connections break, and nothing of it happens any more.
    pub(crate) fn crash(&mut self, env: &mut Env) {
        for task in 0..self.tasks.len() {
            self.stop_waiting(env, task);
        }
        for known in std::mem::take(&mut self.held) {
            env.check.die(env.now, known.claim);
            let Some(held) = self.machine.lease(known.id) else { continue };
            env.trace.add(env.now, Some(known.lock), || Scene::LetGo {
                client: self.number,
                claim: known.claim,
                owner: trace::owner_name(held.owner()),
                how: "dies with",
            });
        }
        env.check.order.forget(self.number);
        env.dead.push(self.id.to_string());
        for node in 0..env.nodes.len() {
            env.break_link(self.number, node, self.dice.pick(&[0, 3_000_000]));
            let link = env.net.link(self.number, node);
            link.waiting.clear();
        }
        self.is_dead = true;
        self.life += 1;
        self.calls.clear();
        self.begin_machine(env);
        self.tasks.iter_mut().for_each(Task::forget);
        env.running &= !(1 << self.number);
    }

    /// From now on it waits in vain, and nobody waits for it to free anything.
    pub(crate) fn cut_off(&mut self, env: &mut Env) {
        for task in 0..self.tasks.len() {
            self.stop_waiting(env, task);
        }
        env.cut_off = Some(self.number);
        env.check.order.forget(self.number);
        env.dead.push(self.id.to_string());
    }

    /// Another process takes its place.
    pub(crate) fn reborn(&mut self, env: &mut Env) {
        self.is_dead = false;
        self.id = draw_id(self.number, &mut self.dice);
        self.begin_machine(env);
        if let Some(meetings) = &mut self.meetings {
            meetings.forget(&env.settings);
        }
        if self.stopped_at.is_none() {
            env.running |= 1 << self.number;
        }
        self.start(env);
    }

    pub(crate) const fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// A reply has come in, or will never come.
    pub(crate) fn handle_answer(
        &mut self,
        env: &mut Env,
        node: usize,
        Waiting { whose, command }: Waiting,
        answer: Option<Reply>,
    ) {
        if answer.is_none() && !env.net.link(self.number, node).is_up {
            let lock = env.lock_of(&command);
            env.trace.add(env.now, lock, || Scene::Unanswered {
                client: self.number,
                node,
                ask: trace::ask(&command),
            });
        }
        self.pulling = answer.is_some().then_some(node);
        match whose {
            Whose::Machine(ref about) => {
                let transmit = Transmit { about: about.clone(), command };
                self.handle_machine_answer(env, node, &transmit, answer.as_ref());
            }
            Whose::Link(sent_at) => self.handle_link_answer(env, node, sent_at, answer.as_ref()),
            Whose::Meeting(sent_at) => self.handle_meeting(env, node, sent_at, answer.as_ref()),
        }
        self.drive(env);
        self.pulling = None;
        // Without a session that the node knows, a connection is of no use.
        let is_refused = matches!((whose, &answer), (Whose::Link(_) | Whose::Meeting(_), None));
        let is_useless = is_refused || answer.is_some_and(|answer| answer.is_stale());
        if is_useless {
            self.close(env, node);
        }
    }

    /// Sends a request. Returns false if the connection is down.
    fn send(&self, env: &mut Env, node: usize, waiting: Waiting) -> bool {
        let ends = (self.number, node, self.life);
        env.net.send(&mut env.queue, env.now, ends, waiting)
    }

    /// Plans something for a true time.
    fn plan(&self, env: &mut Env, at: Nanos, what: Due) {
        let event = Event::Client { client: self.number as u8, life: self.life, what };
        env.queue.add(at, event);
    }

    /// Plans something for when its own clock shows `moment`, or a little later.
    fn plan_at(&mut self, env: &mut Env, moment: Moment, what: Due) {
        let lag = self.dice.below(WAKE_LAG_MAX);
        let at = self.clock.when(moment).max(env.now).saturating_add(lag);
        self.plan(env, at, what);
    }

    fn now(&self, env: &Env) -> Moment {
        self.clock.at(env.now)
    }

    /// Nothing is left of what its machine knew.
    fn begin_machine(&mut self, env: &Env) {
        let names = self.machine.naming().source.clone();
        self.machine = machine(&env.settings, self.id, names, self.jitter.clone());
        self.armed_at = None;
    }

    fn terms(&self, env: &mut Env, ttl_ms: u64) -> Terms {
        let nodes = env.nodes.len();
        // All links of a world are alike, so any of them stands for the majority.
        debug_assert!(majority(nodes) <= nodes);
        let trip = Duration::from_nanos(env.net.link(self.number, 0).round_trip());
        let ttl = Duration::from_millis(ttl_ms);
        Terms::new(ttl, vote_timeout(ttl, trip), DRIFT).expect("the ttls of a world are fair")
    }
}

fn machine(settings: &Settings, client: ClientId, names: Names, jitter: Jitter) -> Machine {
    let max_ttl = Duration::from_nanos(settings.longest_ttl());
    let (nodes, has_sessions) = (settings.nodes, settings.has_sessions());
    let mut machine = Machine::new(Config { client, nodes, has_sessions, max_ttl }, names, jitter);
    // Where there are no sessions, every connection will do from the beginning.
    (0..nodes).filter(|_| !has_sessions).for_each(|node| machine.handle_up(node, Moment::ZERO));
    machine
}

/// The first byte is the number, so that traces can tell whose an owner is.
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
const MEETING_STREAM: u64 = 50;

const fn task_stream(client: usize, task: usize) -> u64 {
    STREAM + 100 + (client * 8 + task) as u64
}
