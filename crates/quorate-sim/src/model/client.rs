//! What a client does: the machines of the core, driven as the engine drives them.
//!
//! This is the seam to the protocol. The world knows when a client may move, what it sends, and
//! that answers or breaks come; which machines there are and what follows from an answer is known
//! here only.

use quorate_core::{
    acquire::{self, Acquire},
    lease::{Lease, LostReason},
    moment::Moment,
    quorum::Vote,
    release::Release,
    renew::{self, Renew},
};

use super::{
    desk::{Desk, Move, owner},
    link::{Answer, Request, Topic},
    machine::{Crash, Hand, Machine, Renewal, Try},
};

/// One client: what it tries and what it holds.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Client {
    number: u8,
    attempts_made: u8,
    attempts_left: u8,
    tries: Vec<Try>,
    hand: Option<Hand>,
    /// The last attempt has met another client.
    was_beaten: bool,
    /// A machine said that the lease was won or extended when nothing of it was left.
    is_dated_late: bool,
    crash: Option<Crash>,
}

impl Client {
    pub(super) fn new(number: u8, attempts_left: u8) -> Self {
        Self {
            number,
            attempts_made: 0,
            attempts_left,
            tries: Vec::new(),
            hand: None,
            was_beaten: false,
            is_dated_late: false,
            crash: None,
        }
    }

    pub(super) fn moves(&self, now: Moment) -> Vec<Move> {
        let mut moves = Vec::new();
        if self.crash.is_some() {
            return moves;
        }
        let open = self.tries.iter().find(|open| open.is_awaited());
        if self.hand.is_none() && open.is_none() && self.attempts_left > 0 {
            moves.push(Move::Start);
        }
        if self.has_won() {
            moves.push(Move::Accept);
        }
        if open.is_some() {
            moves.push(Move::Abandon);
        }
        if let Some(hand) = &self.hand {
            if hand.lease.check(now).is_ok() && hand.lease.can_grow() {
                moves.push(Move::Renew);
            }
            moves.push(Move::Release);
        }
        let tries = self.tries.iter().filter(|open| open.machine.is_due(now));
        moves.extend(tries.map(|open| Move::GiveUp(open.topic())));
        if let Some(hand) = &self.hand {
            let due = hand.renewals.iter().filter(|open| open.machine.is_due(now));
            moves.extend(due.map(|open| Move::GiveUp(Topic::Renew(hand.attempt, open.number))));
        }
        moves
    }

    pub(super) fn act(&mut self, step: Move, desk: &mut Desk<'_>) {
        match step {
            Move::Start => self.start(desk),
            Move::Accept => self.accept(),
            Move::Abandon => {
                self.tries.iter_mut().filter(|open| open.is_awaited()).for_each(|open| {
                    open.machine.handle_abandon();
                });
                self.settle_tries(desk);
            }
            Move::Renew => self.renew(desk),
            Move::Release => self.release(desk),
            Move::GiveUp(topic) => self.with(topic, desk, |machine, now| {
                machine.handle_timeout(now);
            }),
        }
    }

    pub(super) fn receive(&mut self, node: usize, answer: &Answer, desk: &mut Desk<'_>) {
        let vote = answer.request.command.vote(&answer.reply);
        self.vote(answer.request.topic, node, vote, desk);
    }

    /// The connection to a node broke: these requests have no answer. A release that was not
    /// answered is owed, and sent again on the new connection.
    pub(super) fn handle_cut(&mut self, node: usize, requests: Vec<Request>, desk: &mut Desk<'_>) {
        for request in requests {
            if request.topic == Topic::Free {
                desk.sent.push((node, request));
            } else {
                self.vote(request.topic, node, Vote::Unknown, desk);
            }
        }
    }

    /// True if the answer of this node can still make a difference.
    pub(super) fn awaits(&self, topic: Topic, node: usize) -> bool {
        match topic {
            Topic::Take(attempt) => {
                let mut tries = self.tries.iter().filter(|open| open.attempt == attempt);
                tries.any(|open| open.machine.tally().pending().contains(node))
            }
            Topic::Renew(attempt, number) => {
                let hand = self.hand.iter().filter(|hand| hand.attempt == attempt);
                let mut renewals = hand.flat_map(|hand| hand.renewal(number));
                renewals.any(|open| open.machine.tally().pending().contains(node))
            }
            Topic::Free => false,
        }
    }

    /// The process is gone.
    pub(super) fn crash(&mut self, now: Moment) {
        let crash = if self.holds(now) { Crash::AsHolder } else { Crash::Otherwise };
        *self = Self {
            number: self.number,
            attempts_made: self.attempts_made,
            attempts_left: 0,
            tries: Vec::new(),
            hand: None,
            was_beaten: false,
            is_dated_late: self.is_dated_late,
            crash: Some(crash),
        };
    }

    /// Remembers that the lease has ended, to see whether it is ever valid again.
    pub(super) fn observe_end(&mut self) {
        if let Some(hand) = &mut self.hand {
            hand.has_ended = true;
        }
    }

    pub(super) fn ended_unseen(&self, now: Moment) -> bool {
        self.hand.as_ref().is_some_and(|hand| !hand.has_ended && hand.lease.check(now).is_err())
    }

    pub(super) fn holds(&self, now: Moment) -> bool {
        self.hand.as_ref().is_some_and(|hand| hand.lease.check(now).is_ok())
    }

    /// The attempt that has won what is in hand.
    pub(super) fn held_attempt(&self) -> Option<u8> {
        self.hand.as_ref().map(|hand| hand.attempt)
    }

    pub(super) fn is_revived(&self, now: Moment) -> bool {
        self.holds(now) && self.hand.as_ref().is_some_and(|hand| hand.has_ended)
    }

    pub(super) fn has_grown(&self) -> bool {
        self.hand.as_ref().is_some_and(|hand| hand.has_grown)
    }

    /// True if the client still minds what became of this attempt.
    pub(super) fn minds(&self, attempt: u8) -> bool {
        self.held_attempt() == Some(attempt)
            || self.tries.iter().any(|open| open.attempt == attempt)
    }

    /// True if the lock is won and the caller has not learned of it.
    pub(super) fn has_won(&self) -> bool {
        self.tries.iter().any(|open| open.won_until().is_some())
    }

    pub(super) fn has_started(&self) -> bool {
        self.attempts_made > 0
    }

    pub(super) fn is_busy(&self) -> bool {
        self.hand.is_some() || !self.tries.is_empty()
    }

    pub(super) fn was_beaten(&self) -> bool {
        self.was_beaten
    }

    pub(super) fn is_dated_late(&self) -> bool {
        self.is_dated_late
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.crash.is_some()
    }

    pub(super) fn crashed_as_holder(&self) -> bool {
        self.crash == Some(Crash::AsHolder)
    }

    /// In one word, for a reader.
    pub(super) fn word(&self, now: Moment) -> &'static str {
        match (&self.hand, self.crash) {
            (_, Some(_)) => "crashed",
            (Some(_), None) if self.holds(now) => "HOLDS",
            (Some(_), None) => "ended",
            (None, None) if self.tries.iter().any(Try::is_awaited) => "tries",
            (None, None) if !self.tries.is_empty() => "undoes",
            (None, None) => "idle",
        }
    }

    fn start(&mut self, desk: &mut Desk<'_>) {
        self.attempts_left -= 1;
        self.attempts_made += 1;
        self.was_beaten = false;
        let machine = Acquire::start(desk.terms, desk.nodes, desk.now);
        self.tries.push(Try { attempt: self.attempts_made, machine, has_won: false });
        self.settle_tries(desk);
    }

    /// The lease is made from the outcome, however late the caller hears of it.
    pub(super) fn accept(&mut self) {
        let won = self.tries.iter().position(|open| open.won_until().is_some());
        let Some(open) = won.map(|at| self.tries.remove(at)) else { return };
        let Some(valid_until) = open.won_until() else { return };
        self.hand = Some(Hand {
            attempt: open.attempt,
            lease: Lease::new(valid_until, Moment::from_nanos(u64::MAX)),
            renewals: Vec::new(),
            renewals_sent: 0,
            has_ended: false,
            has_grown: false,
        });
    }

    fn renew(&mut self, desk: &mut Desk<'_>) {
        let Some(hand) = &mut self.hand else { return };
        hand.renewals_sent += 1;
        let number = hand.renewals_sent;
        let extension = hand.lease.handle_extension_sent(&desk.terms, desk.now);
        let held_until = hand.lease.valid_until();
        let machine = Renew::start(desk.terms, desk.nodes, held_until, desk.now);
        hand.renewals.push(Renewal { number, extension, machine });
        self.settle_renewals(desk);
    }

    /// The guard is dropped: the release is sent, and nobody waits for how it went.
    fn release(&mut self, desk: &mut Desk<'_>) {
        let Some(hand) = self.hand.take() else { return };
        let mut machine = Release::start(desk.terms, desk.nodes, desk.now);
        let owner = owner(self.number, hand.attempt);
        desk.drive(&owner, Topic::Free, || machine.poll_output());
    }

    fn vote(&mut self, topic: Topic, node: usize, vote: Vote, desk: &mut Desk<'_>) {
        self.with(topic, desk, |machine, now| machine.handle_vote(node, vote, now));
    }

    /// Tells one machine something and does what follows from it.
    fn with(
        &mut self,
        topic: Topic,
        desk: &mut Desk<'_>,
        tell: impl FnOnce(&mut dyn Machine, Moment),
    ) {
        match topic {
            Topic::Take(attempt) => {
                let mut tries = self.tries.iter_mut().filter(|open| open.attempt == attempt);
                let Some(open) = tries.next() else { return };
                tell(&mut open.machine, desk.now);
                self.settle_tries(desk);
            }
            Topic::Renew(attempt, number) => {
                let Some(hand) = self.hand.as_mut().filter(|hand| hand.attempt == attempt) else {
                    return;
                };
                let mut renewals = hand.renewals.iter_mut().filter(|open| open.number == number);
                let Some(open) = renewals.next() else { return };
                tell(&mut open.machine, desk.now);
                self.settle_renewals(desk);
            }
            Topic::Free => {}
        }
    }

    /// Sends what the attempts ask for, and acts on those which are certain. An attempt is let go
    /// when it waits for nothing more; until then it undoes what late answers grant.
    fn settle_tries(&mut self, desk: &mut Desk<'_>) {
        let mut kept = Vec::new();
        for mut open in std::mem::take(&mut self.tries) {
            let owner = owner(self.number, open.attempt);
            let won_until = open.won_until();
            let is_news = won_until.is_some() && !open.has_won;
            open.has_won = won_until.is_some();
            self.is_dated_late |= is_news && won_until.is_some_and(|until| until <= desk.now);
            let is_idle = desk.drive(&owner, open.topic(), || open.machine.poll_output());
            let is_contended = open.machine.outcome() == Some(acquire::Outcome::Contended);
            self.was_beaten |= is_contended && open.attempt == self.attempts_made;
            if !is_idle || open.is_awaited() {
                kept.push(open);
            }
        }
        self.tries = kept;
    }

    fn settle_renewals(&mut self, desk: &mut Desk<'_>) {
        let Some(hand) = &mut self.hand else { return };
        let owner = owner(self.number, hand.attempt);
        let mut kept = Vec::new();
        for mut open in std::mem::take(&mut hand.renewals) {
            let topic = Topic::Renew(hand.attempt, open.number);
            desk.drive(&owner, topic, || open.machine.poll_output());
            let old = hand.lease.valid_until();
            match open.machine.outcome() {
                None => kept.push(open),
                Some(renew::Outcome::Extended { valid_until }) => {
                    self.is_dated_late |= old <= desk.now;
                    hand.lease.handle_extended(open.extension, valid_until, desk.now);
                }
                Some(renew::Outcome::Gone) => hand.lease.handle_lost(LostReason::Gone),
                Some(renew::Outcome::TooLate) => hand.lease.handle_lost(LostReason::Expired),
                Some(renew::Outcome::Unsure) => {
                    hand.lease.handle_risk(desk.now);
                }
            }
            hand.has_grown |= old < hand.lease.valid_until();
        }
        hand.renewals = kept;
    }
}
