//! A client: the machine of the core, with a link to each server of its list, and a user who
//! acquires one lock again and again.

use std::time::Duration;

use quorate_core::{
    backoff::Jitter,
    client::{
        CallId, Config, Ended, Event, Hold,
        owners::OwnerKind,
        waiter::Want,
        watchdog::{self, LeaseId, Renewal},
    },
    command::ClientId,
    contend::{Outcome, Wait},
    dialect::Dialect,
    line::FencedLease,
    membership::Opinion,
    moment::Moment,
    name::Name,
    terms::Terms,
};

use super::{GUARD_MS, LIFE_MS, TTL, TTL_MS, WALL_MS, env::Env, label};
use crate::{
    client::Names,
    clock::{ClientClock, MS, Nanos},
    dice::Dice,
    driver::{Driver, Driving},
    event::Due,
    links::{Linked, Machine, Meetings, Process},
    settings::{DRIFT, Guard},
};

#[derive(Debug)]
pub(super) struct Client {
    pub(super) me: Process,
    stage: Stage,
    /// Counts what the user does, so that what is over does not go on.
    steps: u32,
    pub(super) stopped_until: Nanos,
    pub(super) wins: u64,
    pub(super) last: Option<Opinion>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Idle,
    Asking(CallId),
    /// A lease, and the judge's number for it.
    Holding(LeaseId, u64),
}

impl Client {
    /// A process that begins with this list. It has the number of the one before, if there was one.
    pub(super) fn new(env: &mut Env, number: usize, life: u32, list: &[usize]) -> Self {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&env.fresh().to_be_bytes());
        let id = ClientId::from_random(bytes);
        let mut dice = Dice::new(env.dice.next(), number as u64);
        let clock =
            ClientClock::new(dice.below(TTL), dice.pick(&[-5_000, -1_000, 0, 1_000, 5_000]));
        let config = Config { client: id, nodes: list.len(), has_sessions: true, max_ttl: ttl() };
        let jitter = Jitter::new(dice.next());
        let guard = Guard { guard_ms: GUARD_MS, wall_ms: WALL_MS, is_durable: false };
        let labels = list.iter().map(|server| label(*server)).collect();
        let meeting_dice = Dice::new(dice.next(), number as u64);
        let me = Process {
            number,
            life,
            id,
            clock,
            machine: Machine::new(config, Names::new(number, id, false), jitter),
            driving: Driving::default(),
            meetings: Some(Meetings::new(labels, TTL_MS, guard, LIFE_MS, meeting_dice)),
            dice,
        };
        let (stage, last) = (Stage::Idle, None);
        let client = Self { me, stage, steps: 0, stopped_until: 0, wins: 0, last };
        for (seat, server) in list.iter().enumerate() {
            let link = env.net.link(number, seat);
            link.node = *server;
            let what = Due::Reconnect { node: seat as u8, generation: link.generation };
            client.plan(env, env.now, what);
        }
        client.plan(env, env.now, Due::Work { task: 0, step: 0 });
        client
    }

    /// The process ends: its connections break, and it holds nothing any more.
    pub(super) fn die(&self, env: &mut Env) {
        if let Stage::Holding(_, number) = self.stage {
            env.judge.let_go(number);
        }
        env.hang_up(self.me.number);
    }

    /// The user does the next thing in a while.
    fn go_on(&mut self, env: &mut Env, stage: Stage, after: Nanos) {
        self.stage = stage;
        self.steps += 1;
        self.plan(env, env.now + after, Due::Work { task: 0, step: self.steps });
    }

    fn begin(&mut self, env: &mut Env) {
        let trip = Duration::from_nanos(self.link(env, 0).round_trip());
        let vote_timeout = quorate_core::terms::vote_timeout(ttl(), trip);
        let terms = Terms::new(ttl(), vote_timeout, DRIFT).expect("a fair ttl");
        let (wait, patience) = match self.me.dice.below(2) {
            0 => (Wait::Never, self.me.dice.between(30 * MS, TTL * 3 / 4)),
            _ => (Wait::Patiently(ttl()), self.me.dice.between(30 * MS, 3 * TTL)),
        };
        let name = Name::parse("lock", "").expect("valid");
        let (kind, dialect, adopts) = (OwnerKind::default(), Dialect::Queue, None);
        let want = Want { name, terms, kind, wait, dialect, adopts };
        let now = self.now(env);
        let call = self.me.machine.acquire(want, now);
        self.go_on(env, Stage::Asking(call), patience);
    }

    fn release(&mut self, env: &mut Env, lease: LeaseId, number: u64) {
        env.judge.let_go(number);
        let call =
            self.with_patience(env, |machine, patience, now| machine.release(lease, patience, now));
        if let Some(call) = call {
            self.me.machine.close_call(call);
        }
        let rest = self.me.dice.between(20 * MS, 400 * MS);
        self.go_on(env, Stage::Idle, rest);
    }

    fn handle_ended(&mut self, env: &mut Env, call: CallId) {
        let ended = self.me.machine.take_outcome(call);
        if matches!(self.stage, Stage::Asking(asked) if asked == call) {
            match ended {
                Some(Ended::Acquire(Outcome::Held { .. })) => self.hold(env, call),
                _ => {
                    let rest = self.me.dice.between(20 * MS, 250 * MS);
                    self.go_on(env, Stage::Idle, rest);
                }
            }
        }
        self.me.machine.close_call(call);
    }

    fn hold(&mut self, env: &mut Env, call: CallId) {
        let now = self.now(env);
        let hold = Hold { renewal: Renewal::On, until: Moment::from_nanos(u64::MAX) };
        let lease = self.me.machine.keep(call, hold, now).expect("it was won");
        self.wins += 1;
        let number = env.fresh();
        self.note_held(env, lease, number);
        let work = match env.is_calm {
            true => self.me.dice.between(5 * MS, 40 * MS),
            false => self.me.dice.between(5 * MS, 5 * TTL),
        };
        self.go_on(env, Stage::Holding(lease, number), work);
    }

    /// Tells the judge until when the lock is held.
    fn note_held(&self, env: &mut Env, lease: LeaseId, number: u64) {
        let Some(held) = self.me.machine.lease(lease) else { return };
        let until = match held.lease().lost() {
            Some(_) => 0,
            None => self.me.clock.when(held.lease().valid_until()),
        };
        if let Some(fence) = held.fenced().map(FencedLease::fence) {
            env.hold(number, self.me.number, until, fence);
        }
    }

    fn handle_lease(&mut self, env: &mut Env, event: watchdog::Event) {
        let Stage::Holding(lease, number) = self.stage else { return };
        match event {
            watchdog::Event::Valid { lease: it, .. } if it == lease => {
                self.note_held(env, lease, number);
            }
            watchdog::Event::Lost { lease: it, .. } if it == lease => {
                self.release(env, lease, number);
            }
            _ => {}
        }
    }
}

impl Linked for Client {
    type World = Env;

    fn me(&self) -> &Process {
        &self.me
    }

    fn me_mut(&mut self) -> &mut Process {
        &mut self.me
    }

    fn handle_event(&mut self, env: &mut Env, event: Event) {
        match event {
            Event::Closed(_) => {}
            Event::Ended(call, _) => self.handle_ended(env, call),
            Event::Lease(event) => self.handle_lease(env, event),
        }
    }

    fn handle_work(&mut self, env: &mut Env, _task: usize, step: u32) {
        if step != self.steps {
            return;
        }
        match self.stage {
            Stage::Idle => self.begin(env),
            Stage::Asking(call) => {
                let now = self.now(env);
                self.me.machine.abandon(call, now);
                let rest = self.me.dice.between(20 * MS, 250 * MS);
                self.go_on(env, Stage::Idle, rest);
            }
            Stage::Holding(lease, number) => self.release(env, lease, number),
        }
        self.drive(env);
    }

    fn note_opinion(&mut self, _env: &mut Env, _node: usize, opinion: &Opinion) {
        self.last = Some(opinion.clone());
    }
}

const fn ttl() -> Duration {
    Duration::from_millis(TTL_MS)
}
