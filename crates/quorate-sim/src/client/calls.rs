//! The calls of a client: the core's machine, driven by virtual time and watched by the checker.

use quorate_core::{
    acquire,
    client::{
        About, CallId, Ended, Question, Transmit,
        round::{Claim, Machine},
        waiter::Want,
    },
    command::{Command, ExtendedKey, KeyObservation, Owner, Reply, Value},
    moment::Moment,
    queue::Extended,
    quorum::NodeSet,
    renew,
    round::{RoundKind, RoundOutcome},
};
use std::time::Duration;

use super::Client;
use crate::{
    check::{Promise, majority},
    clock::Nanos,
    driver::Driver,
    run::Env,
    settings::WAKE_LAG_MAX,
    trace::{self, Scene},
};

/// The checker's record of a call.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) lock: usize,
    /// The task that waits for the outcome, if one still does.
    pub(super) task: Option<usize>,
    started_at: Nanos,
    /// Until when the caller holds the lock, if it does: until then nodes keep its key.
    pub(super) held_until: Option<Moment>,
    votes: Votes,
    /// Nodes that have answered the current owner, counted without the machine.
    answered: NodeSet,
    /// The same, and nodes that will not answer.
    settled: NodeSet,
    /// Nodes that have granted, and have not forgotten it since.
    granted: NodeSet,
    incarnation: u32,
    /// The checker checks its order in the queue.
    is_queued: bool,
}

/// The replies, interpreted and counted without the core.
#[derive(Clone, Copy, Debug, Default)]
struct Votes {
    grants: usize,
    refusals: usize,
    /// Nodes that cannot be reached, or answer with an error.
    lost: usize,
}

impl Votes {
    fn count(&mut self, command: &Command, answer: Option<&Reply>) {
        let is_own = |seen: &KeyObservation| match (command, &seen.value) {
            (Command::Check { owner, .. }, Value::Text(text)) => **text == *owner.as_bytes(),
            _ => false,
        };
        match answer {
            None | Some(Reply::Stale) => self.lost += 1,
            Some(Reply::Stored | Reply::Deleted | Reply::Released { is_ours: true }) => {
                self.grants += 1;
            }
            Some(Reply::ExtendedLeases(fates)) => match fates[..] {
                [Extended::Renewed(_)] => self.grants += 1,
                [Extended::Refused(_)] => self.refusals += 1,
                _ => self.lost += 1,
            },
            Some(Reply::ExtendedKeys(fates)) if fates[..] == [ExtendedKey::Failed] => {
                self.lost += 1;
            }
            Some(Reply::ExtendedKeys(fates)) if fates[..] == [ExtendedKey::Renewed] => {
                self.grants += 1;
            }
            Some(Reply::Key(Some(seen))) if is_own(seen) => self.grants += 1,
            Some(_) => self.refusals += 1,
        }
    }
}

impl Client {
    /// Starts to acquire a lock. The task gets the outcome.
    pub(super) fn acquire(&mut self, env: &Env, lock: usize, want: Want, task: usize) -> CallId {
        let call = self.me.machine.acquire(want, self.now(env));
        self.watch(env, call, lock, Some(task));
        call
    }

    /// Asks all nodes once. The task gets the outcome, if there is a task.
    pub(super) fn ask(
        &mut self,
        env: &Env,
        machine: Machine,
        (lock, claim): (usize, Claim),
        task: Option<usize>,
    ) -> CallId {
        let call = self.me.machine.ask(claim, machine, self.now(env));
        self.watch(env, call, lock, task);
        call
    }

    /// Starts the checker's record of a call.
    pub(super) fn watch(
        &mut self,
        env: &Env,
        call: CallId,
        lock: usize,
        task: Option<usize>,
    ) -> &mut Watched {
        let watched = Watched {
            lock,
            task,
            started_at: env.now,
            held_until: None,
            votes: Votes::default(),
            answered: NodeSet::EMPTY,
            settled: NodeSet::EMPTY,
            granted: NodeSet::EMPTY,
            incarnation: 0,
            is_queued: false,
        };
        self.calls.entry(call).or_insert(watched)
    }

    /// The owners as which calls of this client wait.
    pub(crate) fn waiting_owners(&self) -> impl Iterator<Item = &Owner> {
        let waiters = self.calls.keys().filter_map(|id| self.me.machine.call(*id)?.waiter());
        waiters.map(|waiter| waiter.owner())
    }

    /// Counts an answer for the checker.
    pub(super) fn count(&mut self, node: usize, transmit: &Transmit, reply: Option<&Reply>) {
        for (about, command, reply) in transmit.about.entries(&transmit.command, reply) {
            let reply = reply.filter(|reply| **reply != Reply::Full);
            match about {
                About::Waiter(question) => self.count_answer(node, (question, command), reply),
                About::Round(call) => self.count_vote(*call, command, reply),
                About::Renewals(_) | About::Orphan | About::Debt(_) | About::Batch(_) => {}
            }
        }
    }

    fn count_answer(
        &mut self,
        node: usize,
        (question, command): (&Question, &Command),
        reply: Option<&Reply>,
    ) {
        let incarnation = self.me.machine.call(question.call).and_then(|call| call.waiter());
        let incarnation = incarnation.map(|waiter| waiter.machine().incarnation());
        let Some(watched) = self.calls.get_mut(&question.call) else { return };
        let Some(incarnation) = incarnation else { return };
        if std::mem::replace(&mut watched.incarnation, incarnation) != incarnation {
            (watched.answered, watched.settled) = (NodeSet::EMPTY, NodeSet::EMPTY);
            (watched.granted, watched.votes) = (NodeSet::EMPTY, Votes::default());
        }
        if question.node_call.incarnation == incarnation && reply.is_some() {
            watched.answered.insert(node);
        }
        // The answer to an undo is not a vote.
        if question.node_call.incarnation == incarnation && question.node_call.is_acquire() {
            watched.settled.insert(node);
            let before = watched.votes.grants;
            watched.votes.count(command, reply);
            if watched.votes.grants > before {
                watched.granted.insert(node);
            }
        }
    }

    /// Grants of this node to open calls no longer count.
    pub(super) fn note_forgotten(&mut self, node: usize) {
        self.calls.values_mut().for_each(|watched| watched.granted.remove(node));
    }

    fn count_vote(&mut self, call: CallId, command: &Command, reply: Option<&Reply>) {
        if let Some(watched) = self.calls.get_mut(&call) {
            watched.votes.count(command, reply);
        }
    }

    /// The checker checks the order of this waiter from now on.
    pub(super) fn enter_queue(&mut self, env: &mut Env, call: CallId) {
        let Some(waiter) = self.me.machine.call(call).and_then(|call| call.waiter()) else {
            return;
        };
        let is_checked = waiter.machine().is_waiting() && env.cut_off != Some(self.me.number);
        let ticket = waiter.ticket().filter(|_| is_checked);
        let Some(watched) = self.calls.get_mut(&call) else { return };
        if let Some(ticket) = ticket
            && !std::mem::replace(&mut watched.is_queued, true)
        {
            env.check.order.enter(watched.started_at, (self.me.number, call), watched.lock, ticket);
        }
    }

    /// The outcome of a call is certain: the checker checks it, and the task continues.
    pub(super) fn handle_ended(&mut self, env: &mut Env, call: CallId) {
        let Some(ended) = self.me.machine.take_outcome(call) else { return };
        let Some(mut watched) = self.calls.remove(&call) else {
            self.me.machine.close_call(call);
            return;
        };
        match ended {
            Ended::Acquire(outcome) => {
                self.note_end_of_wait(env, &watched, call, outcome);
                self.check_try(env, &watched, call, outcome);
            }
            _ if watched.task.is_some() => self.check_reason(env, &watched, call, ended),
            _ => {}
        }
        if let Some(task) = watched.task.take() {
            self.handle_outcome(env, task, &watched, call, ended);
        }
        self.me.machine.close_call(call);
    }

    /// One of the other locks of a set has ended. Returns whether it is won.
    pub(super) fn settle(&mut self, env: &mut Env, call: CallId) -> bool {
        let Some(watched) = self.calls.remove(&call) else { return false };
        let Some(Ended::Acquire(outcome)) = self.me.machine.take_outcome(call) else {
            return false;
        };
        self.note_end_of_wait(env, &watched, call, outcome);
        self.check_try(env, &watched, call, outcome);
        matches!(outcome, acquire::Outcome::Held { .. })
    }

    /// The caller has left: grants are released.
    pub(super) fn abandon(&mut self, env: &mut Env, call: CallId) {
        if let Some(watched) = self.calls.remove(&call)
            && self.me.machine.call(call).is_some_and(|call| call.waiter().is_some())
        {
            self.note_end_of_wait(env, &watched, call, acquire::Outcome::Abandoned);
        }
        let now = self.now(env);
        self.me.machine.abandon(call, now);
        self.drive(env);
    }

    /// A task that waits for a round must get its outcome within the vote timeout.
    pub(super) fn check_calls(&self, env: &mut Env) {
        let now = self.now(env);
        for (call, watched) in &self.calls {
            let Some(call) = self.me.machine.call(*call) else { continue };
            let (terms, owner) = match (call.round(), call.waiter()) {
                (Some(round), _) => (round.claim().terms, &round.claim().owner),
                (_, Some(one)) if !one.machine().is_waiting() => (one.want().terms, one.owner()),
                _ => continue,
            };
            let lag = Duration::from_nanos(2 * WAKE_LAG_MAX);
            let due = terms.give_up_at(call.started_at());
            if watched.task.is_some() && due.saturating_add(lag) < now {
                let text = "a call is still open after its vote timeout".to_owned();
                let owner = trace::owner_name(owner);
                let lock = Some(watched.lock);
                env.check.report_owner(env.now, Promise::Progress, lock, owner, text);
                return;
            }
        }
    }

    /// The caller has left; its round continues without it.
    pub(super) fn forget_caller(&mut self, task: usize) {
        for watched in self.calls.values_mut().filter(|watched| watched.task == Some(task)) {
            watched.task = None;
        }
    }

    fn note_end_of_wait(
        &self,
        env: &mut Env,
        watched: &Watched,
        call: CallId,
        outcome: acquire::Outcome,
    ) {
        env.check.order.leave((self.me.number, call));
        let Some(waiter) = self.me.machine.call(call).and_then(|call| call.waiter()) else {
            return;
        };
        let owner = trace::owner_name(waiter.owner());
        env.trace.add(env.now, Some(watched.lock), || Scene::Outcome {
            client: self.me.number,
            text: format!("{owner}: {}", outcome_text(Ended::Acquire(outcome))),
        });
        let is_contended = outcome == acquire::Outcome::Contended;
        if is_contended && watched.answered.len() < majority(self.list.len()) {
            let text = "contended although no majority has answered".to_owned();
            env.check.report_owner(env.now, Promise::Reason, Some(watched.lock), owner, text);
        }
    }

    /// The outcome of a classic try must match the replies.
    fn check_try(&self, env: &mut Env, watched: &Watched, id: CallId, outcome: acquire::Outcome) {
        let waiter = self.me.machine.call(id).and_then(|call| call.waiter());
        let Some(waiter) = waiter.filter(|waiter| waiter.machine().is_classic()) else { return };
        let (now, terms) = (self.now(env), waiter.want().terms);
        let (grants, refusals) = (watched.granted.len(), watched.votes.refusals);
        let quorum = majority(self.list.len());
        let is_over = now >= terms.give_up_at(waiter.started_at());
        // Only nodes that can be reached are asked.
        let asked = self.me.machine.up();
        let open = if is_over { 0 } else { asked.without(watched.settled).len() };
        let is_true = match outcome {
            acquire::Outcome::Held { valid_until, .. } => now < valid_until,
            acquire::Outcome::Abandoned => true,
            acquire::Outcome::Contended => {
                grants + refusals >= quorum && refusals > 0 && grants + open < quorum
            }
            // It has retried for a ttl, and its last try had no other outcome.
            acquire::Outcome::NoQuorum if waiter.machine().is_waiting() => {
                now.saturating_since(waiter.started_at()) >= terms.ttl()
            }
            acquire::Outcome::NoQuorum => {
                let is_late = now >= terms.valid_until(waiter.started_at());
                grants + refusals + open < quorum || grants >= quorum && is_late
            }
        };
        if !is_true {
            let (owner, outcome) =
                (trace::owner_name(waiter.owner()), outcome_text(Ended::Acquire(outcome)));
            watched.report_untrue(env, owner, outcome, open);
        }
    }

    /// The outcome of a round must match the replies.
    fn check_reason(&self, env: &mut Env, watched: &Watched, id: CallId, ended: Ended) {
        let Some(call) = self.me.machine.call(id) else { return };
        let Some(claim) = call.round().map(|round| round.claim()) else { return };
        let nodes = self.list.len();
        let Votes { grants, refusals, lost } = watched.votes;
        let quorum = majority(nodes);
        let is_refused = nodes - refusals < quorum;
        let is_held = watched.held_until.is_some_and(|until| self.now(env) < until);
        let is_gone = is_refused && !(is_held && env.check.is_remembered());
        // The nodes that may still answer in time.
        let is_over = self.now(env) >= claim.terms.give_up_at(call.started_at());
        let open = if is_over { 0 } else { nodes - grants - refusals - lost };
        let is_true = match ended {
            Ended::Acquire(_) => true,
            Ended::Renew(renew::Outcome::Gone) | Ended::Round(_, RoundOutcome::Refused) => is_gone,
            Ended::Renew(renew::Outcome::Unsure) | Ended::Round(_, RoundOutcome::Unsure) => {
                grants < quorum && !is_refused && open == 0
            }
            Ended::Renew(renew::Outcome::Extended { .. } | renew::Outcome::TooLate)
            | Ended::Round(_, RoundOutcome::Agreed) => grants >= quorum,
        };
        let owner = trace::owner_name(&claim.owner);
        let outcome = outcome_text(ended);
        env.trace.add(env.now, Some(watched.lock), || Scene::Outcome {
            client: self.me.number,
            text: format!("{owner}: {outcome}"),
        });
        if !is_true {
            watched.report_untrue(env, owner, outcome, open);
        }
    }
}

impl Watched {
    fn report_untrue(&self, env: &mut Env, owner: String, outcome: &str, open: usize) {
        let Votes { grants, refusals, .. } = self.votes;
        let text =
            format!("`{outcome}` after {grants} grants and {refusals} refusals, {open} still open");
        env.check.report_owner(env.now, Promise::Reason, Some(self.lock), owner, text);
    }
}

const fn outcome_text(ended: Ended) -> &'static str {
    match ended {
        Ended::Acquire(acquire::Outcome::Held { .. }) => "won",
        Ended::Acquire(acquire::Outcome::Contended) => "contended",
        Ended::Acquire(acquire::Outcome::NoQuorum) => "no quorum",
        Ended::Acquire(acquire::Outcome::Abandoned) => "abandoned",
        Ended::Renew(renew::Outcome::Extended { .. }) => "extended",
        Ended::Renew(renew::Outcome::TooLate) => "extended too late",
        Ended::Renew(renew::Outcome::Unsure) => "not extended, unsure",
        Ended::Round(RoundKind::Release, RoundOutcome::Agreed) => "released",
        Ended::Round(RoundKind::Release, RoundOutcome::Refused) => "was gone before the release",
        Ended::Round(RoundKind::Release, RoundOutcome::Unsure) => "released, unsure",
        Ended::Round(_, RoundOutcome::Agreed) => "confirmed",
        Ended::Renew(renew::Outcome::Gone) | Ended::Round(_, RoundOutcome::Refused) => "gone",
        Ended::Round(_, RoundOutcome::Unsure) => "not confirmed, unsure",
    }
}
