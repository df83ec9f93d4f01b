//! One question to all nodes about one owner: may it keep the lock, has it the
//! lock, or does it give it back?

use std::collections::VecDeque;

use super::{Config, Debt};
use crate::{
    command::{Command, Owner, Reply},
    dialect::{Dialect, Target},
    moment::Moment,
    name::Name,
    queue::FencedLease,
    quorum::{NodeSet, Tally, Vote},
    renew::{self, Renew},
    round::{self, Round, RoundKind, RoundOutcome},
    terms::Terms,
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
    /// Extends a lease.
    Renew(Renew),
    /// Releases a lease, or asks whether it is held.
    Round(Round),
}

/// How a round ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// Of an extension.
    Renew(renew::Outcome),
    /// Of anything else.
    Round(RoundKind, RoundOutcome),
}

/// One round. It lives until every node has answered or was given up, whatever becomes of the
/// caller.
#[derive(Clone, Debug)]
pub struct QuorumRound {
    claim: Claim,
    machine: Machine,
    unsent: VecDeque<(usize, RoundKind)>,
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
    pub const fn start(claim: Claim, machine: Machine) -> Self {
        Self { claim, machine, unsent: VecDeque::new() }
    }

    /// What it is about.
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
    pub fn poll_output(&mut self, config: &Config) -> Output {
        loop {
            if let Some((node, kind)) = self.unsent.pop_front() {
                return Output::Send { node, command: self.command(config, kind) };
            }
            match self.machine.poll_output() {
                round::Output::Send { nodes, kind } => {
                    self.unsent.extend(nodes.iter().map(|node| (node, kind)));
                }
                round::Output::Wait { until } => return Output::Until(until),
                round::Output::Idle => return Output::Idle,
            }
        }
    }

    /// What a node answered; `None` is no usable answer.
    pub fn handle_answer(
        &mut self,
        config: &Config,
        node: usize,
        command: &Command,
        reply: Option<&Reply>,
        now: Moment,
    ) -> Option<Debt> {
        let vote = reply.map_or(Vote::Unknown, |reply| command.vote(reply));
        match &mut self.machine {
            Machine::Renew(machine) => machine.handle_vote(node, vote, now),
            Machine::Round(machine) => machine.handle_vote(node, vote),
        }
        let is_release = matches!(command, Command::DeleteKey { .. } | Command::Release { .. });
        let is_owed = is_release && reply.is_none() && !self.claim.untaken.contains(node);
        is_owed.then(|| Debt::new(command, self.claim.terms, config, now))
    }

    /// The moment of [`Output::Until`] has come.
    pub fn handle_timeout(&mut self, now: Moment) {
        match &mut self.machine {
            Machine::Renew(machine) => machine.handle_timeout(now),
            Machine::Round(machine) => machine.handle_timeout(now),
        }
    }

    fn command(&self, config: &Config, kind: RoundKind) -> Command {
        let Claim { name, owner, terms, from, fenced, .. } = &self.claim;
        let (builder, owner) = (config.builder(), owner.clone());
        let target = |owner| Target { name, owner, ttl_ms: terms.ttl_ms() };
        match (kind, from) {
            (RoundKind::Release, _) => Dialect::of(*fenced).release(name.clone(), owner),
            (RoundKind::Extend, None) => builder.extend(&[(target(owner), *fenced)]),
            // A lease that goes on as another owner is extended by that.
            (RoundKind::Extend, Some(from)) => builder.adopt(target(owner), from),
            (RoundKind::Check, _) => Command::Check { name: name.clone(), owner },
        }
    }
}

impl Machine {
    /// How it ended, as soon as that is certain.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        match self {
            Self::Renew(machine) => machine.outcome().map(Ended::Renew),
            Self::Round(machine) => {
                machine.outcome().map(|outcome| Ended::Round(machine.kind(), outcome))
            }
        }
    }

    /// The votes so far, as evidence.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        match self {
            Self::Renew(machine) => machine.tally(),
            Self::Round(machine) => machine.tally(),
        }
    }

    /// What it asks of the nodes.
    #[must_use]
    pub const fn kind(&self) -> RoundKind {
        match self {
            Self::Renew(_) => RoundKind::Extend,
            Self::Round(machine) => machine.kind(),
        }
    }

    fn poll_output(&mut self) -> round::Output {
        match self {
            Self::Renew(machine) => machine.poll_output(),
            Self::Round(machine) => machine.poll_output(),
        }
    }
}
