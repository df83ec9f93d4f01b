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
            Step::Ask(Command::SetKey { .. }) => "take",
            Step::Ask(Command::DeleteKey { .. }) => "free",
            Step::Ask(Command::ExtendKeys { .. }) => "prolong",
            Step::Ask(_) => "look",
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
        least(&self.expiries, &["take", "free", "prolong", "look"], self.compared / 1_000);
        let expiries: u64 = self.expiries.values().sum();
        assert!(
            expiries >= self.compared / 50,
            "{expiries} keys have expired; seed {seed}: {self:?}"
        );
    }
}

fn kind(reply: &Reply) -> &'static str {
    match reply {
        Reply::Stored => "taken",
        Reply::Deleted => "freed",
        Reply::ExtendedKeys(fates) => match fates {
            fates if fates.len() > 1 => "many prolonged",
            _ => "one prolonged",
        },
        Reply::Absent => "absent",
        Reply::NotOwner => "another",
        Reply::Full => "full",
        Reply::Key(None) => "nothing seen",
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

const KINDS: [&str; 10] = [
    "taken",
    "freed",
    "many prolonged",
    "one prolonged",
    "absent",
    "another",
    "nothing seen",
    "text that ends",
    "text that stays",
    "another type",
];
