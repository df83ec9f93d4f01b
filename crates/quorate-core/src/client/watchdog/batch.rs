//! A batch of renewals: one command to every node, with an outcome for each lease.

use super::LeaseId;
use crate::{
    command::{Command, Reply},
    fence::Fence,
    lease::Extension,
    moment::Moment,
    queue::{Extend, Extended},
    quorum::{Verdict, Vote},
    renew::{Outcome, Renew},
};

#[derive(Clone, Debug, Hash)]
pub(super) struct Batch {
    pub(super) command: Command,
    pub(super) sent_at: Moment,
    /// The vote timeout. Once the batch is overdue, the last deadline that a renewal must meet.
    pub(super) due_at: Moment,
    /// The vote timeout has passed. Answers still count, because each node answers once: with
    /// another batch it would only have more to do.
    pub(super) is_overdue: bool,
    /// In the order of the command's entries.
    pub(super) entries: Vec<Entry>,
}

/// The renewal of one lease.
#[derive(Clone, Debug, Hash)]
pub(super) struct Entry {
    renewal: Settled,
    machine: Renew,
    is_settled: bool,
}

/// A renewal, and its outcome once that is known.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Settled {
    pub(super) lease: LeaseId,
    pub(super) extension: Extension,
    /// The deadline that it must meet.
    pub(super) held_until: Moment,
    pub(super) outcome: Outcome,
}

impl Entry {
    pub(super) const fn lease(&self) -> LeaseId {
        self.renewal.lease
    }

    pub(super) const fn new(
        lease: LeaseId,
        extension: Extension,
        machine: Renew,
        held_until: Moment,
    ) -> Self {
        let renewal = Settled { lease, extension, held_until, outcome: Outcome::Unsure };
        Self { renewal, machine, is_settled: false }
    }
}

impl Batch {
    pub(super) fn handle_answer(&mut self, node: usize, reply: Option<&Reply>, now: Moment) {
        for (index, entry) in self.entries.iter_mut().enumerate() {
            let vote = match reply {
                Some(Reply::ExtendedKeys(results)) => self.command.extended_keys(results, index),
                Some(Reply::ExtendedLeases(results)) => self.command.extended(results, index),
                Some(_) | None => Vote::Unknown,
            };
            entry.machine.handle_vote(node, vote, now);
        }
    }

    /// The leases that a node has extended with a larger fence than they were sent with, and this
    /// fence. Usually there are none.
    pub(super) fn larger_fences(
        &self,
        reply: Option<&Reply>,
    ) -> impl Iterator<Item = (LeaseId, Fence)> {
        let results: &[Extended] = match reply {
            Some(Reply::ExtendedLeases(results)) if results.len() == self.entries.len() => results,
            _ => &[],
        };
        let sent: &[Extend] = match &self.command {
            Command::Extend { entries, .. } => entries,
            _ => &[],
        };
        let results = self.entries.iter().zip(results).zip(sent);
        results.filter_map(|((entry, result), sent)| match result {
            Extended::Renewed(fence) if *fence > sent.fence => Some((entry.lease(), *fence)),
            Extended::Renewed(_) | Extended::Refused(_) | Extended::Failed => None,
        })
    }

    /// Whether the reply of a node can still make a difference.
    pub(super) fn awaits(&self, node: usize) -> bool {
        let is_open = |entry: &Entry| entry.machine.tally().pending().contains(node);
        self.entries.iter().any(|entry| !entry.is_settled && is_open(entry))
    }

    /// The renewals that have no outcome yet, and whether a majority may still confirm them.
    pub(super) fn unsettled(&self) -> impl Iterator<Item = (Settled, bool)> {
        let open = self.entries.iter().filter(|entry| !entry.is_settled);
        open.map(|entry| (entry.renewal, entry.machine.tally().verdict() != Verdict::Lost))
    }

    pub(super) fn handle_timeout(&mut self, now: Moment) {
        self.entries.iter_mut().for_each(|entry| entry.machine.handle_timeout(now));
    }

    /// Takes the renewals whose outcome has become certain since the last call.
    pub(super) fn take_settled(&mut self) -> Vec<Settled> {
        let mut settled = Vec::new();
        for entry in self.entries.iter_mut().filter(|entry| !entry.is_settled) {
            if let Some(outcome) = entry.machine.outcome() {
                entry.is_settled = true;
                settled.push(Settled { outcome, ..entry.renewal });
            }
        }
        settled
    }

    pub(super) fn is_settled(&self) -> bool {
        self.entries.iter().all(|entry| entry.is_settled)
    }
}
