//! One attempt to win a lock in line, at work: its requests, its timer, and whoever waits for it.

mod report;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::Ordering},
    task::{Poll, Waker},
};

use quorate_core::{
    command::{Command, Owner, Reply},
    contend::{Contend, Mode, Outcome, Output, Said, Saying},
    line::{Ask, Extend, Place, Push, Standing, Yield},
    moment::Moment,
    name::Name,
    quorum::NodeSet,
    terms::Terms,
};

use super::{
    Engine,
    timers::{FOREVER, Timed},
};
use crate::{
    error::Trouble,
    node::{Inbox, Node, Request, Sent},
    observe::{Action, Event},
};

/// One attempt. It lives until every node has answered or was given up, whatever becomes of the
/// caller.
pub(crate) struct Contender {
    engine: Arc<Engine>,
    name: Name,
    terms: Terms,
    place: Place,
    is_shared: bool,
    /// Its name and beginning, for the observer.
    round: u64,
    started_at: Moment,
    state: Mutex<State>,
}

struct State {
    machine: Contend,
    /// The last one is that of today.
    lives: Vec<Life>,
    /// By node, why the last question got no answer.
    troubles: Box<[Option<Trouble>]>,
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

/// One owner under which the lock was asked for.
struct Life {
    owner: Owner,
    /// Where it may be known. Elsewhere it could not be sent, and has nothing to give back.
    sent: NodeSet,
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
        is_shared: bool,
        mode: Mode,
    ) -> Arc<Self> {
        let now = engine.now();
        let ticket = engine.line.tickets.next(now);
        let place = Place { ticket, ttl_ms: terms.ttl_ms(), client: engine.client };
        let owner = engine.owner_at(&place, is_shared);
        let mut started = None;
        let is_behind = engine.line.enter(&owner, &name.clone(), |up| {
            let nodes = engine.nodes.len();
            // News of nodes that came up may be on their way.
            let is_short = up.len() < quorate_core::quorum::majority(nodes);
            let up = if is_short { engine.reachable() } else { up };
            let trouble = |node: &dyn Node| if is_short { node.trouble() } else { None };
            let troubles = engine.nodes.iter().map(|node| trouble(&**node));
            let machine = Contend::start(terms, nodes, up, mode, now);
            let state = State {
                machine: if is_shared { machine.shared() } else { machine },
                lives: vec![Life { owner: owner.clone(), sent: NodeSet::EMPTY }],
                troubles: troubles.collect(),
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
                place,
                is_shared,
                round: engine.next_round(),
                started_at: now,
                state: Mutex::new(state),
            });
            Arc::downgrade(started.insert(contender))
        });
        let contender = started.expect("entered");
        let (round, name) = (contender.round, contender.name.as_str());
        engine.tell(&Event::Started { round, action: Action::Acquire, name });
        let mut state = contender.lock();
        contender.give_up_if_denied(&mut state);
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
        let Some(outcome) = state.machine.outcome() else {
            match &state.waker {
                Some(known) if known.will_wake(waker) => {}
                _ => state.waker = Some(waker.clone()),
            }
            return Poll::Pending;
        };
        state.is_delivered = true;
        let Life { owner, sent } = state.lives.last().expect("there is one from the beginning");
        let untaken = NodeSet::all(self.nodes()).without(*sent);
        Poll::Ready(Ended { outcome, owner: owner.clone(), untaken })
    }

    /// True while a node has not answered the last question. The caller hears of every answer from
    /// now on.
    pub(super) fn is_asking(&self) -> bool {
        let mut state = self.lock();
        state.is_nosy = true;
        state.machine.is_asking()
    }

    pub(super) const fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Until when the first answers are waited for by one who has no time left: as long as usual,
    /// however patient the client is with others.
    pub(super) fn first_answers_by(&self) -> Moment {
        let usual = self.engine.usual_vote_timeout(self.terms.ttl());
        self.started_at.saturating_add(self.terms.vote_timeout().min(usual))
    }

    /// True while too few nodes can be reached, or answer anything but errors.
    pub(crate) fn is_short(&self) -> bool {
        self.lock().is_short()
    }

    pub(super) fn handle_up(self: &Arc<Self>, node: usize, now: Moment) {
        let mut state = self.lock();
        state.machine.handle_up(node, now);
        self.drive(state, Sending::Gathered, now);
    }

    pub(super) fn handle_down(self: &Arc<Self>, node: usize, is_forgotten: bool, now: Moment) {
        let mut state = self.lock();
        match is_forgotten {
            true => state.machine.handle_forgotten(node),
            false => state.machine.handle_down(node),
        }
        if state.machine.outcome().is_none() {
            state.troubles[node] = self.engine.nodes[node].trouble();
            self.give_up_if_denied(&mut state);
        }
        self.drive(state, Sending::AtOnce, now);
    }

    pub(super) fn handle_push(self: &Arc<Self>, node: usize, push: &Push, now: Moment) {
        let mut state = self.lock();
        let Some(life) = state.lives.iter().position(|it| it.owner == push.owner) else { return };
        let life = u32::try_from(life).unwrap_or(u32::MAX);
        state.machine.handle_push(node, life, push.news, push.fence, now);
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
        let mut state = self.lock();
        self.take_in(&mut state, node, (spoken.said, spoken.sent_at), answer, now);
        self.drive(state, Sending::AtOnce, now);
    }

    /// Does what the machine says until it waits. The lock is held while requests are queued, so
    /// that they leave in the order in which the machine asked for them.
    fn drive(self: &Arc<Self>, mut state: MutexGuard<'_, State>, sending: Sending, now: Moment) {
        if self.engine.is_closed.load(Ordering::SeqCst)
            && !state.is_delivered
            && state.machine.outcome() != Some(Outcome::Abandoned)
        {
            state.machine.handle_abandon();
        }
        let mut queued = NodeSet::EMPTY;
        let wait_until = loop {
            match state.machine.poll_output() {
                Output::Say { node, said } => {
                    if self.say(&mut state, node, said, sending, now) {
                        queued.insert(node);
                    }
                }
                Output::Wait { until } => break Some(until),
                Output::Idle => break None,
            }
        };
        let outcome = state.machine.outcome();
        let is_news = outcome.is_some() && state.ended_at.is_none();
        if let Some(outcome) = outcome.filter(|_| is_news) {
            state.ended_at = Some(now);
            self.note_end(&state, outcome);
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

    /// Says one thing to one node. Returns true if that is queued and has to be flushed.
    fn say(
        self: &Arc<Self>,
        state: &mut State,
        node: usize,
        said: Said,
        sending: Sending,
        now: Moment,
    ) -> bool {
        let engine = &self.engine;
        // The next life begins before the last one is forgotten: in between nobody would tell us of
        // nodes that come up.
        while state.lives.len() <= state.machine.life().max(said.life) as usize {
            let owner = engine.owner_at(&self.place, self.is_shared);
            engine.line.enter_again(&owner, &self.name, Arc::downgrade(self));
            state.lives.push(Life { owner, sent: NodeSet::EMPTY });
        }
        let life = &mut state.lives[said.life as usize];
        let owner = life.owner.clone();
        let spoken = Spoken { contender: self.clone(), said, sent_at: now };
        match said.what {
            Saying::Ask { is_waiting: true, .. } if sending == Sending::Gathered => {
                life.sent.insert(node);
                state.is_gathered = true;
                let standing = Standing { name: self.name.clone(), owner };
                engine.line.heartbeats.add(node, standing, spoken);
                return false;
            }
            Saying::Leave => {
                engine.line.forget(&owner);
                engine.line.heartbeats.remove(node, &owner);
                if !life.sent.contains(node) {
                    return false;
                }
            }
            Saying::Ask { .. } | Saying::Yield(_) | Saying::Doubt(_) | Saying::Confirm(_) => {}
        }
        let command = self.command(owner, said.what);
        let request = Request { command, node, inbox: Arc::new(spoken) };
        match engine.nodes[node].send(request, now) {
            Sent::Queued => {
                state.lives[said.life as usize].sent.insert(node);
                true
            }
            Sent::Answered(answer) => {
                if answer.is_ok() {
                    state.lives[said.life as usize].sent.insert(node);
                }
                self.take_in(state, node, (said, now), answer, now);
                false
            }
        }
    }

    fn take_in(
        self: &Arc<Self>,
        state: &mut State,
        node: usize,
        (said, sent_at): (Said, Moment),
        answer: Result<Reply, Trouble>,
        now: Moment,
    ) {
        if answer.is_err() && said.what == Saying::Leave {
            let owner = state.lives[said.life as usize].owner.clone();
            let until = self.engine.line.owed_until(now);
            self.engine.nodes[node].owe(self.command(owner, said.what), until);
        }
        if matches!(said.what, Saying::Ask { .. }) {
            self.tell_answer(state, node, &answer, (sent_at, now));
            if state.machine.outcome().is_none() {
                state.troubles[node] = answer.as_ref().err().cloned();
            }
        }
        state.machine.handle_reply(node, said, sent_at, answer.as_ref().ok(), now);
        self.give_up_if_denied(state);
    }

    /// Waiting does not help if so many nodes deny us that no majority is left.
    fn give_up_if_denied(&self, state: &mut State) {
        let denied = |trouble: &&Option<Trouble>| trouble.as_ref().is_some_and(Trouble::is_denial);
        let denials = state.troubles.iter().filter(denied).count();
        let is_denied = self.nodes() - denials < quorate_core::quorum::majority(self.nodes());
        if is_denied && state.machine.outcome().is_none() {
            state.machine.handle_abandon();
        }
    }

    fn command(&self, owner: Owner, what: Saying) -> Command {
        let (name, speaker) = (self.name.clone(), self.engine.speaker());
        match what {
            Saying::Ask { is_waiting, is_known } => {
                Command::Acquire { speaker, ask: Ask { name, owner, is_waiting, is_known } }
            }
            Saying::Yield(fence) | Saying::Doubt(fence) => {
                Command::Release { name, owner, yields: Some(Yield { fence, speaker }) }
            }
            Saying::Leave => Command::Release { name, owner, yields: None },
            Saying::Confirm(fence) => {
                let ttl_ms = self.terms.ttl_ms();
                let entry = Extend { name, owner, fence, ttl_ms, may_heal: false };
                Command::Extend { speaker, entries: Arc::new([entry]) }
            }
        }
    }

    fn note_end(&self, state: &State, outcome: Outcome) {
        let owner = &state.lives.last().expect("there is one from the beginning").owner;
        match outcome {
            Outcome::Held { .. } => {
                self.engine.line.hold(owner);
                if state.is_gathered {
                    // From now on the holder may release it at any time.
                    let heartbeats = &self.engine.line.heartbeats;
                    (0..self.nodes()).for_each(|node| heartbeats.remove(node, owner));
                }
            }
            Outcome::Contended | Outcome::NoQuorum | Outcome::Abandoned => {
                self.engine.line.forget(owner);
            }
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
        state.machine.handle_timeout(now);
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
            state.machine.handle_abandon();
            contender.drive(state, Sending::AtOnce, now);
        }
    }
}
