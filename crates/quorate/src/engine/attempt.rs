//! One machine of the core at work: its requests, its timer, and the caller who waits for it.

use std::{
    fmt,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::Ordering},
    task::{Poll, Waker},
};

use quorate_core::{
    acquire::{self, Acquire},
    command::{Command, Owner, Prolongation, Reply},
    fence::Fence,
    line::Extend,
    moment::Moment,
    name::Name,
    quorum::{NodeSet, Tally, Vote},
    release::{self, Release},
    renew::{self, Renew},
    round::{Output, Verb},
    terms::Terms,
    verify::{self, Verify},
};

use super::{
    Engine,
    timers::{FOREVER, Timed},
};
use crate::{
    error::{NodeAnswer, NodeReport, Trouble},
    node::{Inbox, Request, Sent},
    observe::{Action, Event, Outcome},
};

/// One round of asking all nodes. It lives until every node has answered or was given up, whatever
/// becomes of the caller.
pub(crate) struct Attempt {
    engine: Arc<Engine>,
    claim: Claim,
    /// Its name and beginning, for the observer.
    round: u64,
    started_at: Moment,
    state: Mutex<State>,
}

/// What a round is about.
pub(crate) struct Claim {
    pub(crate) name: Name,
    pub(crate) owner: Owner,
    pub(crate) terms: Terms,
    /// The owner whose place is to be taken, if the lock was left to us.
    pub(crate) from: Option<Owner>,
    /// Nodes to which the owner was never sent: they have nothing to give back.
    pub(crate) untaken: NodeSet,
    /// Absent in classic mode.
    pub(crate) fenced: Option<Fenced>,
}

/// What a lease has besides in the default mode.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Fenced {
    pub(crate) fence: Fence,
    /// A node that has lost the key may take it again. Not for a lease that was adopted.
    pub(crate) may_heal: bool,
}

impl Fenced {
    /// One lease that is to live on.
    pub(crate) const fn extend(self, name: Name, owner: Owner, ttl_ms: u64) -> Extend {
        let Self { fence, may_heal } = self;
        Extend { name, owner, fence, ttl_ms, may_heal }
    }
}

impl Attempt {
    /// Sends the first requests and returns without waiting for anything.
    pub(crate) fn start(
        engine: &Arc<Engine>,
        claim: Claim,
        now: Moment,
        machine: Machine,
    ) -> Arc<Self> {
        let action = machine.action();
        let state = State {
            machine,
            troubles: Vec::new(),
            untaken: claim.untaken,
            waker: None,
            has_timer: false,
            is_end_told: false,
            is_delivered: false,
        };
        let attempt = Arc::new(Self {
            engine: engine.clone(),
            claim,
            round: engine.next_round(),
            started_at: now,
            state: Mutex::new(state),
        });
        let (round, name) = (attempt.round, attempt.claim.name.as_str());
        engine.tell(&Event::Started { round, action, name });
        attempt.drive(attempt.lock(), now);
        attempt
    }

    /// Waits for the outcome.
    ///
    /// Dropping the future says that nobody wants the lock any more: what was taken is given back,
    /// even if the outcome was there already.
    pub(crate) fn outcome(self: Arc<Self>) -> impl Future<Output = Ended> + Send {
        // Armed here and not inside, so that even a future that is never polled undoes.
        let caller = Caller(Some(self));
        async move {
            let ended = poll_fn(|cx| caller.poll_ended(cx.waker())).await;
            caller.disarm();
            ended
        }
    }

    /// Waits until every node has answered or was given up, once there is an outcome.
    pub(crate) async fn settled(&self) {
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.machine.tally().pending().is_empty() {
                return Poll::Ready(());
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// True if some node plainly refused.
    pub(crate) fn is_refused_somewhere(&self) -> bool {
        !self.lock().machine.tally().refused().is_empty()
    }

    /// Nodes to which the owner was never sent.
    pub(crate) fn untaken(&self) -> NodeSet {
        self.lock().untaken
    }

    /// What each node said so far.
    pub(crate) fn reports(&self) -> Box<[NodeReport]> {
        let state = self.lock();
        let tally = state.machine.tally();
        let answer = |node: usize| {
            let trouble = state.troubles.iter().find(|(of, _)| *of == node);
            match trouble {
                _ if tally.granted().contains(node) => NodeAnswer::Granted,
                _ if tally.refused().contains(node) => NodeAnswer::Refused,
                Some((_, trouble)) => NodeAnswer::Trouble(trouble.clone()),
                None if tally.pending().contains(node) => NodeAnswer::NotAwaited,
                None => NodeAnswer::Trouble(Trouble::TimedOut),
            }
        };
        let nodes = self.engine.nodes.iter().enumerate();
        nodes.map(|(number, node)| NodeReport::new(node.label(), answer(number))).collect()
    }

    /// Does what the machine says until it waits. The lock is held while requests are queued, so
    /// that they leave in the order in which the machine asked for them.
    fn drive(self: &Arc<Self>, mut state: MutexGuard<'_, State>, now: Moment) {
        if self.engine.is_closed.load(Ordering::SeqCst) && !state.is_delivered {
            state.machine.handle_abandon();
        }
        let mut queued = NodeSet::EMPTY;
        let wait_until = loop {
            match state.machine.poll_output() {
                Output::Send { nodes, verb } => {
                    for node in nodes.iter() {
                        match self.send(node, verb, now) {
                            Sent::Queued => queued.insert(node),
                            Sent::Answered(answer) => {
                                let command = self.command(verb);
                                if answer.is_err() && verb == Verb::Take {
                                    state.untaken.insert(node);
                                }
                                self.take_in(&mut state, node, &command, answer, now);
                            }
                        }
                    }
                }
                Output::Wait { until } => break Some(until),
                Output::Idle => break None,
            }
        };
        let needs_timer = wait_until.filter(|_| !std::mem::replace(&mut state.has_timer, true));
        let ended = state.machine.ended();
        let waker = ended.and_then(|_| state.waker.take());
        let is_news = ended.is_some() && !std::mem::replace(&mut state.is_end_told, true);
        drop(state);

        if let Some(waker) = waker {
            waker.wake();
        }
        queued.iter().for_each(|node| self.engine.nodes[node].flush());
        if let Some(ended) = ended.filter(|_| is_news) {
            self.tell_end(ended, now);
        }
        if let Some(until) = needs_timer {
            let weak: Weak<Self> = Arc::downgrade(self);
            if self.engine.timers.add(until, weak).is_err() {
                self.clone().handle_timeout(FOREVER);
            }
        }
    }

    fn send(self: &Arc<Self>, node: usize, verb: Verb, now: Moment) -> Sent {
        let request = Request { command: self.command(verb), node, inbox: self.clone() };
        self.engine.nodes[node].send(request, now)
    }

    fn take_in(
        &self,
        state: &mut State,
        node: usize,
        command: &Command,
        answer: Result<Reply, Trouble>,
        now: Moment,
    ) {
        let vote = answer.as_ref().map_or(Vote::Unknown, |reply| command.vote(reply));
        let owed_until = match command {
            Command::Free { .. } => Some(self.claim.terms.forgotten_at(now)),
            Command::Release { .. } => Some(self.engine.line.owed_until(now)),
            _ => None,
        };
        if let Some(until) = owed_until.filter(|_| answer.is_err())
            && !state.untaken.contains(node)
        {
            self.engine.nodes[node].owe(command.clone(), until);
        }
        if self.engine.is_observed() && !state.machine.is_undo(command) {
            self.tell_answer(state.machine.action(), node, vote, answer.as_ref().err(), now);
        }
        if let Err(trouble) = answer {
            state.troubles.push((node, trouble));
        }
        state.machine.handle_vote(command, node, vote, now);
    }

    fn tell_answer(
        &self,
        action: Action,
        node: usize,
        vote: Vote,
        trouble: Option<&Trouble>,
        now: Moment,
    ) {
        let answer = NodeAnswer::of(vote, trouble);
        let (round, node) = (self.round, self.engine.nodes[node].label());
        let took = now.saturating_since(self.started_at);
        self.engine.tell(&Event::Answered { round, action, node, answer: &answer, took });
    }

    fn tell_end(&self, ended: Ended, now: Moment) {
        let (action, outcome) = ended.told();
        let (round, name) = (self.round, self.claim.name.as_str());
        let took = now.saturating_since(self.started_at);
        self.engine.tell(&Event::Ended { round, action, name, outcome, took });
    }

    fn command(&self, verb: Verb) -> Command {
        let Claim { name, owner, terms, from, fenced, .. } = &self.claim;
        let (name, owner, ttl_ms) = (name.clone(), owner.clone(), terms.ttl_ms());
        let speaker = self.engine.known_speaker();
        match (verb, from, fenced) {
            (Verb::Take, None, _) => Command::Take { name, owner, ttl_ms, speaker },
            (Verb::Take, Some(from), _) => {
                Command::Adopt { name, from: from.clone(), owner, ttl_ms, speaker }
            }
            (Verb::Free, _, None) => Command::Free { name, owner },
            (Verb::Free, _, Some(_)) => Command::Release { name, owner, yields: None },
            (Verb::Prolong, _, None) => {
                let entries = [Prolongation { name, owner, ttl_ms }].into();
                Command::Prolong { entries, speaker }
            }
            (Verb::Prolong, _, Some(fenced)) => {
                let entries = [fenced.extend(name, owner, ttl_ms)].into();
                Command::Extend { speaker: self.engine.speaker(), entries }
            }
            (Verb::Check, _, _) => Command::Check { name, owner },
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inbox for Attempt {
    fn handle_answer(
        self: Arc<Self>,
        node: usize,
        command: Command,
        answer: Result<Reply, Trouble>,
        now: Moment,
    ) {
        let mut state = self.lock();
        self.take_in(&mut state, node, &command, answer, now);
        self.drive(state, now);
    }
}

impl Timed for Attempt {
    fn handle_timeout(self: Arc<Self>, now: Moment) {
        let mut state = self.lock();
        state.machine.handle_timeout(now);
        // The engine's end is told as the end of time; what is sent is sent now.
        self.drive(state, self.engine.now());
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the engine: its links have attempts, which have the engine.
        f.debug_struct("Attempt").field("name", &self.claim.name).finish_non_exhaustive()
    }
}

struct State {
    machine: Machine,
    troubles: Vec<(usize, Trouble)>,
    /// Nodes that answered the `Take` before it was sent.
    untaken: NodeSet,
    waker: Option<Waker>,
    has_timer: bool,
    is_end_told: bool,
    /// The caller has the outcome; from now on it is the caller's business.
    is_delivered: bool,
}

/// Whoever waits for an attempt. Going away without the outcome abandons it.
struct Caller(Option<Arc<Attempt>>);

impl Caller {
    fn poll_ended(&self, waker: &Waker) -> Poll<Ended> {
        let attempt = self.0.as_ref().expect("armed until it is disarmed");
        let mut state = attempt.lock();
        let Some(ended) = state.machine.ended() else {
            match &state.waker {
                Some(known) if known.will_wake(waker) => {}
                _ => state.waker = Some(waker.clone()),
            }
            return Poll::Pending;
        };
        state.is_delivered = true;
        Poll::Ready(ended)
    }

    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if let Some(attempt) = self.0.take() {
            let now = attempt.engine.now();
            let mut state = attempt.lock();
            state.waker = None;
            state.machine.handle_abandon();
            attempt.drive(state, now);
        }
    }
}

/// One of the core's machines.
#[derive(Debug)]
pub(crate) enum Machine {
    Acquire(Acquire),
    Renew(Renew),
    Verify(Verify),
    Release(Release),
}

/// How one of them ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ended {
    Acquire(acquire::Outcome),
    Renew(renew::Outcome),
    Verify(verify::Outcome),
    Release(release::Outcome),
}

impl Ended {
    /// The same in the observer's words.
    const fn told(self) -> (Action, Outcome) {
        match self {
            Self::Acquire(acquire::Outcome::Held { .. }) => (Action::Acquire, Outcome::Done),
            Self::Acquire(acquire::Outcome::Contended) => (Action::Acquire, Outcome::Busy),
            Self::Acquire(acquire::Outcome::NoQuorum) => (Action::Acquire, Outcome::NoQuorum),
            Self::Acquire(acquire::Outcome::TooLate) => (Action::Acquire, Outcome::TooLate),
            Self::Acquire(acquire::Outcome::Abandoned) => (Action::Acquire, Outcome::Cancelled),
            Self::Renew(renew::Outcome::Extended { .. }) => (Action::Extend, Outcome::Done),
            Self::Renew(renew::Outcome::Gone) => (Action::Extend, Outcome::Gone),
            Self::Renew(renew::Outcome::TooLate) => (Action::Extend, Outcome::TooLate),
            Self::Renew(renew::Outcome::Unsure) => (Action::Extend, Outcome::NoQuorum),
            Self::Verify(verify::Outcome::Confirmed) => (Action::Verify, Outcome::Done),
            Self::Verify(verify::Outcome::Gone) => (Action::Verify, Outcome::Gone),
            Self::Verify(verify::Outcome::Unsure) => (Action::Verify, Outcome::NoQuorum),
            Self::Release(release::Outcome::Released) => (Action::Release, Outcome::Done),
            Self::Release(release::Outcome::WasGone) => (Action::Release, Outcome::Gone),
            Self::Release(release::Outcome::Unsure) => (Action::Release, Outcome::NoQuorum),
        }
    }
}

impl Machine {
    const fn action(&self) -> Action {
        match self {
            Self::Acquire(_) => Action::Acquire,
            Self::Renew(_) => Action::Extend,
            Self::Verify(_) => Action::Verify,
            Self::Release(_) => Action::Release,
        }
    }

    /// The answer to an undo says nothing about who won.
    const fn is_undo(&self, command: &Command) -> bool {
        let is_free = matches!(command, Command::Free { .. } | Command::Release { .. });
        matches!(self, Self::Acquire(_)) && is_free
    }

    fn handle_vote(&mut self, command: &Command, node: usize, vote: Vote, now: Moment) {
        match self {
            _ if self.is_undo(command) => {}
            Self::Acquire(machine) => machine.handle_vote(node, vote, now),
            Self::Renew(machine) => machine.handle_vote(node, vote, now),
            Self::Verify(machine) => machine.handle_vote(node, vote),
            Self::Release(machine) => machine.handle_vote(node, vote),
        }
    }

    /// Nobody wants a lock any more that may be won. What was asked otherwise goes on.
    fn handle_abandon(&mut self) {
        match self {
            Self::Acquire(machine) => machine.handle_abandon(),
            Self::Renew(_) | Self::Verify(_) | Self::Release(_) => {}
        }
    }

    fn handle_timeout(&mut self, now: Moment) {
        match self {
            Self::Acquire(machine) => machine.handle_timeout(now),
            Self::Renew(machine) => machine.handle_timeout(now),
            Self::Verify(machine) => machine.handle_timeout(now),
            Self::Release(machine) => machine.handle_timeout(now),
        }
    }

    fn poll_output(&mut self) -> Output {
        match self {
            Self::Acquire(machine) => machine.poll_output(),
            Self::Renew(machine) => machine.poll_output(),
            Self::Verify(machine) => machine.poll_output(),
            Self::Release(machine) => machine.poll_output(),
        }
    }

    fn ended(&self) -> Option<Ended> {
        match self {
            Self::Acquire(machine) => machine.outcome().map(Ended::Acquire),
            Self::Renew(machine) => machine.outcome().map(Ended::Renew),
            Self::Verify(machine) => machine.outcome().map(Ended::Verify),
            Self::Release(machine) => machine.outcome().map(Ended::Release),
        }
    }

    const fn tally(&self) -> &Tally {
        match self {
            Self::Acquire(machine) => machine.tally(),
            Self::Renew(machine) => machine.tally(),
            Self::Verify(machine) => machine.tally(),
            Self::Release(machine) => machine.tally(),
        }
    }
}
