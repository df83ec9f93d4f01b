//! Counts what was seen, so that a test that compares nothing cannot pass.

use std::collections::BTreeMap;

use quorate_core::command::{Command, KeyObservation, Reply, Value};

use super::batch::{Memory, Step};

/// What was compared so far.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    /// Replies that were equal.
    pub(super) compared: u64,
    dropped_in_a_row: u64,
    replies: BTreeMap<&'static str, u64>,
    /// Expired keys, by the first command after it.
    expiries: BTreeMap<&'static str, u64>,
}

impl Tracker {
    pub(super) fn handle_compared(&mut self, reply: &Reply) {
        self.compared += 1;
        self.dropped_in_a_row = 0;
        *self.replies.entry(kind(reply)).or_default() += 1;
    }

    pub(super) fn handle_expiry(&mut self, seen_by: &Step) {
        let kind = match seen_by {
            Step::Ask(Command::SetKey { .. }) => "store",
            Step::Ask(Command::DeleteKey { .. }) => "delete",
            Step::Ask(Command::ExtendKeys { .. }) => "extend",
            Step::Ask(Command::Batch(_)) => "batch",
            Step::Ask(_) => "read",
            Step::Plant { .. } | Step::Clear | Step::Fill(_) | Step::HangUp { .. } => return,
        };
        *self.expiries.entry(kind).or_default() += 1;
    }

    /// A batch in which a millisecond ended.
    pub(super) fn handle_dropped(&mut self) {
        self.dropped_in_a_row += 1;
        assert!(self.dropped_in_a_row < 1_000, "no batch fits into a millisecond: {self:?}");
    }

    /// Every kind of reply was there often, and keys have expired under every kind of command.
    pub(super) fn check_coverage(&self, seed: u64, memory: Memory) {
        let least = |counts: &BTreeMap<_, u64>, kinds: &[&str], least: u64| {
            for kind in kinds {
                let count = counts.get(kind).copied().unwrap_or_default();
                assert!(count >= least, "{kind}: {count} of {least}; seed {seed}: {self:?}");
            }
        };
        least(&self.replies, &KINDS, self.compared / 200);
        if memory == Memory::Scarce {
            least(&self.replies, &["full"], self.compared / 200);
        }
        least(
            &self.expiries,
            &["store", "delete", "extend", "batch", "read"],
            self.compared / 1_000,
        );
        let expiries: u64 = self.expiries.values().sum();
        assert!(
            expiries >= self.compared / 50,
            "{expiries} keys have expired; seed {seed}: {self:?}"
        );
    }
}

fn kind(reply: &Reply) -> &'static str {
    match reply {
        Reply::Stored => "stored",
        Reply::Deleted => "deleted",
        Reply::ExtendedKeys(results) => match results {
            results if results.len() > 1 => "several extended",
            _ => "one extended",
        },
        Reply::Batch(each) => match each.first() {
            Some(Some(Reply::ExtendedKeys(_))) => "keys extended in a batch",
            _ if each.iter().all(|reply| *reply == Some(Reply::Deleted)) => {
                "all keys deleted in a batch"
            }
            _ => "keys deleted in a batch",
        },
        Reply::Absent => "absent",
        Reply::NotOwner => "of another owner",
        Reply::Full => "full",
        Reply::Key(None) => "no key",
        Reply::Key(Some(KeyObservation { value: Value::Text(_), expires_in_ms: Some(_) })) => {
            "text that ends"
        }
        Reply::Key(Some(KeyObservation { value: Value::Text(_), expires_in_ms: None })) => {
            "text that stays"
        }
        Reply::Key(Some(KeyObservation { value: Value::OtherType(_), .. })) => "another type",
        _ => "unknown",
    }
}

const KINDS: [&str; 12] = [
    "stored",
    "deleted",
    "several extended",
    "one extended",
    "keys extended in a batch",
    "keys deleted in a batch",
    "absent",
    "of another owner",
    "no key",
    "text that ends",
    "text that stays",
    "another type",
];
