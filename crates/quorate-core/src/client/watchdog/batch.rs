//! Renewals on their way: one command to every node, each lease judged by itself.

use super::{HeldLease, LeaseId};
use crate::{
    command::{Command, Prolongation, Reply},
    lease::Extension,
    line::Speaker,
    moment::Moment,
    quorum::Vote,
    renew::{Outcome, Renew},
};

#[derive(Clone, Debug, Hash)]
pub(super) struct Batch {
    pub(super) command: Command,
    pub(super) sent_at: Moment,
    pub(super) give_up_at: Moment,
    /// In the order of the command's.
    pub(super) entries: Vec<Entry>,
}

/// The renewal of one lease.
#[derive(Clone, Debug, Hash)]
pub(super) struct Entry {
    renewal: Settled,
    machine: Renew,
    is_settled: bool,
    key: Key,
}

/// What a node is to extend.
#[derive(Clone, Debug, Hash)]
enum Key {
    Fenced(crate::line::Extend),
    Classic(Prolongation),
}

/// A renewal, and its outcome once that is known.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Settled {
    pub(super) lease: LeaseId,
    pub(super) extension: Extension,
    /// The deadline that it must not miss.
    pub(super) held_until: Moment,
    pub(super) outcome: Outcome,
}

impl Entry {
    pub(super) fn new(
        lease: LeaseId,
        held: &HeldLease,
        extension: Extension,
        machine: Renew,
        held_until: Moment,
    ) -> Self {
        let (name, owner) = (held.name().clone(), held.owner().clone());
        let ttl_ms = held.terms().ttl_ms();
        let key = match held.fenced() {
            Some(fenced) => Key::Fenced(fenced.extend(name, owner, ttl_ms)),
            None => Key::Classic(Prolongation { name, owner, ttl_ms }),
        };
        let renewal = Settled { lease, extension, held_until, outcome: Outcome::Unsure };
        Self { renewal, machine, is_settled: false, key }
    }
}

/// One command for all of them. All leases of a client are of one mode. `known` speaks where nodes
/// know sessions.
pub(super) fn command(entries: &[Entry], speaker: Speaker, known: Option<Speaker>) -> Command {
    let fenced = entries.iter().filter_map(|entry| match &entry.key {
        Key::Fenced(extend) => Some(extend.clone()),
        Key::Classic(_) => None,
    });
    let classic = entries.iter().filter_map(|entry| match &entry.key {
        Key::Fenced(_) => None,
        Key::Classic(prolongation) => Some(prolongation.clone()),
    });
    match entries.first().map(|entry| &entry.key) {
        Some(Key::Fenced(_)) => Command::Extend { speaker, entries: fenced.collect() },
        _ => Command::Prolong { speaker: known, entries: classic.collect() },
    }
}

impl Batch {
    pub(super) fn handle_answer(&mut self, node: usize, reply: Option<&Reply>, now: Moment) {
        for (index, entry) in self.entries.iter_mut().enumerate() {
            let vote = match reply {
                Some(Reply::Each(fates)) => self.command.prolonged(fates, index),
                Some(Reply::EachExtended(fates)) => self.command.extended(fates, index),
                Some(_) | None => Vote::Unknown,
            };
            entry.machine.handle_vote(node, vote, now);
        }
    }

    /// Whether the answer of a node can still make a difference.
    pub(super) fn awaits(&self, node: usize) -> bool {
        let is_open = |entry: &Entry| entry.machine.tally().pending().contains(node);
        self.entries.iter().any(|entry| !entry.is_settled && is_open(entry))
    }

    /// The leases whose renewal has no outcome yet.
    pub(super) fn unsettled(&self) -> impl Iterator<Item = LeaseId> {
        let open = self.entries.iter().filter(|entry| !entry.is_settled);
        open.map(|entry| entry.renewal.lease)
    }

    pub(super) fn handle_timeout(&mut self, now: Moment) {
        self.entries.iter_mut().for_each(|entry| entry.machine.handle_timeout(now));
    }

    /// The renewals whose outcome has become certain since the last call.
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
