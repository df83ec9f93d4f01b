//! One attempt to win a lock in line, at work: its requests, its timer, and whoever waits for it.

mod report;
mod traces;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::Ordering},
    task::{Poll, Waker},
    time::Duration,
};

use quorate_core::{
    client::{
        Debt,
        owners::OwnerKind,
        waiter::{Output, Waiter, Want},
    },
    command::{Command, Owner, Reply},
    contend::{Mode, Outcome, Said, Saying},
    line::{Push, Standing},
    moment::Moment,
    name::Name,
    quorum::NodeSet,
    terms::Terms,
};

use super::{
    Engine,
    report::Heard,
    timers::{FOREVER, Timed},
};
use crate::{
    error::Trouble,
    node::{Inbox, Request, Sent},
    observe::{Action, Event},
};

/// One attempt. It lives until every node has answered or was given up, whatever becomes of the
/// caller.
pub(crate) struct Contender {
    engine: Arc<Engine>,
    name: Name,
    terms: Terms,
    /// Its name and beginning, for the observer.
    round: u64,
    started_at: Moment,
    state: Mutex<State>,
}

struct State {
    waiter: Waiter,
    /// By node, why the last question got no answer, and when it was asked.
    heard: Box<[Option<Heard>]>,
    asked_at: Box<[Moment]>,
    waker: Option<Waker>,
    /// Set while the caller wants to hear of every answer, not only of the end.
    is_nosy: bool,
    /// The timers that are set, the next one last: each is earlier than those before it.
    planned: Vec<Moment>,
    waiting_since: Option<Moment>,
    /// When it ended; that is told once.
    ended_at: Option<Moment>,
    /// It has asked together with others, and may be about to.
    is_gathered: bool,
    /// The caller's time was over before there was an outcome.
    is_late: bool,
    /// The caller has the outcome; from now on it is the caller's business.
    is_delivered: bool,
}

/// What a request was about.
#[derive(Clone, Debug)]
pub(super) struct Spoken {
    pub(super) contender: Arc<Contender>,
    said: Said,
    sent_at: Moment,
}

/// What the attempt came to.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) owner: Owner,
    /// Nodes to which this owner was never sent.
    pub(crate) untaken: NodeSet,
}

impl Contender {
    /// Asks the nodes, and returns without waiting for anything.
    pub(crate) fn start(
        engine: &Arc<Engine>,
        name: Name,
        terms: Terms,
        kind: OwnerKind,
        mode: Mode,
    ) -> Arc<Self> {
        let now = engine.now();
        let (mut started, mut is_short) = (None, false);
        let is_behind = engine.line.enter(&name.clone(), |up| {
            let nodes = engine.nodes.len();
            // News of nodes that came up may be on their way.
            is_short = up.len() < quorate_core::quorum::majority(nodes);
            let up = if is_short { engine.reachable() } else { up };
            let max_ttl = engine.line.max_ttl();
            let want = Want { name: name.clone(), terms, kind, mode, max_ttl };
            let waiter = Waiter::start(want, nodes, up, &mut &**engine, now);
            let owner = waiter.owner().clone();
            let state = State {
                waiter,
                heard: vec![None; nodes].into(),
                asked_at: vec![now; nodes].into(),
                waker: None,
                is_nosy: false,
                planned: Vec::new(),
                waiting_since: None,
                ended_at: None,
                is_gathered: false,
                is_late: false,
                is_delivered: false,
            };
            let contender = Arc::new(Self {
                engine: engine.clone(),
                name,
                terms,
                round: engine.next_round(),
                started_at: now,
                state: Mutex::new(state),
            });
            (owner, Arc::downgrade(started.insert(contender)))
        });
        let contender = started.expect("entered");
        let (round, name) = (contender.round, contender.name.as_str());
        engine.tell(&Event::Started { round, action: Action::Acquire, name });
        let mut state = contender.lock();
        if is_short {
            contender.give_up_if_denied(&mut state);
        }
        // Its turn comes after theirs: what they say goes first.
        let sending = match mode {
            Mode::Wait(_) if is_behind => Sending::Behind,
            Mode::Wait(_) | Mode::Try => Sending::AtOnce,
        };
        contender.drive(state, sending, now);
        contender
    }

    /// Waits for the outcome; at `deadline` the wait is over with none.
    ///
    /// Dropping the future says that nobody wants the lock any more: the place in line and whatever
    /// was granted is given back, even if the outcome was there already.
    pub(crate) fn outcome(
        self: Arc<Self>,
        deadline: Option<Moment>,
    ) -> impl Future<Output = Option<Ended>> + Send {
        // Armed here and not inside, so that even a future that is never polled undoes.
        let caller = Caller(Some(self.clone()));
        async move {
            let ended = super::wait::until(&self, deadline).await;
            match ended {
                Some(_) => caller.disarm(),
                None => self.lock().is_late = true,
            }
            ended
        }
    }

    /// What it came to, as soon as that is certain.
    pub(super) fn poll_ended(&self, waker: &Waker) -> Poll<Ended> {
        let mut state = self.lock();
        let Some(outcome) = state.waiter.machine().outcome() else {
            match &state.waker {
                Some(known) if known.will_wake(waker) => {}
                _ => state.waker = Some(waker.clone()),
            }
            return Poll::Pending;
        };
        state.is_delivered = true;
        let (owner, untaken) = (state.waiter.owner().clone(), state.waiter.untaken());
        Poll::Ready(Ended { outcome, owner, untaken })
    }

    /// True while a node has not answered the last question. The caller hears of every answer from
    /// now on.
    pub(super) fn is_asking(&self) -> bool {
        let mut state = self.lock();
        state.is_nosy = true;
        state.waiter.machine().is_asking()
    }

    /// When its caller came, and which of several that came at the same time it is.
    pub(super) const fn arrival(&self) -> (Moment, u64) {
        (self.started_at, self.round)
    }

    pub(super) const fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Until when the first answers are waited for by one who has no time left: as long as usual,
    /// however patient the client is with others.
    pub(super) fn first_answers_by(&self) -> Moment {
        self.started_at.saturating_add(self.patience_with_first_answers())
    }

    fn patience_with_first_answers(&self) -> Duration {
        let usual = self.engine.usual_vote_timeout(self.terms.ttl());
        self.terms.vote_timeout().min(usual)
    }

    /// True while too few nodes can be reached, or answer anything but errors.
    pub(crate) fn is_short(&self) -> bool {
        self.lock().is_short()
    }

    pub(super) fn handle_up(self: &Arc<Self>, node: usize, now: Moment) {
        let mut state = self.lock();
        state.waiter.handle_up(node, now);
        self.drive(state, Sending::Gathered, now);
    }

    pub(super) fn handle_down(self: &Arc<Self>, node: usize, is_forgotten: bool, now: Moment) {
        let mut state = self.lock();
        state.waiter.handle_down(node, is_forgotten);
        self.give_up_if_denied(&mut state);
        self.drive(state, Sending::AtOnce, now);
    }

    pub(super) fn handle_push(self: &Arc<Self>, node: usize, push: &Push, now: Moment) {
        let mut state = self.lock();
        state.waiter.handle_push(node, push, now);
        self.drive(state, Sending::AtOnce, now);
    }

    /// The engine ends.
    pub(super) fn handle_end(self: &Arc<Self>, now: Moment) {
        self.drive(self.lock(), Sending::AtOnce, now);
    }

    /// The answer to something that was said.
    pub(super) fn handle_said(
        self: &Arc<Self>,
        node: usize,
        spoken: &Spoken,
        answer: Result<Reply, Trouble>,
        now: Moment,
    ) {
        let connection = || self.engine.nodes[node].connection();
        let answer = answer.map_err(|trouble| Heard::new(trouble, connection()));
        let mut state = self.lock();
        self.tell_heard(&mut state, node, (spoken.said, spoken.sent_at), &answer, now);
        let reply = answer.as_ref().ok();
        let debt = state.waiter.handle_answer(node, spoken.said, spoken.sent_at, reply, now);
        self.settle(&mut state, node, debt, answer.is_err());
        self.drive(state, Sending::AtOnce, now);
    }

    /// Does what the machine says until it waits. The lock is held while requests are queued, so
    /// that they leave in the order in which the machine asked for them.
    fn drive(self: &Arc<Self>, mut state: MutexGuard<'_, State>, sending: Sending, now: Moment) {
        if self.engine.is_closed.load(Ordering::SeqCst) && !state.is_delivered {
            state.waiter.handle_abandon();
        }
        let line = &self.engine.line;
        let mut queued = NodeSet::EMPTY;
        let wait_until = loop {
            match state.waiter.poll_output(&mut &*self.engine) {
                Output::Wait(owner) => line.enter_again(&owner, &self.name, Arc::downgrade(self)),
                Output::Hold(owner) => {
                    line.hold(&owner);
                    if state.is_gathered {
                        // From now on the holder may release it at any time.
                        (0..self.nodes()).for_each(|node| line.heartbeats.remove(node, &owner));
                    }
                }
                Output::Forget(owner) => line.forget(&owner),
                Output::Send { node, said, command } => {
                    if self.send(&mut state, node, (said, command), sending, now) {
                        queued.insert(node);
                    }
                }
                Output::Until(until) => break Some(until),
                Output::Idle => break None,
            }
        };
        let outcome = state.waiter.machine().outcome();
        let is_news = outcome.is_some() && state.ended_at.is_none();
        if is_news {
            state.ended_at = Some(now);
        }
        // A timer that is set comes, needed or not: another is set only if it is to come earlier.
        let next = state.planned.last().copied();
        let plan = wait_until.filter(|until| next.is_none_or(|next| *until < next));
        state.planned.extend(plan);
        let is_heard = outcome.is_some() || state.is_nosy;
        let waker = if is_heard { state.waker.take() } else { None };
        let waiting_since = state.waiting_since.filter(|_| is_news);
        let told = outcome.filter(|_| is_news).map(|outcome| state.told(outcome));
        drop(state);

        if let Some(waker) = waker {
            waker.wake();
        }
        queued.iter().for_each(|node| match sending {
            Sending::Behind => self.engine.nodes[node].flush_behind(),
            Sending::AtOnce | Sending::Gathered => self.engine.nodes[node].flush(),
        });
        if let Some(told) = told {
            self.tell_end(told, waiting_since, now);
        }
        if let Some(until) = plan {
            let weak: Weak<Self> = Arc::downgrade(self);
            if self.engine.timers.add(until, weak).is_err() {
                self.clone().handle_timeout(FOREVER);
            }
        }
    }

    /// Sends one command to one node. Returns true if that is queued and has to be flushed.
    fn send(
        self: &Arc<Self>,
        state: &mut State,
        node: usize,
        (said, command): (Said, Command),
        sending: Sending,
        now: Moment,
    ) -> bool {
        let engine = &self.engine;
        let spoken = Spoken { contender: self.clone(), said, sent_at: now };
        match &command {
            Command::Acquire { ask, .. } => {
                state.asked_at[node] = now;
                if ask.is_waiting && sending == Sending::Gathered {
                    state.is_gathered = true;
                    let (name, owner) = (ask.name.clone(), ask.owner.clone());
                    engine.line.heartbeats.add(node, Standing { name, owner }, spoken);
                    return false;
                }
            }
            Command::Release { owner, yields: None, .. } => {
                engine.line.heartbeats.remove(node, owner);
            }
            _ => {}
        }
        let connection = engine.nodes[node].connection();
        let request = Request { command, node, inbox: Arc::new(spoken) };
        let Sent::Answered(answer) = engine.nodes[node].send(request, now) else { return true };
        let answer = answer.map_err(|trouble| Heard::new(trouble, connection));
        self.tell_heard(state, node, (said, now), &answer, now);
        let debt = match &answer {
            Ok(reply) => state.waiter.handle_answer(node, said, now, Some(reply), now),
            Err(_) => state.waiter.handle_unsent(node, said, now),
        };
        self.settle(state, node, debt, answer.is_err());
        false
    }

    /// Notes what a node has answered, for reports.
    fn tell_heard(
        self: &Arc<Self>,
        state: &mut State,
        node: usize,
        (said, sent_at): (Said, Moment),
        answer: &Result<Reply, Heard>,
        now: Moment,
    ) {
        if matches!(said.what, Saying::Ask { .. }) {
            self.tell_answer(state, node, answer, (sent_at, now));
            if state.waiter.machine().outcome().is_none() {
                state.heard[node] = answer.as_ref().err().cloned();
            }
        }
    }

    /// What follows from an answer.
    fn settle(&self, state: &mut State, node: usize, debt: Option<Debt>, is_failed: bool) {
        if let Some(Debt { release, until }) = debt {
            self.engine.nodes[node].owe(release, until);
        }
        if is_failed {
            self.give_up_if_denied(state);
        }
    }

    fn nodes(&self) -> usize {
        self.engine.nodes.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How questions leave: each by itself, behind what is under way, or with those of others who wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sending {
    AtOnce,
    Behind,
    Gathered,
}

impl Inbox for Spoken {
    fn handle_answer(
        self: Arc<Self>,
        node: usize,
        _command: Command,
        answer: Result<Reply, Trouble>,
        now: Moment,
    ) {
        self.contender.handle_said(node, &self, answer, now);
    }
}

impl Timed for Contender {
    fn handle_timeout(self: Arc<Self>, now: Moment) {
        let mut state = self.lock();
        while state.planned.pop_if(|planned| *planned <= now).is_some() {}
        state.waiter.handle_timeout(now);
        // The engine's end is told as the end of time; what is sent is sent now.
        self.drive(state, Sending::Gathered, self.engine.now());
    }
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the engine: its links have contenders, which have the engine.
        f.debug_struct("Contender").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Whoever waits for an attempt. Going away without the outcome abandons it.
struct Caller(Option<Arc<Contender>>);

impl Caller {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if let Some(contender) = self.0.take() {
            let now = contender.engine.now();
            let mut state = contender.lock();
            state.waker = None;
            state.waiter.handle_abandon();
            contender.drive(state, Sending::AtOnce, now);
        }
    }
}
