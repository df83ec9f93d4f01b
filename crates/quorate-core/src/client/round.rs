//! One question to all nodes about one owner: may it have, keep, or give back the lock?

use std::{collections::VecDeque, time::Duration};

use super::Debt;
use crate::{
    acquire::{self, Acquire},
    command::{ClientId, Command, Owner, Prolongation, Reply},
    line::{FencedLease, Session, Speaker, owed_until},
    moment::Moment,
    name::Name,
    quorum::{NodeSet, Tally, Vote},
    release::{self, Release},
    renew::{self, Renew},
    round::{self, Verb},
    terms::Terms,
    verify::{self, Verify},
};

/// What a round is about.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The lock.
    pub name: Name,
    /// For whom.
    pub owner: Owner,
    /// For how long, and how long silent nodes are waited for.
    pub terms: Terms,
    /// The owner whose lease goes on as `owner`, if it does.
    pub from: Option<Owner>,
    /// Nodes to which the owner was never sent: they have nothing to give back.
    pub untaken: NodeSet,
    /// Absent in classic mode.
    pub fenced: Option<FencedLease>,
}

/// One of the machines that ask every node once.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Machine {
    /// Takes the lock, or takes over a lease.
    Acquire(Acquire),
    /// Extends a lease.
    Renew(Renew),
    /// Asks whether the lease is held.
    Verify(Verify),
    /// Releases it.
    Release(Release),
}

/// How a round ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// See [`acquire::Outcome`].
    Acquire(acquire::Outcome),
    /// See [`renew::Outcome`].
    Renew(renew::Outcome),
    /// See [`verify::Outcome`].
    Verify(verify::Outcome),
    /// See [`release::Outcome`].
    Release(release::Outcome),
}

/// What is the same for all rounds of a client.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// The client.
    pub client: ClientId,
    /// The nodes know its sessions, without which they do not vote.
    pub has_sessions: bool,
    /// No lease of these nodes is longer.
    pub max_ttl: Duration,
}

/// One round. It lives until every node has answered or was given up, whatever becomes of the
/// caller.
#[derive(Clone, Debug)]
pub struct QuorumRound {
    asker: Asker,
    claim: Claim,
    machine: Machine,
    unsent: VecDeque<(usize, Verb)>,
}

/// What the driver must do next.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub enum Output {
    /// Send this, or say at once that it cannot be sent.
    Send {
        /// To which node.
        node: usize,
        /// Each connection puts in its own session.
        command: Command,
    },
    /// Call `handle_timeout` at this moment; an answer may come first.
    Until(Moment),
    /// Nothing to do until another answer comes, if one does.
    Idle,
}

impl QuorumRound {
    /// Starts a round. Nothing is sent before the first `poll_output`.
    #[must_use]
    pub const fn start(asker: Asker, claim: Claim, machine: Machine) -> Self {
        Self { asker, claim, machine, unsent: VecDeque::new() }
    }

    /// What it is about. Nodes that could not be asked are added to `untaken`.
    #[must_use]
    pub const fn claim(&self) -> &Claim {
        &self.claim
    }

    /// The machine that decides.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Output {
        loop {
            if let Some((node, verb)) = self.unsent.pop_front() {
                return Output::Send { node, command: self.command(verb) };
            }
            match self.machine.poll_output() {
                round::Output::Send { nodes, verb } => {
                    self.unsent.extend(nodes.iter().map(|node| (node, verb)));
                }
                round::Output::Wait { until } => return Output::Until(until),
                round::Output::Idle => return Output::Idle,
            }
        }
    }

    /// The command cannot be sent to this node.
    pub fn handle_unsent(&mut self, node: usize, command: &Command, now: Moment) -> Option<Debt> {
        let is_taking = matches!(command, Command::Take { .. } | Command::Adopt { .. });
        if is_taking && matches!(self.machine, Machine::Acquire(_)) {
            self.claim.untaken.insert(node);
        }
        self.handle_answer(node, command, None, now)
    }

    /// What a node answered; `None` is no usable answer.
    pub fn handle_answer(
        &mut self,
        node: usize,
        command: &Command,
        reply: Option<&Reply>,
        now: Moment,
    ) -> Option<Debt> {
        let vote = reply.map_or(Vote::Unknown, |reply| command.vote(reply));
        if !self.machine.is_undo(command) {
            self.machine.handle_vote(node, vote, now);
        }
        let until = match command {
            Command::Free { .. } => self.claim.terms.forgotten_at(now),
            Command::Release { .. } => owed_until(now, self.asker.max_ttl),
            _ => return None,
        };
        let is_owed = reply.is_none() && !self.claim.untaken.contains(node);
        is_owed.then(|| Debt { release: command.clone(), until })
    }

    /// The moment of [`Output::Until`] has come.
    pub fn handle_timeout(&mut self, now: Moment) {
        match &mut self.machine {
            Machine::Acquire(machine) => machine.handle_timeout(now),
            Machine::Renew(machine) => machine.handle_timeout(now),
            Machine::Verify(machine) => machine.handle_timeout(now),
            Machine::Release(machine) => machine.handle_timeout(now),
        }
    }

    /// The caller has gone. A lock that may be won is given back; everything else goes on.
    pub fn handle_abandon(&mut self) {
        match &mut self.machine {
            Machine::Acquire(machine) => machine.handle_abandon(),
            Machine::Renew(_) | Machine::Verify(_) | Machine::Release(_) => {}
        }
    }

    fn command(&self, verb: Verb) -> Command {
        let Claim { name, owner, terms, from, fenced, .. } = &self.claim;
        let (name, owner, ttl_ms) = (name.clone(), owner.clone(), terms.ttl_ms());
        let own = Speaker { client: self.asker.client, session: Session::UNSET };
        let speaker = self.asker.has_sessions.then_some(own);
        match (verb, from, fenced) {
            (Verb::Take, None, _) => Command::Take { name, owner, ttl_ms, speaker },
            // A lease that goes on as another owner is prolonged by that.
            (Verb::Take | Verb::Prolong, Some(from), _) => {
                Command::Adopt { name, from: from.clone(), owner, ttl_ms, speaker }
            }
            (Verb::Free, _, None) => Command::Free { name, owner },
            (Verb::Free, _, Some(_)) => Command::Release { name, owner, yields: None },
            (Verb::Prolong, None, None) => {
                let entries = [Prolongation { name, owner, ttl_ms }].into();
                Command::Prolong { entries, speaker }
            }
            (Verb::Prolong, None, Some(fenced)) => {
                let entries = [fenced.extend(name, owner, ttl_ms)].into();
                Command::Extend { speaker: own, entries }
            }
            (Verb::Check, _, _) => Command::Check { name, owner },
        }
    }
}

impl Machine {
    /// The answer to an undo says nothing about who won.
    #[must_use]
    pub const fn is_undo(&self, command: &Command) -> bool {
        let is_free = matches!(command, Command::Free { .. } | Command::Release { .. });
        matches!(self, Self::Acquire(_)) && is_free
    }

    /// How it ended, as soon as that is certain.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        match self {
            Self::Acquire(machine) => machine.outcome().map(Ended::Acquire),
            Self::Renew(machine) => machine.outcome().map(Ended::Renew),
            Self::Verify(machine) => machine.outcome().map(Ended::Verify),
            Self::Release(machine) => machine.outcome().map(Ended::Release),
        }
    }

    /// The votes so far, as evidence.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        match self {
            Self::Acquire(machine) => machine.tally(),
            Self::Renew(machine) => machine.tally(),
            Self::Verify(machine) => machine.tally(),
            Self::Release(machine) => machine.tally(),
        }
    }

    fn handle_vote(&mut self, node: usize, vote: Vote, now: Moment) {
        match self {
            Self::Acquire(machine) => machine.handle_vote(node, vote, now),
            Self::Renew(machine) => machine.handle_vote(node, vote, now),
            Self::Verify(machine) => machine.handle_vote(node, vote),
            Self::Release(machine) => machine.handle_vote(node, vote),
        }
    }

    fn poll_output(&mut self) -> round::Output {
        match self {
            Self::Acquire(machine) => machine.poll_output(),
            Self::Renew(machine) => machine.poll_output(),
            Self::Verify(machine) => machine.poll_output(),
            Self::Release(machine) => machine.poll_output(),
        }
    }
}
