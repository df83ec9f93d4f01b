//! How a client meets guarded nodes, and what it remembers of them.

use std::sync::Arc;

use quorate_core::{
    command::{Command, Reply},
    guard::{Council, Enrolment, Greeting, Known, Mark, Met, NodeId, Opinion},
    moment::Moment,
};

use super::Client;
use crate::{
    clock::{MS, Nanos},
    dice::Dice,
    net::{Waiting, Whose},
    settings::{Guard, Settings, label, wall_ms},
    trace::{Place, Scene},
    world::Env,
};

/// What one process knows of its nodes.
#[derive(Debug)]
pub(super) struct Meetings {
    council: Council,
    seats: Vec<Seat>,
    guard: Guard,
    session_ms: u64,
    /// By how many milliseconds its wall clock is ahead.
    wall_off_ms: i64,
    dice: Dice,
}

#[derive(Clone, Debug, Default)]
struct Seat {
    /// As it was judged on the connection of today.
    mark: Option<Mark>,
    /// What its clock showed, and when it was asked.
    known: Option<(u64, Moment)>,
    /// For how long it need not be asked again.
    away: Option<Nanos>,
    /// For how long it is not to be asked for locks, as it was judged.
    recovers_in: Nanos,
}

impl Meetings {
    pub(super) fn new(settings: &Settings, dice: Dice) -> Option<Self> {
        let mut meetings = Self {
            council: council(settings)?,
            seats: vec![Seat::default(); settings.nodes],
            guard: settings.guard?,
            session_ms: settings.session_ms,
            wall_off_ms: 0,
            dice,
        };
        meetings.set_wall();
        Some(meetings)
    }

    /// Another process begins with nothing.
    pub(super) fn forget(&mut self, settings: &Settings) {
        self.seats.fill(Seat::default());
        if let Some(council) = council(settings) {
            self.council = council;
        }
    }

    /// An operator vouches for the list: no change of it was made here, ever.
    pub(super) const fn vouch(&mut self) {
        self.council.set_vouched(true);
    }

    fn set_wall(&mut self) {
        let width = self.guard.wall_ms;
        self.wall_off_ms = self.dice.between(0, 2 * width) as i64 - width as i64;
    }

    /// Its wall clock, which is set now and then.
    pub(super) fn wall_ms(&mut self, now: Nanos) -> u64 {
        if self.dice.below(16) == 0 {
            self.set_wall();
        }
        wall_ms(now).saturating_add_signed(self.wall_off_ms)
    }

    /// For how long a node is not to be asked for locks.
    pub(super) fn recovers_in(&self, node: usize) -> Nanos {
        self.seats[node].recovers_in
    }

    pub(super) fn mark(&self, node: usize) -> Option<Mark> {
        self.seats[node].mark
    }

    /// A node is about to be asked whether its session goes on.
    pub(super) fn ask(&mut self, node: usize) {
        self.council.ask(node);
    }

    /// A session begins or goes on.
    pub(super) fn hear_again(&mut self, node: usize) {
        self.council.hear_again(node);
    }

    /// A node has told its time, which it was asked for at `sent_at`.
    pub(super) fn know(&mut self, node: usize, time_us: u64, sent_at: Moment) {
        self.seats[node].known = Some((time_us / 1_000, sent_at));
    }

    /// The connection to a node is gone. Returns for how long it is not wanted.
    pub(super) fn leave(&mut self, node: usize) -> Option<Nanos> {
        self.council.leave(node);
        self.seats[node].mark = None;
        self.seats[node].away.take()
    }

    fn greeting(&mut self, node: usize, now: Nanos, moment: Moment) -> Greeting {
        let known = self.seats[node].known.map(|(seen_ms, at)| {
            let elapsed = moment.saturating_since(at);
            let elapsed_ms = (elapsed + elapsed / 100).as_millis() as u64;
            Known { seen_ms, expected_ms: seen_ms + elapsed_ms + 1 }
        });
        Greeting {
            wall_ms: self.wall_ms(now),
            known,
            mark: self.fresh(),
            id: NodeId::from_random(self.bits()),
            life_ms: self.session_ms,
            guard_ms: self.guard.guard_ms,
            is_looking: false,
            is_durable: self.guard.is_durable,
        }
    }

    const fn fresh(&mut self) -> Mark {
        Mark::from_random(self.bits())
    }

    const fn bits(&mut self) -> u128 {
        (self.dice.next() as u128) << 64 | self.dice.next() as u128
    }
}

impl Client {
    /// Some nodes will never be back, so that somebody must speak for those that have forgotten.
    pub(crate) const fn vouch(&mut self) {
        if let Some(meetings) = &mut self.meetings {
            meetings.vouch();
        }
    }

    /// A new connection begins with a question.
    pub(super) fn meet(&mut self, env: &mut Env, node: usize) {
        let moment = self.now(env);
        let Some(meetings) = &mut self.meetings else { return };
        meetings.council.ask(node);
        let greeting = meetings.greeting(node, env.now, moment);
        self.send_meeting(env, node, Command::Meet { greeting });
    }

    fn send_meeting(&self, env: &mut Env, node: usize, command: Command) {
        let whose = Whose::Meeting(self.now(env));
        self.send(env, node, Waiting { whose, command });
    }

    pub(super) fn handle_meeting(
        &mut self,
        env: &mut Env,
        node: usize,
        sent_at: Moment,
        answer: Option<&Reply>,
    ) {
        match answer {
            Some(Reply::Met(met)) => self.hear(env, node, sent_at, met),
            Some(Reply::Enrolled | Reply::Changed) => self.meet(env, node),
            // Without an answer, or with another one, the connection is of no use.
            Some(Reply::Stale) | None => {}
            Some(_) => self.close(env, node),
        }
    }

    fn hear(&mut self, env: &mut Env, node: usize, sent_at: Moment, met: &Met) {
        let Some(meetings) = &mut self.meetings else { return };
        meetings.know(node, met.time_us, sent_at);
        let (opinion, is_changed) = meetings.council.hear(node, met.clone());
        env.trace.add(env.now, None, || Scene::Note {
            place: Place::Link(self.number, node),
            text: format!("is judged: {}", told(&opinion)),
        });
        if is_changed {
            let others = (0..env.nodes.len()).filter(|other| *other != node);
            others.for_each(|other| self.close(env, other));
        }
        let Some(meetings) = &mut self.meetings else { return };
        match opinion {
            Opinion::Votes(mark) => {
                meetings.seats[node].mark = Some(mark);
                meetings.seats[node].recovers_in = met.recovers_in_ms * MS;
                self.attach(env, node);
            }
            Opinion::Waits { left_ms, .. } => {
                env.count.waits += 1;
                // Nobody is late when the guard ends.
                let often_ms = meetings.session_ms / 5;
                let away_ms = match left_ms < meetings.session_ms {
                    true => left_ms.min(often_ms),
                    false => meetings.dice.between(left_ms / 8, left_ms / 4).max(often_ms),
                };
                let away_ms = away_ms.min(AWAY_MAX_MS);
                meetings.seats[node].away = Some(away_ms * MS);
                self.close(env, node);
            }
            Opinion::Enrol(enrolment) => {
                let wall_ms = meetings.wall_ms(env.now);
                let enrolment = Enrolment { wall_ms, ..enrolment };
                self.send_meeting(env, node, Command::Enrol { enrolment });
            }
            Opinion::Tell { mark, pact } => {
                let fresh = meetings.fresh();
                self.send_meeting(env, node, Command::Change { mark, pact, fresh });
            }
            Opinion::Differs(_) => {
                env.count.differs += 1;
                meetings.seats[node].away = Some(DIFFERS_MS * MS);
                self.close(env, node);
            }
        }
    }
}

fn council(settings: &Settings) -> Option<Council> {
    let labels = (0..settings.nodes).map(label);
    let max_ttl_ms = settings.longest_ttl() / MS;
    Some(Council::new(labels.map(Arc::from), max_ttl_ms, settings.guard?.guard_ms))
}

fn told(opinion: &Opinion) -> String {
    match opinion {
        Opinion::Votes(_) => "it votes".into(),
        Opinion::Waits { why, left_ms } => format!("it waits for {left_ms} ms: {why}"),
        Opinion::Enrol(_) => "it is to be enrolled".into(),
        Opinion::Tell { .. } => "it is to be told of a change".into(),
        Opinion::Differs(why) => format!("it differs: {why}"),
    }
}

/// Whoever has to wait asks again after this time at the latest: somebody else may have ended it.
const AWAY_MAX_MS: u64 = 300;

const DIFFERS_MS: u64 = 50;
