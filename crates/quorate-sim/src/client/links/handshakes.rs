//! What a client knows of nodes with quarantine.

use quorate_core::{
    command::SessionTerms,
    membership::{
        Command, Enrolment, Handshake, Mark, NodeId, NodeInfo, Opinion, Quarantine, View,
    },
    moment::Moment,
};

use crate::{
    clock::{MS, Nanos},
    dice::Dice,
    settings::{QuarantineSettings, label, wall_ms},
};

/// The membership view of one process, and its state for each node.
#[derive(Debug)]
pub(crate) struct Handshakes {
    view: View,
    max_ttl_ms: u64,
    seats: Vec<Seat>,
    quarantine: QuarantineSettings,
    session_ms: u64,
    /// Some nodes never return, and an operator vouches for the list to every process.
    is_vouched: bool,
    /// By how many milliseconds its wall clock is ahead.
    wall_off_ms: i64,
    dice: Dice,
}

#[derive(Clone, Debug, Default)]
struct Seat {
    /// Its mark in the handshake of the current connection.
    mark: Option<Mark>,
    /// For how long it need not be contacted again.
    away: Option<Nanos>,
    /// For how long it must not be asked for locks, by its handshake.
    recovers_in: Nanos,
}

/// The next step after a handshake.
pub(super) enum NextStep {
    /// A session with it can begin.
    Votes,
    Send(Command),
    Leave,
}

impl Handshakes {
    pub(crate) fn new(
        list: &[usize],
        max_ttl_ms: u64,
        quarantine: QuarantineSettings,
        session_ms: u64,
        dice: Dice,
    ) -> Self {
        let view = view_of(list, max_ttl_ms, quarantine.quarantine_ms);
        let (seats, wall_off_ms) = (vec![Seat::default(); list.len()], 0);
        let mut handshakes = Self {
            view,
            max_ttl_ms,
            seats,
            quarantine,
            session_ms,
            is_vouched: false,
            wall_off_ms,
            dice,
        };
        handshakes.set_wall();
        handshakes
    }

    /// Another process starts with its list only.
    pub(crate) fn forget(&mut self, list: &[usize]) {
        self.seats = vec![Seat::default(); list.len()];
        self.view = view_of(list, self.max_ttl_ms, self.quarantine.quarantine_ms);
        self.view.set_vouched(self.is_vouched);
    }

    /// An operator vouches for the list.
    pub(crate) const fn vouch(&mut self) {
        self.is_vouched = true;
        self.view.set_vouched(true);
    }

    pub(super) const fn nodes(&self) -> usize {
        self.seats.len()
    }

    fn set_wall(&mut self) {
        let width = self.quarantine.wall_ms;
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
    pub(super) fn terms(&mut self, node: usize, now: Nanos) -> SessionTerms {
        self.view.ask(node);
        let (lifetime_ms, mark) = (self.session_ms, self.seats[node].mark);
        SessionTerms {
            lifetime_ms,
            mark,
            slack_us: self.quarantine.slack_us(),
            wall_ms: self.wall_ms(now),
        }
    }

    /// A session begins or goes on. Returns for how long the node is not to be asked for locks.
    pub(super) fn record_session(&mut self, node: usize) -> Nanos {
        self.view.record_ping(node);
        self.seats[node].recovers_in
    }

    /// A node has reported its time, for which it was asked at `sent_at`.
    pub(super) fn know(&mut self, node: usize, time_us: u64, sent_at: Moment) {
        self.view.record_time(node, time_us, sent_at);
    }

    /// The connection to a node is closed. Returns for how long it should stay closed.
    pub(super) fn leave(&mut self, node: usize) -> Option<Nanos> {
        self.view.leave(node);
        self.seats[node].mark = None;
        self.seats[node].away.take()
    }

    pub(super) fn handshake(&mut self, node: usize, now: Nanos, moment: Moment) -> Handshake {
        self.view.ask(node);
        let known = self.view.known(node, moment);
        Handshake {
            wall_ms: self.wall_ms(now),
            known,
            mark: self.fresh(),
            id: NodeId::from_random(self.bits()),
            lifetime_ms: self.session_ms,
            quarantine_ms: self.quarantine.quarantine_ms,
            is_read_only: false,
            is_durable: self.quarantine.is_durable,
        }
    }

    /// Returns the opinion about a node, and whether the handshakes of the others must be repeated.
    pub(super) fn record(
        &mut self,
        node: usize,
        sent_at: Moment,
        info: &NodeInfo,
    ) -> (Opinion, bool) {
        self.know(node, info.time_us, sent_at);
        self.view.record(node, info.clone())
    }

    pub(super) fn decide(
        &mut self,
        node: usize,
        opinion: Opinion,
        info: &NodeInfo,
        now: Nanos,
    ) -> NextStep {
        match opinion {
            Opinion::Votes(mark) => {
                self.seats[node].mark = Some(mark);
                self.seats[node].recovers_in = info.recovers_in_ms * MS;
                NextStep::Votes
            }
            Opinion::Quarantined(Quarantine { left_ms, .. }) => {
                // Clients return soon after the end of the quarantine.
                let often_ms = self.session_ms / 5;
                let away_ms = match left_ms < self.session_ms {
                    true => left_ms.min(often_ms),
                    false => self.dice.between(left_ms / 8, left_ms / 4).max(often_ms),
                };
                self.seats[node].away = Some(away_ms.min(AWAY_MAX_MS) * MS);
                NextStep::Leave
            }
            Opinion::Enrol(enrolment) => {
                let wall_ms = self.wall_ms(now);
                NextStep::Send(Command::Enrol(Enrolment { wall_ms, ..enrolment }))
            }
            Opinion::Update { mark, config } => {
                let fresh = self.fresh();
                NextStep::Send(Command::Change { mark, config, fresh })
            }
            Opinion::Differs(_) => {
                self.seats[node].away = Some(DIFFERS_MS * MS);
                NextStep::Leave
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

/// The initial view of a client with this list.
pub(crate) fn view_of(list: &[usize], max_ttl_ms: u64, quarantine_ms: u64) -> View {
    View::new(list.iter().map(|node| label(*node)), max_ttl_ms, quarantine_ms)
}

/// A client asks a quarantined node again after this time at the latest: an operator may have ended
/// the quarantine.
const AWAY_MAX_MS: u64 = 300;

const DIFFERS_MS: u64 = 50;
