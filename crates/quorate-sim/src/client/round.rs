//! One machine of the core at work: its requests, its timer, and the task that waits for it.

use std::{fmt, time::Duration};

use quorate_core::{
    acquire::{self, Acquire},
    command::{Command, Fate, Owner, Prolongation, Reply, Sighting, Value},
    fence::Fence,
    lease::Extension,
    line::{Extend, Extended, Speaker, owed_until},
    moment::Moment,
    name::Name,
    quorum::{NodeSet, Vote},
    release::{self, Release},
    renew::{self, Renew},
    round::{Output, Verb},
    terms::Terms,
    verify::{self, Verify},
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
    pub(super) machine: Machine,
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
    pub(super) fenced: Option<Fenced>,
    /// Until when the caller holds the lock, if it does: nodes that remember have its key.
    pub(super) held_until: Option<Moment>,
}

/// A lease of the default mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fenced {
    pub(crate) fence: Fence,
    /// Whether a node that lost its key may take it again: not for one that came from another.
    pub(crate) may_heal: bool,
}

impl Fenced {
    pub(super) const fn extend(self, name: Name, owner: Owner, ttl_ms: u64) -> Extend {
        let Self { fence, may_heal } = self;
        Extend { name, owner, fence, ttl_ms, may_heal }
    }
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

#[derive(Debug)]
pub(super) enum Machine {
    Acquire(Acquire),
    Renew(Renew),
    Verify(Verify),
    Release(Release),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Ended {
    Acquire(acquire::Outcome),
    Renew(renew::Outcome),
    Verify(verify::Outcome),
    Release(release::Outcome),
}

impl Round {
    /// When silent nodes are not waited for any more.
    fn give_up_at(&self) -> Moment {
        self.asked_at.saturating_add(self.claim.terms.vote_timeout())
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Acquire(outcome) => match outcome {
                acquire::Outcome::Held { .. } => "won",
                acquire::Outcome::Contended => "contended",
                acquire::Outcome::NoQuorum => "no quorum",
                acquire::Outcome::TooLate => "won too late",
                acquire::Outcome::Abandoned => "abandoned",
            },
            Self::Renew(outcome) => match outcome {
                renew::Outcome::Extended { .. } => "extended",
                renew::Outcome::Gone => "gone",
                renew::Outcome::TooLate => "extended too late",
                renew::Outcome::Unsure => "not extended, unsure",
            },
            Self::Verify(outcome) => match outcome {
                verify::Outcome::Confirmed => "confirmed",
                verify::Outcome::Gone => "gone",
                verify::Outcome::Unsure => "not confirmed, unsure",
            },
            Self::Release(outcome) => match outcome {
                release::Outcome::Released => "released",
                release::Outcome::WasGone => "was gone before the release",
                release::Outcome::Unsure => "released, unsure",
            },
        })
    }
}

impl Machine {
    fn poll_output(&mut self) -> Output {
        match self {
            Self::Acquire(machine) => machine.poll_output(),
            Self::Renew(machine) => machine.poll_output(),
            Self::Verify(machine) => machine.poll_output(),
            Self::Release(machine) => machine.poll_output(),
        }
    }

    fn handle_vote(&mut self, command: &Command, node: usize, vote: Vote, now: Moment) {
        match self {
            // What an undo is answered does not matter.
            Self::Acquire(_)
                if matches!(command, Command::Free { .. } | Command::Release { .. }) => {}
            Self::Acquire(machine) => machine.handle_vote(node, vote, now),
            Self::Renew(machine) => machine.handle_vote(node, vote, now),
            Self::Verify(machine) => machine.handle_vote(node, vote),
            Self::Release(machine) => machine.handle_vote(node, vote),
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

    fn ended(&self) -> Option<Ended> {
        match self {
            Self::Acquire(machine) => machine.outcome().map(Ended::Acquire),
            Self::Renew(machine) => machine.outcome().map(Ended::Renew),
            Self::Verify(machine) => machine.outcome().map(Ended::Verify),
            Self::Release(machine) => machine.outcome().map(Ended::Release),
        }
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
        self.take_in(env, &mut round, node, command, answer);
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
        if let Machine::Acquire(machine) = &mut round.machine {
            machine.handle_abandon();
        }
        self.drive(env, round);
    }

    /// Whether a lease is about to be taken over as this owner.
    pub(super) fn is_adopting(&self, owner: &Owner) -> bool {
        let asks = |round: &&Round| round.task.is_some() && round.claim.owner == *owner;
        self.rounds.iter().filter(asks).any(|round| matches!(round.machine, Machine::Acquire(_)))
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
                Output::Send { nodes, verb } => {
                    for node in nodes.iter() {
                        self.send_one(env, &mut round, node, verb);
                    }
                }
                Output::Wait { until } => break Some(until),
                Output::Idle => break None,
            }
        };
        if let Some(until) = wait_until
            && !std::mem::replace(&mut round.has_timer, true)
        {
            self.plan_at(env, until, Due::Round(round.id));
        }
        let ended = round.machine.ended();
        let told = ended.and_then(|ended| Some((round.task.take()?, ended)));
        if let Some((task, ended)) = told {
            self.check_reason(env, &round, ended);
            let (id, asked_at, extends) = (round.id, round.asked_at, round.extends);
            let claim = round.claim.clone();
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

    fn send_one(&self, env: &mut Env, round: &mut Round, node: usize, verb: Verb) {
        let session = env.net.link(self.number, node).session;
        let speaker = Speaker { client: self.id, session };
        let command = command(env, &round.claim, verb, speaker);
        let waiting = Waiting { whose: Whose::Round(round.id), command };
        if env.net.link(self.number, node).is_attached {
            self.send(env, node, waiting);
            round.open += 1;
        } else {
            if verb == Verb::Take {
                round.claim.untaken.insert(node);
            }
            self.take_in(env, round, node, &waiting.command, None);
        }
    }

    fn take_in(
        &self,
        env: &mut Env,
        round: &mut Round,
        node: usize,
        command: &Command,
        answer: Option<&Reply>,
    ) {
        let now = self.now(env);
        let vote = answer.map_or(Vote::Unknown, |reply| command.vote(reply));
        let is_free = matches!(command, Command::Free { .. } | Command::Release { .. });
        if answer.is_none() && is_free && !round.claim.untaken.contains(node) {
            let until = match command {
                Command::Release { .. } => {
                    owed_until(now, Duration::from_nanos(env.settings.longest_ttl()))
                }
                _ => round.claim.terms.forgotten_at(now),
            };
            self.owe(env, node, (command.clone(), until));
        }
        if !(is_free && matches!(round.machine, Machine::Acquire(_))) {
            round.votes.count(command, answer);
        }
        round.machine.handle_vote(command, node, vote, now);
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
            let text = format!(
                "`{ended}` after {grants} grants and {refusals} refusals, {open} still open"
            );
            let (lock, owner) = (Some(round.claim.lock), trace::owner_name(&round.claim.owner));
            env.check.report_owner(env.now, Promise::Reason, lock, owner, text);
        }
        env.trace.add(env.now, Some(round.claim.lock), || Scene::Outcome {
            client: self.number,
            text: format!("{}: {ended}", trace::owner_name(&round.claim.owner)),
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

fn command(env: &Env, claim: &Asked, verb: Verb, speaker: Speaker) -> Command {
    let Asked { lock, owner, terms, from, fenced, .. } = claim;
    let (name, owner, ttl_ms) = (env.locks[*lock].clone(), owner.clone(), terms.ttl_ms());
    match (verb, fenced) {
        (Verb::Free, Some(_)) => return Command::Release { name, owner, yields: None },
        (Verb::Prolong, Some(fenced)) => {
            let entries = [fenced.extend(name, owner, ttl_ms)].into();
            return Command::Extend { speaker, entries };
        }
        _ => {}
    }
    let speaker = env.settings.has_sessions().then_some(speaker);
    match (verb, from) {
        (Verb::Take, None) => Command::Take { name, owner, ttl_ms, speaker },
        (Verb::Take, Some(from)) => {
            Command::Adopt { name, from: from.clone(), owner, ttl_ms, speaker }
        }
        (Verb::Free, _) => Command::Free { name, owner },
        (Verb::Prolong, _) => {
            let entries = [Prolongation { name, owner, ttl_ms }].into();
            Command::Prolong { entries, speaker }
        }
        (Verb::Check, _) => Command::Check { name, owner },
    }
}
