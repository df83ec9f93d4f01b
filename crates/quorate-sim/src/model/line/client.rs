//! What a client does: the machines of the core, driven as the library will drive them.

use std::time::Duration;

use quorate_core::{
    command::Reply,
    contend::{Contend, Mode, Outcome, Output, Saying},
    fence::Fence,
    lease::{Extension, Lease, LostReason},
    line::{Extended, News},
    moment::Moment,
    quorum::{NodeSet, Vote},
    renew::{self, Renew},
    terms::Terms,
};

use super::link::{Heard, Mark, Request, What};

/// One client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Client {
    pub(super) attempts_left: u8,
    /// The number of its last attempt, and the ticket of that.
    pub(super) attempt: u8,
    pub(super) ticket: u8,
    /// How often its timer may still strike during this attempt.
    pub(super) beats_left: u8,
    /// The largest fence that anybody had when the attempt began.
    pub(super) floor: Fence,
    pub(super) doing: Doing,
}

/// What a client is at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Doing {
    Nothing,
    Waiting(Waiter),
    Holding(Hand),
    /// The process is gone.
    Dead,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Waiter {
    pub(super) machine: Contend,
    /// When the timer strikes.
    pub(super) due: Moment,
}

/// A held lock, valid or not.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Hand {
    pub(super) life: u8,
    pub(super) fence: Fence,
    pub(super) lease: Lease,
    pub(super) renewals_left: u8,
    pub(super) renewal: Option<(Extension, Renew)>,
}

/// What a client has at hand for a step, and what comes of it.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) terms: Terms,
    pub(super) nodes: usize,
    pub(super) now: Moment,
    pub(super) renewals: u8,
    /// Whether it shares the lock.
    pub(super) is_shared: bool,
    /// The nodes that know its session.
    pub(super) up: NodeSet,
    pub(super) sent: Vec<(usize, Request)>,
    /// Releases that could not be sent.
    pub(super) owed: Vec<(usize, Mark)>,
    /// The lock was won with this fence.
    pub(super) won: Option<Fence>,
}

impl Desk {
    fn send(&mut self, node: usize, mark: Mark, what: What) {
        self.sent.push((node, Request { what, mark, sent_at: self.now }));
    }

    /// Lets go for good, at every node.
    fn release(&mut self, mark: Mark) {
        for node in 0..self.nodes {
            if self.up.contains(node) {
                self.send(node, mark, What::Say(Saying::Leave));
            } else {
                self.owed.push((node, mark));
            }
        }
    }
}

impl Client {
    pub(super) const fn new(attempts_left: u8) -> Self {
        let (attempt, ticket, beats_left) = (0, 0, 0);
        let (floor, doing) = (Fence::ZERO, Doing::Nothing);
        Self { attempts_left, attempt, ticket, beats_left, floor, doing }
    }

    pub(super) fn start(&mut self, ticket: u8, beats: u8, floor: Fence, desk: &mut Desk) {
        self.attempts_left -= 1;
        self.attempt += 1;
        (self.ticket, self.beats_left, self.floor) = (ticket, beats, floor);
        let machine =
            Contend::start(desk.terms, desk.nodes, desk.up, Mode::Wait(Duration::MAX), desk.now);
        let machine = if desk.is_shared { machine.shared() } else { machine };
        self.drive(machine, desk);
    }

    /// The timer strikes.
    pub(super) fn beat(&mut self, desk: &mut Desk) {
        self.with(desk, |machine, now| machine.handle_timeout(now));
    }

    /// The caller goes away.
    pub(super) fn cancel(&mut self, desk: &mut Desk) {
        self.with(desk, |machine, _| machine.handle_abandon());
    }

    /// The guard is dropped, whether its lease has ended or not.
    pub(super) fn release(&mut self, desk: &mut Desk) {
        if let Some(mark) = self.mark() {
            desk.release(mark);
        }
        self.finish();
    }

    pub(super) fn renew(&mut self, desk: &mut Desk) {
        let mark = self.mark();
        let (Doing::Holding(hand), Some(mark)) = (&mut self.doing, mark) else { return };
        hand.renewals_left -= 1;
        let extension = hand.lease.handle_extension_sent(&desk.terms, desk.now);
        let held_until = hand.lease.valid_until();
        let machine = Renew::start(desk.terms, desk.nodes, held_until, desk.now);
        hand.renewal = Some((extension, machine));
        let what = What::Renew(hand.fence);
        for node in 0..desk.nodes {
            if desk.up.contains(node) {
                desk.send(node, mark, what);
            }
        }
        for node in (0..desk.nodes).filter(|node| !desk.up.contains(*node)) {
            self.count(node, Vote::Unknown, desk.now);
        }
    }

    pub(super) fn handle_up(&mut self, node: usize, desk: &mut Desk) {
        self.with(desk, |machine, now| machine.handle_up(node, now));
    }

    /// The connection is gone, and these will never be answered.
    pub(super) fn handle_down(&mut self, node: usize, unanswered: &[Request], desk: &mut Desk) {
        for request in unanswered {
            if request.what == What::Say(Saying::Leave) {
                desk.owed.push((node, request.mark));
            }
            self.handle_reply(node, *request, None, desk);
        }
        self.with(desk, |machine, _| machine.handle_down(node));
    }

    pub(super) fn receive(&mut self, node: usize, heard: &Heard, desk: &mut Desk) {
        match heard {
            Heard::Reply(request, reply) => self.handle_reply(node, *request, Some(reply), desk),
            Heard::Push { mark, fence, news } => self.handle_push(node, *mark, *fence, *news, desk),
        }
    }

    /// True if it may still make a difference to read this.
    pub(super) fn heeds(&self, node: usize, heard: &Heard, is_timed: bool) -> bool {
        let (request, reply) = match heard {
            Heard::Reply(request, reply) => (request, reply),
            Heard::Push { mark, .. } => return !self.is_holding() || self.mark() != Some(*mark),
        };
        let is_ours = self.mark() == Some(request.mark);
        let is_waiting = is_ours && matches!(self.doing, Doing::Waiting(_));
        match (request.what, reply) {
            (What::Attach, _) | (_, Reply::Stale) => true,
            (What::Say(Saying::Leave), _)
            | (What::Say(Saying::Doubt(_)), Reply::Released { is_ours: false }) => false,
            // All that it says is when it was sent.
            (What::Say(Saying::Yield(_)), _) => is_waiting && is_timed,
            (What::Say(_), _) => is_waiting,
            (What::Renew(_), _) => match &self.doing {
                Doing::Holding(Hand { renewal: Some((_, machine)), .. }) => {
                    is_ours && machine.tally().pending().contains(node)
                }
                _ => false,
            },
        }
    }

    pub(super) fn die(&mut self) {
        *self = Self { doing: Doing::Dead, ..Self::new(0) };
    }

    pub(super) fn holds(&self, now: Moment) -> bool {
        matches!(&self.doing, Doing::Holding(hand) if hand.lease.check(now).is_ok())
    }

    pub(super) const fn is_holding(&self) -> bool {
        matches!(self.doing, Doing::Holding(_))
    }

    pub(super) const fn is_waiting(&self) -> bool {
        matches!(self.doing, Doing::Waiting(_))
    }

    pub(super) const fn is_dead(&self) -> bool {
        matches!(self.doing, Doing::Dead)
    }

    /// True if it will never want anything any more.
    pub(super) const fn is_done(&self) -> bool {
        matches!(self.doing, Doing::Nothing) && self.attempts_left == 0
    }

    /// The owner that it waits or holds as.
    pub(super) fn mark(&self) -> Option<Mark> {
        let life = match &self.doing {
            Doing::Waiting(waiter) => u8::try_from(waiter.machine.life()).unwrap_or(u8::MAX),
            Doing::Holding(hand) => hand.life,
            Doing::Nothing | Doing::Dead => return None,
        };
        Some(Mark { ticket: self.ticket, attempt: self.attempt, life })
    }

    fn handle_reply(
        &mut self,
        node: usize,
        request: Request,
        reply: Option<&Reply>,
        desk: &mut Desk,
    ) {
        let is_ours = self.mark().is_some_and(|mark| mark.attempt == request.mark.attempt);
        if !is_ours {
            return;
        }
        if let Some(said) = request.said() {
            self.with(desk, |machine, now| {
                machine.handle_reply(node, said, request.sent_at, reply, now);
            });
        } else if let What::Renew(_) = request.what {
            let vote = match reply {
                Some(Reply::EachExtended(fates)) => match **fates {
                    [Extended::LivesOn(_)] => Vote::Grant,
                    [Extended::Refused(_)] => Vote::Refuse,
                    _ => Vote::Unknown,
                },
                Some(_) | None => Vote::Unknown,
            };
            self.count(node, vote, desk.now);
        }
    }

    fn handle_push(&mut self, node: usize, mark: Mark, fence: Fence, news: News, desk: &mut Desk) {
        if self.mark() != Some(mark) {
            // Nobody wants it any more.
            desk.send(node, mark, What::Say(Saying::Leave));
            return;
        }
        self.with(desk, |machine, now| {
            machine.handle_push(node, mark.life.into(), news, fence, now);
        });
    }

    /// Counts what a node says to a renewal.
    fn count(&mut self, node: usize, vote: Vote, now: Moment) {
        let Doing::Holding(hand) = &mut self.doing else { return };
        let Some((extension, machine)) = &mut hand.renewal else { return };
        machine.handle_vote(node, vote, now);
        match machine.outcome() {
            None => return,
            Some(renew::Outcome::Extended { valid_until }) => {
                hand.lease.handle_extended(*extension, valid_until, now);
            }
            Some(renew::Outcome::Gone) => hand.lease.handle_lost(LostReason::Gone),
            Some(renew::Outcome::TooLate) => hand.lease.handle_lost(LostReason::Expired),
            Some(renew::Outcome::Unsure) => {
                hand.lease.handle_risk(now);
            }
        }
        hand.renewal = None;
    }

    /// Tells the machine something, if there is one, and does what follows from it.
    fn with(&mut self, desk: &mut Desk, tell: impl FnOnce(&mut Contend, Moment)) {
        if let Doing::Waiting(waiter) = &mut self.doing {
            let mut machine = waiter.machine.clone();
            tell(&mut machine, desk.now);
            self.drive(machine, desk);
        }
    }

    fn drive(&mut self, mut machine: Contend, desk: &mut Desk) {
        let due = loop {
            match machine.poll_output() {
                Output::Say { node, said } => {
                    let life = u8::try_from(said.life).unwrap_or(u8::MAX);
                    let mark = Mark { ticket: self.ticket, attempt: self.attempt, life };
                    if desk.up.contains(node) {
                        desk.send(node, mark, What::Say(said.what));
                        continue;
                    }
                    if said.what == Saying::Leave {
                        desk.owed.push((node, mark));
                    }
                    machine.handle_reply(node, said, desk.now, None, desk.now);
                }
                Output::Wait { until } => break Some(until),
                Output::Idle => break None,
            }
        };
        let life = u8::try_from(machine.life()).unwrap_or(u8::MAX);
        match (machine.outcome(), due) {
            (Some(Outcome::Held { valid_until, fence }), _) => {
                desk.won = Some(fence);
                let lease = Lease::new(valid_until, Moment::from_nanos(u64::MAX));
                let (renewals_left, renewal) = (desk.renewals, None);
                self.beats_left = 0;
                self.doing = Doing::Holding(Hand { life, fence, lease, renewals_left, renewal });
            }
            (None, Some(due)) => self.doing = Doing::Waiting(Waiter { machine, due }),
            (Some(_), _) | (None, None) => self.finish(),
        }
    }

    fn finish(&mut self) {
        self.doing = Doing::Nothing;
        self.floor = Fence::ZERO;
        self.beats_left = 0;
        if self.attempts_left == 0 {
            (self.attempt, self.ticket) = (0, 0);
        }
    }
}
