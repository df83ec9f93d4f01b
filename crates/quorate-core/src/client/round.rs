//! One command to all nodes about one owner: extend its lease, check it, or release it.

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

/// The lease that a round is about.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The lock.
    pub name: Name,
    /// The owner.
    pub owner: Owner,
    /// Its ttl and the vote timeout.
    pub terms: Terms,
    /// The owner that `owner` replaces, if it adopts a lease.
    pub from: Option<Owner>,
    /// Nodes to which the owner was never sent. They have nothing to release.
    pub untaken: NodeSet,
    /// Absent in classic mode.
    pub fenced: Option<FencedLease>,
}

/// A state machine that asks every node once.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Machine {
    /// Extends a lease.
    Renew(Renew),
    /// Releases a lease, or checks whether the nodes have it.
    Round(Round),
}

/// How a round ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// The outcome of an extension.
    Renew(renew::Outcome),
    /// The outcome of a release or a check.
    Round(RoundKind, RoundOutcome),
}

/// One round. It exists until every node has answered or timed out, even if the caller has left.
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
    /// Send this command, or report immediately that it cannot be sent.
    Send {
        /// The node.
        node: usize,
        /// The command. Each connection inserts its own session.
        command: Command,
    },
    /// Call `handle_timeout` at this moment, unless a reply comes first.
    Until(Moment),
    /// Nothing to do until another reply comes, if one does.
    Idle,
}

impl QuorumRound {
    /// Starts a round. Nothing is sent before the first `poll_output`.
    #[must_use]
    pub const fn start(claim: Claim, machine: Machine) -> Self {
        Self { claim, machine, unsent: VecDeque::new() }
    }

    /// The lease that it is about.
    #[must_use]
    pub const fn claim(&self) -> &Claim {
        &self.claim
    }

    /// The state machine.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The next output.
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

    /// Handles the reply of a node. `None`: there was no usable reply. Returns the debt of a
    /// release without a reply.
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

    /// Handles the moment of [`Output::Until`].
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
            // An adoption extends the lease.
            (RoundKind::Extend, Some(from)) => builder.adopt(target(owner), from),
            (RoundKind::Check, _) => Command::Check { name: name.clone(), owner },
        }
    }
}

impl Machine {
    /// The outcome, as soon as it is certain.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        match self {
            Self::Renew(machine) => machine.outcome().map(Ended::Renew),
            Self::Round(machine) => {
                machine.outcome().map(|outcome| Ended::Round(machine.kind(), outcome))
            }
        }
    }

    /// The votes so far.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        match self {
            Self::Renew(machine) => machine.tally(),
            Self::Round(machine) => machine.tally(),
        }
    }

    /// The kind of the round.
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
