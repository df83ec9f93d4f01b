//! One machine of the core at work: its requests, its timer, and the caller who waits for it.

use std::{
    fmt,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::Ordering},
    task::{Poll, Waker},
};

pub(crate) use quorate_core::client::round::{Claim, Ended, Machine};
use quorate_core::{
    acquire,
    client::{
        Debt,
        round::{Output, QuorumRound},
    },
    command::{Command, Reply},
    moment::Moment,
    name::Name,
    quorum::{NodeSet, Vote},
    release, renew, verify,
};

use super::{
    Engine,
    report::{Heard, answer_now},
    timers::{FOREVER, Timed},
};
use crate::{
    error::{NodeAnswer, NodeReport, Trouble},
    node::{Inbox, Node, Request, Sent},
    observe::{Action, Event, Outcome},
};

/// One round of asking all nodes. It lives until every node has answered or was given up, whatever
/// becomes of the caller.
pub(crate) struct Attempt {
    engine: Arc<Engine>,
    name: Name,
    action: Action,
    /// Its name and beginning, for the observer.
    round: u64,
    started_at: Moment,
    state: Mutex<State>,
}

impl Attempt {
    /// Sends the first requests and returns without waiting for anything.
    pub(crate) fn start(
        engine: &Arc<Engine>,
        claim: Claim,
        now: Moment,
        machine: Machine,
    ) -> Arc<Self> {
        let (name, action) = (claim.name.clone(), action(&machine));
        let state = State {
            round: QuorumRound::start(engine.asker(), claim, machine),
            heard: Vec::new(),
            waker: None,
            has_timer: false,
            is_end_told: false,
            is_delivered: false,
        };
        let attempt = Arc::new(Self {
            engine: engine.clone(),
            name,
            action,
            round: engine.next_round(),
            started_at: now,
            state: Mutex::new(state),
        });
        let (round, name) = (attempt.round, attempt.name.as_str());
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
            if state.round.machine().tally().pending().is_empty() {
                return Poll::Ready(());
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// True if some node plainly refused.
    pub(crate) fn is_refused_somewhere(&self) -> bool {
        !self.lock().round.machine().tally().refused().is_empty()
    }

    /// Nodes to which the owner was never sent.
    pub(crate) fn untaken(&self) -> NodeSet {
        self.lock().round.claim().untaken
    }

    /// What each node has to say to this attempt, as of now.
    pub(crate) fn reports(&self) -> Box<[NodeReport]> {
        let state = self.lock();
        let tally = state.round.machine().tally();
        let answer = |number: usize, node: &dyn Node| {
            let heard = state.heard.iter().find(|(of, _)| *of == number).map(|(_, heard)| heard);
            // Each node is asked once: what it has said stands, whatever becomes of it.
            let vote = match tally {
                _ if tally.granted().contains(number) => Some(Vote::Grant),
                _ if tally.refused().contains(number) => Some(Vote::Refuse),
                _ => None,
            };
            let silence = match heard {
                _ if tally.pending().contains(number) => NodeAnswer::NotAwaited,
                // It came up too late to be asked, or after the question was lost.
                Some(_) => NodeAnswer::Attached,
                None => NodeAnswer::Trouble(Trouble::TimedOut),
            };
            answer_now(node, vote, heard, silence)
        };
        let nodes = self.engine.nodes.iter().enumerate();
        nodes.map(|(number, it)| NodeReport::new(it.label(), answer(number, &**it))).collect()
    }

    /// Does what the machine says until it waits. The lock is held while requests are queued, so
    /// that they leave in the order in which the machine asked for them.
    fn drive(self: &Arc<Self>, mut state: MutexGuard<'_, State>, now: Moment) {
        if self.engine.is_closed.load(Ordering::SeqCst) && !state.is_delivered {
            state.round.handle_abandon();
        }
        let mut queued = NodeSet::EMPTY;
        let wait_until = loop {
            match state.round.poll_output() {
                Output::Send { node, command } => {
                    if self.send(&mut state, node, command, now) {
                        queued.insert(node);
                    }
                }
                Output::Until(until) => break Some(until),
                Output::Idle => break None,
            }
        };
        let needs_timer = wait_until.filter(|_| !std::mem::replace(&mut state.has_timer, true));
        let ended = state.round.machine().ended();
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

    /// Sends one command to one node. Returns true if that is queued and has to be flushed.
    fn send(
        self: &Arc<Self>,
        state: &mut State,
        node: usize,
        command: Command,
        now: Moment,
    ) -> bool {
        let it = &self.engine.nodes[node];
        let connection = it.connection();
        let request = Request { command: command.clone(), node, inbox: self.clone() };
        let Sent::Answered(answer) = it.send(request, now) else { return true };
        let answer = answer.map_err(|trouble| Heard::new(trouble, connection));
        self.note(state, node, &command, &answer, now);
        let debt = match &answer {
            Ok(reply) => state.round.handle_answer(node, &command, Some(reply), now),
            Err(_) => state.round.handle_unsent(node, &command, now),
        };
        self.owe(node, debt);
        false
    }

    fn owe(&self, node: usize, debt: Option<Debt>) {
        if let Some(Debt { release, until }) = debt {
            self.engine.nodes[node].owe(release, until);
        }
    }

    /// Notes what a node has answered, for reports.
    fn note(
        &self,
        state: &mut State,
        node: usize,
        command: &Command,
        answer: &Result<Reply, Heard>,
        now: Moment,
    ) {
        if state.round.machine().is_undo(command) {
            return;
        }
        if self.engine.is_observed() {
            let vote = answer.as_ref().map_or(Vote::Unknown, |reply| command.vote(reply));
            let trouble = answer.as_ref().err().map(|heard| &heard.trouble);
            self.tell_answer(node, vote, trouble, now);
        }
        if let Err(heard) = answer {
            state.heard.push((node, heard.clone()));
        }
    }

    fn tell_answer(&self, node: usize, vote: Vote, trouble: Option<&Trouble>, now: Moment) {
        let answer = NodeAnswer::of(vote, trouble);
        let (round, action) = (self.round, self.action);
        let node = self.engine.nodes[node].label();
        let took = now.saturating_since(self.started_at);
        self.engine.tell(&Event::Answered { round, action, node, answer: &answer, took });
    }

    fn tell_end(&self, ended: Ended, now: Moment) {
        let (round, name, action) = (self.round, self.name.as_str(), self.action);
        let outcome = told(ended);
        let took = now.saturating_since(self.started_at);
        self.engine.tell(&Event::Ended { round, action, name, outcome, took });
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
        let connection = || self.engine.nodes[node].connection();
        let answer = answer.map_err(|trouble| Heard::new(trouble, connection()));
        let mut state = self.lock();
        self.note(&mut state, node, &command, &answer, now);
        let debt = state.round.handle_answer(node, &command, answer.as_ref().ok(), now);
        self.owe(node, debt);
        self.drive(state, now);
    }
}

impl Timed for Attempt {
    fn handle_timeout(self: Arc<Self>, now: Moment) {
        let mut state = self.lock();
        state.round.handle_timeout(now);
        // The engine's end is told as the end of time; what is sent is sent now.
        self.drive(state, self.engine.now());
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the engine: its links have attempts, which have the engine.
        f.debug_struct("Attempt").field("name", &self.name).finish_non_exhaustive()
    }
}

struct State {
    round: QuorumRound,
    /// The errors with which nodes have answered.
    heard: Vec<(usize, Heard)>,
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
        let Some(ended) = state.round.machine().ended() else {
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
            state.round.handle_abandon();
            attempt.drive(state, now);
        }
    }
}

/// The outcome in the words of the observer.
const fn told(ended: Ended) -> Outcome {
    match ended {
        Ended::Acquire(acquire::Outcome::Held { .. })
        | Ended::Renew(renew::Outcome::Extended { .. })
        | Ended::Verify(verify::Outcome::Confirmed)
        | Ended::Release(release::Outcome::Released) => Outcome::Done,
        Ended::Acquire(acquire::Outcome::Contended) => Outcome::Busy,
        Ended::Acquire(acquire::Outcome::NoQuorum)
        | Ended::Renew(renew::Outcome::Unsure)
        | Ended::Verify(verify::Outcome::Unsure)
        | Ended::Release(release::Outcome::Unsure) => Outcome::NoQuorum,
        Ended::Acquire(acquire::Outcome::TooLate) | Ended::Renew(renew::Outcome::TooLate) => {
            Outcome::TooLate
        }
        Ended::Acquire(acquire::Outcome::Abandoned) => Outcome::Cancelled,
        Ended::Renew(renew::Outcome::Gone)
        | Ended::Verify(verify::Outcome::Gone)
        | Ended::Release(release::Outcome::WasGone) => Outcome::Gone,
    }
}

const fn action(machine: &Machine) -> Action {
    match machine {
        Machine::Acquire(_) => Action::Acquire,
        Machine::Renew(_) => Action::Extend,
        Machine::Verify(_) => Action::Verify,
        Machine::Release(_) => Action::Release,
    }
}
