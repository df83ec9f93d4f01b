//! A client of the model: the machine that is shipped, and what the claims need to know of it.

mod drive;
mod prints;

use std::{sync::Arc, time::Duration};

use quorate_core::{
    acquire::{self, Acquire, Wait},
    backoff::Jitter,
    client::{
        self, CallId, Config, Ended,
        owners::OwnerKind,
        waiter::Want,
        watchdog::{HeldLease, LeaseId},
    },
    command::{Owner, Reply},
    dialect::Dialect,
    fence::Fence,
    moment::Moment,
    name::Name,
    queue::{FencedLease, Push},
    terms::Terms,
};

pub(super) use self::drive::Out;
use self::drive::{Act, Names};
use super::{
    link::{Message, Request},
    node,
    settings::ANY_NUMBER,
};
use crate::driver::{Driver, Driving};

/// One client.
#[derive(Clone, Debug)]
pub(super) struct Member {
    machine: client::Client<Names>,
    driving: Driving,
    pub(super) doing: Doing,
    pub(super) attempts_left: u8,
    /// The number and the ticket of its last attempt.
    pub(super) attempt: u8,
    pub(super) ticket: u8,
    /// How often its timer may still fire during this attempt.
    pub(super) timeouts_left: u8,
    pub(super) renewals_left: u8,
    /// The largest fence of any holder when the attempt began.
    pub(super) floor: Fence,
    pub(super) notes: Notes,
    /// See [`Member::finish`].
    exact: u64,
    whole: u64,
    columns: Vec<u64>,
}

/// What a client does.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Doing {
    Nothing,
    /// It asks for the lock, or has won it and its caller does not know yet.
    Asking(CallId),
    /// It has a lease, valid or not.
    Holding(LeaseId),
    /// It holds an exclusive lease, and has asked the nodes to make it a reader's.
    Downgrading(LeaseId, CallId),
    /// It has crashed.
    Dead,
}

/// What the claims need to know of a client.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Notes {
    /// Its current lease was invalid in an earlier state.
    pub(super) has_ended: bool,
    /// A renewal has extended its current lease.
    pub(super) has_grown: bool,
    /// Its last attempt ended as contended.
    pub(super) was_beaten: bool,
    /// A lease was won or extended after its own end.
    pub(super) is_dated_late: bool,
    pub(super) died_as_holder: bool,
    /// It held the lock exclusively and asked to become a reader. It counts as a reader from then
    /// on.
    pub(super) is_reader: bool,
}

/// What is the same for one client in all states.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) number: usize,
    pub(super) nodes: usize,
    pub(super) name: Name,
    pub(super) terms: Terms,
    pub(super) is_classic: bool,
    pub(super) kind: OwnerKind,
    pub(super) timeouts: u8,
    pub(super) renewals: u8,
    /// A caller may cancel between a win and its notification.
    pub(super) learns_late: bool,
    /// Time stands still.
    pub(super) is_still: bool,
}

/// An input to a client.
#[derive(Clone, Debug)]
pub(super) enum Input {
    /// A caller asks for the lock, with this ticket. The fence is the largest of any holder so far.
    Start(u8, Fence),
    /// The caller is notified that it holds the lock.
    Accept,
    /// The caller cancels.
    Cancel,
    Renew,
    /// The exclusive holder asks to become a reader.
    Downgrade,
    /// The holder releases its lease, expired or not.
    Release,
    Timeout,
    Die,
    /// A session has begun.
    Up(usize),
    /// The connection broke, and these requests will never be answered.
    Cut(usize, Vec<Arc<Request>>),
    Receive(usize, Message),
    /// Time has passed.
    Tick,
}

impl Member {
    pub(super) fn new(rules: &Rules, attempts_left: u8, now: Moment) -> Self {
        let mut member = Self {
            machine: machine(rules),
            driving: Driving::default(),
            doing: Doing::Nothing,
            attempts_left,
            attempt: 0,
            ticket: 0,
            timeouts_left: 0,
            renewals_left: 0,
            floor: Fence::ZERO,
            notes: Notes::default(),
            exact: 0,
            whole: 0,
            columns: Vec::new(),
        };
        for node in 0..rules.nodes {
            member.machine.handle_time(node, 1, now);
            member.machine.handle_up(node, now);
        }
        member
    }

    pub(super) fn act(&mut self, rules: &Rules, input: Input, now: Moment) -> Out {
        let ended_at = self.valid_until();
        let mut act = Act { rules: rules.clone(), now, down: None, out: Out::default() };
        match input {
            Input::Start(ticket, floor) => self.start(rules, ticket, floor, now),
            Input::Accept => self.accept(&mut act),
            Input::Cancel => {
                if let Doing::Asking(call) | Doing::Downgrading(_, call) = self.doing {
                    self.machine.abandon(call, now);
                    self.release(now);
                    self.finish_attempt();
                }
            }
            Input::Renew => {
                if let Doing::Holding(lease) = self.doing {
                    self.renewals_left -= 1;
                    self.machine.renew(&[lease], &|_| Duration::ZERO, now);
                }
            }
            Input::Downgrade => self.downgrade(now),
            Input::Release => {
                self.release(now);
                self.finish_attempt();
            }
            Input::Timeout => self.handle_timeout(rules, now),
            Input::Die => self.die(rules, now),
            Input::Up(node) => self.machine.handle_up(node, now),
            Input::Cut(node, unanswered) => {
                act.down = Some(node);
                for request in unanswered {
                    self.handle_reply(node, &request, None, now);
                    self.drive(&mut act);
                }
                self.machine.handle_down(node, false, now);
            }
            Input::Receive(node, Message::Reply(request, reply)) => {
                self.handle_reply(node, &request, Some(&reply), now);
            }
            Input::Receive(node, Message::Push(push)) => self.machine.handle_push(node, push, now),
            Input::Tick => {}
        }
        self.drive(&mut act);
        if let (Some(before), Some(after)) = (ended_at, self.valid_until()) {
            self.notes.has_grown |= before < after;
        }
        act.out
    }

    /// False if the time at which this message is read has no effect.
    pub(super) fn heeds(&self, node: usize, message: &Message, is_still: bool) -> bool {
        let (request, reply) = match message {
            Message::Push(push) => return self.heeds_push(push),
            Message::Reply(request, reply) => (request, reply),
        };
        let Some(transmit) = &request.transmit else { return true };
        if *reply == Reply::Stale {
            return true;
        }
        let is_idle = match (request.action(), reply) {
            (Some(acquire::NodeAction::Reject(_)), Reply::Released { is_ours: false }) => true,
            // It contains only the time at which it was sent.
            (Some(acquire::NodeAction::Yield(_)), _) => is_still,
            _ => false,
        };
        !is_idle && self.machine.awaits(node, &transmit.about)
    }

    pub(super) fn heeds_push(&self, push: &Push) -> bool {
        self.machine.heeds(push)
    }

    pub(super) fn holds(&self, now: Moment) -> bool {
        self.lease().is_some_and(|held| held.lease().check(now).is_ok())
    }

    pub(super) const fn is_holding(&self) -> bool {
        matches!(self.doing, Doing::Holding(_) | Doing::Downgrading(..))
    }

    pub(super) const fn is_acquire(&self) -> bool {
        matches!(self.doing, Doing::Asking(_))
    }

    pub(super) const fn is_dead(&self) -> bool {
        matches!(self.doing, Doing::Dead)
    }

    /// It will never ask for the lock again.
    pub(super) const fn is_done(&self) -> bool {
        matches!(self.doing, Doing::Nothing) && self.attempts_left == 0
    }

    /// It has no open call.
    pub(super) fn is_idle(&self) -> bool {
        self.doing == Doing::Nothing && self.machine.is_idle()
    }

    pub(super) fn is_revived(&self, now: Moment) -> bool {
        self.holds(now) && self.notes.has_ended
    }

    pub(super) fn can_renew(&self, now: Moment) -> bool {
        let can_grow = self.lease().is_some_and(|held| held.lease().can_grow());
        self.renewals_left > 0 && self.holds(now) && can_grow
    }

    pub(super) fn can_downgrade(&self, now: Moment) -> bool {
        self.holds(now) && !self.notes.is_reader
    }

    /// The lock is won, and the caller does not know yet.
    pub(super) fn has_won(&self) -> bool {
        let Doing::Asking(call) = self.doing else { return false };
        let ended = self.machine.call(call).and_then(|call| call.ended());
        matches!(ended, Some(Ended::Acquire(acquire::Outcome::Held { .. })))
    }

    /// The owner under which it asks or holds.
    pub(super) fn owner(&self) -> Option<&Owner> {
        match self.doing {
            Doing::Asking(call) => Some(self.machine.call(call)?.waiter()?.owner()),
            Doing::Holding(_) | Doing::Downgrading(..) => Some(self.lease()?.owner()),
            Doing::Nothing | Doing::Dead => None,
        }
    }

    /// The reader's owner while it becomes a reader.
    fn next_owner(&self) -> Option<&Owner> {
        let Doing::Downgrading(_, call) = self.doing else { return None };
        Some(self.machine.call(call)?.waiter()?.owner())
    }

    /// True if it asks or holds under this owner.
    pub(super) fn uses(&self, owner: &Owner) -> bool {
        self.owner() == Some(owner) || self.next_owner() == Some(owner)
    }

    /// The machine of its acquire call.
    pub(super) fn waiter(&self) -> Option<&Acquire> {
        let Doing::Asking(call) = self.doing else { return None };
        Some(self.machine.call(call)?.waiter()?.machine())
    }

    pub(super) fn fence(&self) -> Option<Fence> {
        self.lease()?.fenced().map(FencedLease::fence)
    }

    pub(super) fn owes(&self, node: usize, now: Moment) -> bool {
        self.machine.owes(node, now)
    }

    /// When its timer fires. Where time stands still, only the timers of acquire calls fire.
    pub(super) fn due(&self, is_still: bool) -> Option<Moment> {
        match (is_still, self.doing) {
            (false, _) => self.machine.poll_timeout(),
            (true, Doing::Asking(call) | Doing::Downgrading(_, call)) => {
                self.machine.call(call)?.due()
            }
            (true, _) => None,
        }
    }

    fn lease(&self) -> Option<&HeldLease> {
        match self.doing {
            Doing::Holding(lease) | Doing::Downgrading(lease, _) => self.machine.lease(lease),
            Doing::Nothing | Doing::Asking(_) | Doing::Dead => None,
        }
    }

    fn valid_until(&self) -> Option<Moment> {
        self.lease().map(|held| held.lease().valid_until())
    }

    fn start(&mut self, rules: &Rules, ticket: u8, floor: Fence, now: Moment) {
        let Rules { terms, is_classic, .. } = *rules;
        self.attempts_left -= 1;
        self.attempt += 1;
        (self.ticket, self.timeouts_left, self.floor) = (ticket, rules.timeouts, floor);
        self.notes.was_beaten = false;
        let names = &mut self.machine.naming().source;
        (names.ticket, names.number) =
            (ticket.into(), u64::from(self.attempt * OWNERS_PER_ATTEMPT));
        let name = rules.name.clone();
        let kind = rules.kind.clone();
        // In classic mode each attempt is one try: a client that waits tries again.
        let (wait, dialect) = match is_classic {
            true => (Wait::Never, Dialect::Classic),
            false => (Wait::Patiently(Duration::MAX), Dialect::Queue),
        };
        let kind = kind.boxed();
        let want = Want { name, terms, kind, wait, dialect, adopts: None };
        self.doing = Doing::Asking(self.machine.acquire(want, now));
    }

    fn handle_timeout(&mut self, rules: &Rules, now: Moment) {
        if rules.timeouts != ANY_NUMBER {
            self.timeouts_left = self.timeouts_left.saturating_sub(1);
        }
        // Where time stands still, a timer may fire at any moment.
        let now = if rules.is_still { self.due(true).map_or(now, |due| due.max(now)) } else { now };
        let wall = Duration::from_nanos(now.as_nanos());
        self.machine.handle_timeout(wall, &|_| Duration::ZERO, now);
    }

    fn die(&mut self, rules: &Rules, now: Moment) {
        let died_as_holder = self.holds(now);
        let notes =
            Notes { died_as_holder, is_dated_late: self.notes.is_dated_late, ..Notes::default() };
        *self = Self { doing: Doing::Dead, notes, ..Self::new(rules, 0, now) };
    }

    fn handle_reply(&mut self, node: usize, request: &Request, reply: Option<&Reply>, now: Moment) {
        if let Some(transmit) = &request.transmit {
            self.machine.handle_answer(node, (&transmit.about, &transmit.command), reply, now);
        }
    }

    fn downgrade(&mut self, now: Moment) {
        let Doing::Holding(lease) = self.doing else { return };
        if let Some(call) = self.machine.downgrade(lease, &|_| Duration::ZERO, now) {
            self.doing = Doing::Downgrading(lease, call);
            self.notes.is_reader = true;
        }
    }

    /// The nodes have answered: the lease goes on as the reader's, or is released.
    fn finish_downgrade(&mut self, lease: LeaseId, call: CallId, now: Moment) {
        self.machine.take_outcome(call);
        let kept = self.machine.keep_reader(call, lease, &|_| Duration::ZERO, now);
        match kept {
            Ok(reader) => self.doing = Doing::Holding(reader),
            Err(_) => {
                self.release(now);
                self.finish_attempt();
            }
        }
        self.machine.close_call(call);
    }

    /// Releases the lease that it holds, if it holds one.
    fn release(&mut self, now: Moment) {
        if let Doing::Holding(lease) | Doing::Downgrading(lease, _) = self.doing {
            let call = self.machine.release(lease, &|_| Duration::ZERO, now);
            call.into_iter().for_each(|call| self.machine.close_call(call));
        }
    }

    fn finish_attempt(&mut self) {
        self.doing = Doing::Nothing;
        self.notes.is_reader = false;
        self.floor = Fence::ZERO;
        self.renewals_left = 0;
        (self.notes.has_ended, self.notes.has_grown) = (false, false);
        if self.timeouts_left != ANY_NUMBER {
            self.timeouts_left = 0;
        }
        if self.attempts_left == 0 {
            (self.attempt, self.ticket) = (0, 0);
        }
    }
}

fn machine(rules: &Rules) -> client::Client<Names> {
    let Rules { number, nodes, terms, is_classic, .. } = *rules;
    let client = node::client_id(number);
    let config = Config { client, nodes, has_sessions: !is_classic, max_ttl: terms.ttl() };
    client::Client::new(config, Names { client: number, ..Names::default() }, Jitter::new(1))
}

/// More owners than any attempt of this model has. The owners of two attempts fit into one digit.
pub(super) const OWNERS_PER_ATTEMPT: u8 = 3;
