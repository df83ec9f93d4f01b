//! One machine of the core at work: its requests, its timer, and the task that waits for it.

use std::time::Duration;

pub(super) use quorate_core::client::round::{Ended, Machine};
use quorate_core::{
    acquire,
    client::round::{Asker, Claim, Output, QuorumRound},
    command::{Command, Fate, Owner, Reply, Sighting, Value},
    lease::Extension,
    line::{Extended, FencedLease},
    moment::Moment,
    quorum::NodeSet,
    release, renew,
    terms::Terms,
    verify,
};

use super::Client;
use crate::{
    check::{Promise, majority},
    event::Due,
    net::{Waiting, Whose},
    settings::WAKE_LAG_MAX,
    trace::{self, Scene},
    world::Env,
};

/// One round of asking all nodes.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) id: u32,
    machine: QuorumRound,
    pub(super) claim: Asked,
    /// Who waits for the outcome, if somebody still does.
    pub(super) task: Option<usize>,
    pub(super) asked_at: Moment,
    /// The extension that it is, and the deadline that it must not miss.
    pub(super) extends: Option<(Extension, Moment)>,
    /// Requests that are not answered.
    open: u32,
    has_timer: bool,
    votes: Votes,
}

/// What a round is about.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) lock: usize,
    pub(super) owner: Owner,
    pub(super) terms: Terms,
    pub(super) from: Option<Owner>,
    pub(super) untaken: NodeSet,
    /// In the default mode.
    pub(super) fenced: Option<FencedLease>,
    /// Until when the caller holds the lock, if it does: nodes that remember have its key.
    pub(super) held_until: Option<Moment>,
}

/// What the replies said, read and counted without the core.
#[derive(Clone, Copy, Debug, Default)]
struct Votes {
    grants: usize,
    refusals: usize,
    /// Nodes that cannot be reached, or answer with an error.
    lost: usize,
}

impl Votes {
    fn count(&mut self, command: &Command, answer: Option<&Reply>) {
        let is_own = |seen: &Sighting| match (command, &seen.value) {
            (Command::Check { owner, .. }, Value::Text(text)) => **text == *owner.as_bytes(),
            _ => false,
        };
        match answer {
            None | Some(Reply::Stale) => self.lost += 1,
            Some(Reply::Taken | Reply::Freed | Reply::Released { is_ours: true }) => {
                self.grants += 1;
            }
            Some(Reply::EachExtended(fates)) => match fates[..] {
                [Extended::LivesOn(_)] => self.grants += 1,
                [Extended::Refused(_)] => self.refusals += 1,
                _ => self.lost += 1,
            },
            Some(Reply::Each(fates)) if fates[..] == [Fate::Failed] => self.lost += 1,
            Some(Reply::Each(fates)) if fates[..] == [Fate::LivesOn] => self.grants += 1,
            Some(Reply::Seen(Some(seen))) if is_own(seen) => self.grants += 1,
            Some(_) => self.refusals += 1,
        }
    }
}

impl Round {
    /// When silent nodes are not waited for any more.
    fn give_up_at(&self) -> Moment {
        self.asked_at.saturating_add(self.claim.terms.vote_timeout())
    }

    /// The answer to an undo says nothing about who won.
    fn count(&mut self, command: &Command, answer: Option<&Reply>) {
        if !self.machine.machine().is_undo(command) {
            self.votes.count(command, answer);
        }
    }
}

const fn told(ended: Ended) -> &'static str {
    match ended {
        Ended::Acquire(outcome) => match outcome {
            acquire::Outcome::Held { .. } => "won",
            acquire::Outcome::Contended => "contended",
            acquire::Outcome::NoQuorum => "no quorum",
            acquire::Outcome::TooLate => "won too late",
            acquire::Outcome::Abandoned => "abandoned",
        },
        Ended::Renew(outcome) => match outcome {
            renew::Outcome::Extended { .. } => "extended",
            renew::Outcome::Gone => "gone",
            renew::Outcome::TooLate => "extended too late",
            renew::Outcome::Unsure => "not extended, unsure",
        },
        Ended::Verify(outcome) => match outcome {
            verify::Outcome::Confirmed => "confirmed",
            verify::Outcome::Gone => "gone",
            verify::Outcome::Unsure => "not confirmed, unsure",
        },
        Ended::Release(outcome) => match outcome {
            release::Outcome::Released => "released",
            release::Outcome::WasGone => "was gone before the release",
            release::Outcome::Unsure => "released, unsure",
        },
    }
}

impl Client {
    /// Starts asking. The task hears of the outcome, if there is a task.
    pub(super) fn ask(
        &mut self,
        env: &mut Env,
        machine: Machine,
        claim: Asked,
        task: Option<usize>,
        extends: Option<(Extension, Moment)>,
    ) -> u32 {
        let id = self.next_id();
        let asked_at = self.now(env);
        let votes = Votes::default();
        let (open, has_timer) = (0, false);
        let Asked { lock, owner, terms, from, untaken, fenced, .. } = claim.clone();
        let name = env.locks[lock].clone();
        let asker = Asker {
            client: self.id,
            has_sessions: env.settings.has_sessions(),
            max_ttl: Duration::from_nanos(env.settings.longest_ttl()),
        };
        let asked = Claim { name, owner, terms, from, untaken, fenced };
        let machine = QuorumRound::start(asker, asked, machine);
        let round = Round { id, machine, claim, task, asked_at, extends, open, has_timer, votes };
        self.drive(env, round);
        id
    }

    pub(super) fn handle_vote(
        &mut self,
        env: &mut Env,
        id: u32,
        node: usize,
        command: &Command,
        answer: Option<&Reply>,
    ) {
        let Some(mut round) = self.take_round(id) else { return };
        round.open -= 1;
        round.count(command, answer);
        let debt = round.machine.handle_answer(node, command, answer, self.now(env));
        self.owe_release(env, node, debt);
        self.drive(env, round);
    }

    pub(super) fn handle_round_timeout(&mut self, env: &mut Env, id: u32) {
        let Some(mut round) = self.take_round(id) else { return };
        round.machine.handle_timeout(self.now(env));
        self.drive(env, round);
    }

    /// The caller has gone: what was taken goes back.
    pub(super) fn abandon(&mut self, env: &mut Env, id: u32) {
        let Some(mut round) = self.take_round(id) else { return };
        round.task = None;
        round.machine.handle_abandon();
        if matches!(round.machine.machine(), Machine::Acquire(_)) {
            self.registry.forget(&round.claim.owner);
        }
        self.drive(env, round);
    }

    /// Somebody who waits for a round hears of it when the vote timeout is over.
    pub(super) fn check_calls(&self, env: &mut Env) {
        let now = self.now(env);
        let is_late = |round: &&Round| {
            let due = round.give_up_at().saturating_add(Duration::from_nanos(2 * WAKE_LAG_MAX));
            round.task.is_some() && due < now
        };
        if let Some(round) = self.rounds.iter().find(is_late) {
            let text = "a call goes on although its vote timeout is over".to_owned();
            let (lock, owner) = (Some(round.claim.lock), trace::owner_name(&round.claim.owner));
            env.check.report_owner(env.now, Promise::Progress, lock, owner, text);
        }
    }

    /// The caller went away, and what was asked goes on without it.
    pub(super) fn forget_caller(&mut self, task: usize) {
        for round in self.rounds.iter_mut().filter(|round| round.task == Some(task)) {
            round.task = None;
        }
    }

    fn take_round(&mut self, id: u32) -> Option<Round> {
        let index = self.rounds.iter().position(|round| round.id == id)?;
        Some(self.rounds.swap_remove(index))
    }

    /// Does what the machine says until it waits, then tells the task.
    fn drive(&mut self, env: &mut Env, mut round: Round) {
        let wait_until = loop {
            match round.machine.poll_output() {
                Output::Send { node, command } => self.send_one(env, &mut round, node, command),
                Output::Until(until) => break Some(until),
                Output::Idle => break None,
            }
        };
        if let Some(until) = wait_until
            && !std::mem::replace(&mut round.has_timer, true)
        {
            self.plan_at(env, until, Due::Round(round.id));
        }
        let ended = round.machine.machine().ended();
        let told = ended.and_then(|ended| Some((round.task.take()?, ended)));
        if let Some((task, ended)) = told {
            self.check_reason(env, &round, ended);
            let (id, asked_at, extends) = (round.id, round.asked_at, round.extends);
            let untaken = round.machine.claim().untaken;
            let claim = Asked { untaken, ..round.claim.clone() };
            self.keep_round(round, wait_until.is_some());
            self.handle_outcome(env, task, Told { id, ended, asked_at, extends, claim });
        } else {
            self.keep_round(round, wait_until.is_some());
        }
    }

    fn keep_round(&mut self, round: Round, is_waiting: bool) {
        if round.open > 0 || is_waiting || round.task.is_some() {
            self.rounds.push(round);
        }
    }

    fn send_one(&self, env: &mut Env, round: &mut Round, node: usize, mut command: Command) {
        let link = env.net.link(self.number, node);
        command.set_session(link.session);
        let is_taking = matches!(command, Command::Take { .. });
        let waiting = Waiting { whose: Whose::Round(round.id), command: command.clone() };
        if if is_taking { link.votes() } else { link.is_attached } {
            self.send(env, node, waiting);
            round.open += 1;
        } else {
            round.count(&command, None);
            let debt = round.machine.handle_unsent(node, &command, self.now(env));
            self.owe_release(env, node, debt);
        }
    }

    /// Every refusal has a reason, and it is the true one.
    fn check_reason(&self, env: &mut Env, round: &Round, ended: Ended) {
        let nodes = env.nodes.len();
        let Votes { grants, refusals, lost } = round.votes;
        let quorum = majority(nodes);
        let is_refused = nodes - refusals < quorum;
        let is_held = round.claim.held_until.is_some_and(|until| self.now(env) < until);
        let is_gone = is_refused && !(is_held && env.check.is_remembered());
        // Who may still answer in time.
        let is_over = self.now(env) >= round.give_up_at();
        let open = if is_over { 0 } else { nodes - grants - refusals - lost };
        let is_true = match ended {
            Ended::Acquire(outcome) => match outcome {
                acquire::Outcome::Held { valid_until } => self.now(env) < valid_until,
                acquire::Outcome::Abandoned => true,
                acquire::Outcome::Contended => {
                    grants + refusals >= quorum && refusals > 0 && grants + open < quorum
                }
                acquire::Outcome::NoQuorum => grants + refusals + open < quorum,
                acquire::Outcome::TooLate => grants >= quorum,
            },
            Ended::Renew(renew::Outcome::Gone)
            | Ended::Verify(verify::Outcome::Gone)
            | Ended::Release(release::Outcome::WasGone) => is_gone,
            Ended::Renew(renew::Outcome::Unsure)
            | Ended::Verify(verify::Outcome::Unsure)
            | Ended::Release(release::Outcome::Unsure) => {
                grants < quorum && !is_refused && open == 0
            }
            Ended::Renew(renew::Outcome::Extended { .. } | renew::Outcome::TooLate)
            | Ended::Verify(verify::Outcome::Confirmed)
            | Ended::Release(release::Outcome::Released) => grants >= quorum,
        };
        if !is_true {
            let ended = told(ended);
            let text = format!(
                "`{ended}` after {grants} grants and {refusals} refusals, {open} still open"
            );
            let (lock, owner) = (Some(round.claim.lock), trace::owner_name(&round.claim.owner));
            env.check.report_owner(env.now, Promise::Reason, lock, owner, text);
        }
        env.trace.add(env.now, Some(round.claim.lock), || Scene::Outcome {
            client: self.number,
            text: format!("{}: {}", trace::owner_name(&round.claim.owner), told(ended)),
        });
    }
}

/// What a task is told.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) id: u32,
    pub(super) ended: Ended,
    pub(super) asked_at: Moment,
    pub(super) extends: Option<(Extension, Moment)>,
    pub(super) claim: Asked,
}
