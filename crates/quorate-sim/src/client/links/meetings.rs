//! What a client knows of its guarded nodes.

use quorate_core::{
    command::{Command, Stay},
    guard::{Council, Enrolment, Greeting, Known, Mark, Met, NodeId, Opinion},
    moment::Moment,
};

use crate::{
    clock::{MS, Nanos},
    dice::Dice,
    settings::{Guard, label, wall_ms},
};

/// What one process knows of its nodes.
#[derive(Debug)]
pub(crate) struct Meetings {
    council: Council,
    max_ttl_ms: u64,
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

/// What to do with a node that was met.
pub(super) enum Verdict {
    /// A session with it can begin.
    Votes,
    Say(Command),
    Leave,
}

impl Meetings {
    pub(crate) fn new(
        list: &[usize],
        max_ttl_ms: u64,
        guard: Guard,
        session_ms: u64,
        dice: Dice,
    ) -> Self {
        let council = council(list, max_ttl_ms, guard.guard_ms);
        let (seats, wall_off_ms) = (vec![Seat::default(); list.len()], 0);
        let mut meetings =
            Self { council, max_ttl_ms, seats, guard, session_ms, wall_off_ms, dice };
        meetings.set_wall();
        meetings
    }

    /// Another process begins with nothing but its list.
    pub(crate) fn forget(&mut self, list: &[usize]) {
        self.seats = vec![Seat::default(); list.len()];
        self.council = council(list, self.max_ttl_ms, self.guard.guard_ms);
    }

    /// An operator vouches for the list: no change of it was made here, ever.
    pub(crate) const fn vouch(&mut self) {
        self.council.set_vouched(true);
    }

    pub(super) const fn nodes(&self) -> usize {
        self.seats.len()
    }

    fn set_wall(&mut self) {
        let width = self.guard.wall_ms;
        self.wall_off_ms = self.dice.between(0, 2 * width) as i64 - width as i64;
    }

    /// Its wall clock, which is set now and then.
    fn wall_ms(&mut self, now: Nanos) -> u64 {
        if self.dice.below(16) == 0 {
            self.set_wall();
        }
        wall_ms(now).saturating_add_signed(self.wall_off_ms)
    }

    /// The terms of a session, which begins or goes on.
    pub(super) fn stay(&mut self, node: usize, now: Nanos) -> Stay {
        self.council.ask(node);
        let (life_ms, mark) = (self.session_ms, self.seats[node].mark);
        Stay { life_ms, mark, slack_us: self.guard.slack_us(), wall_ms: self.wall_ms(now) }
    }

    /// A session begins or goes on. Returns for how long the node is not to be asked for locks.
    pub(super) fn hear_again(&mut self, node: usize) -> Nanos {
        self.council.hear_again(node);
        self.seats[node].recovers_in
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

    pub(super) fn greeting(&mut self, node: usize, now: Nanos, moment: Moment) -> Greeting {
        self.council.ask(node);
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

    /// What a node is, and whether that puts the others in doubt.
    pub(super) fn hear(&mut self, node: usize, sent_at: Moment, met: &Met) -> (Opinion, bool) {
        self.know(node, met.time_us, sent_at);
        self.council.hear(node, met.clone())
    }

    pub(super) fn judge(
        &mut self,
        node: usize,
        opinion: Opinion,
        met: &Met,
        now: Nanos,
    ) -> Verdict {
        match opinion {
            Opinion::Votes(mark) => {
                self.seats[node].mark = Some(mark);
                self.seats[node].recovers_in = met.recovers_in_ms * MS;
                Verdict::Votes
            }
            Opinion::Waits { left_ms, .. } => {
                // Nobody is late when the guard ends.
                let often_ms = self.session_ms / 5;
                let away_ms = match left_ms < self.session_ms {
                    true => left_ms.min(often_ms),
                    false => self.dice.between(left_ms / 8, left_ms / 4).max(often_ms),
                };
                self.seats[node].away = Some(away_ms.min(AWAY_MAX_MS) * MS);
                Verdict::Leave
            }
            Opinion::Enrol(enrolment) => {
                let wall_ms = self.wall_ms(now);
                let enrolment = Enrolment { wall_ms, ..enrolment };
                Verdict::Say(Command::Enrol { enrolment })
            }
            Opinion::Tell { mark, pact } => {
                let fresh = self.fresh();
                Verdict::Say(Command::Change { mark, pact, fresh })
            }
            Opinion::Differs(_) => {
                self.seats[node].away = Some(DIFFERS_MS * MS);
                Verdict::Leave
            }
        }
    }

    const fn fresh(&mut self) -> Mark {
        Mark::from_random(self.bits())
    }

    const fn bits(&mut self) -> u128 {
        (self.dice.next() as u128) << 64 | self.dice.next() as u128
    }
}

/// One who takes these for its nodes.
pub(crate) fn council(list: &[usize], max_ttl_ms: u64, guard_ms: u64) -> Council {
    Council::new(list.iter().map(|node| label(*node)), max_ttl_ms, guard_ms)
}

/// A client that has to wait asks again after this time at the latest: another one may have ended
/// it.
const AWAY_MAX_MS: u64 = 300;

const DIFFERS_MS: u64 = 50;
