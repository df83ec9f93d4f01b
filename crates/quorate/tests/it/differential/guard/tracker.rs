//! Counts what was seen, so that a test that compares nothing cannot pass.

use std::collections::BTreeMap;

use quorate_core::{
    command::{Command, Reply},
    guard::{Doubt, Greeting, Met},
};

/// What was compared so far.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    /// Replies that were equal.
    pub(super) compared: u64,
    batches: u64,
    seen: BTreeMap<&'static str, u64>,
    /// Whether the node was doubted when it was last met.
    is_doubted: bool,
}

impl Tracker {
    pub(super) fn handle_batch(&mut self) {
        self.batches += 1;
        let is_hopeless = self.batches > 1_000 && self.compared == 0;
        assert!(!is_hopeless, "the server's clock does not stand still: {self:?}");
    }

    pub(super) fn handle_compared(&mut self, command: &Command, reply: &Reply, is_full: bool) {
        self.compared += 1;
        if let Some(kind) = kind_of_full(command, reply).filter(|_| is_full) {
            self.count(kind);
        }
        let kind = match (command, reply) {
            (Command::Meet { .. }, Reply::Full) => "full: not met",
            (Command::Meet { greeting }, Reply::Met(met)) => self.met(greeting, met),
            (Command::Enrol { .. }, Reply::Enrolled) => "enrolled",
            (Command::Enrol { .. }, _) => "not enrolled",
            (Command::Change { .. }, Reply::Changed) => "changed",
            (Command::Change { .. }, Reply::TooSoon { .. }) => "changed too soon",
            (Command::Change { .. }, _) => "not changed",
            (Command::Admit { .. }, Reply::Admitted) => {
                self.is_doubted = false;
                "admitted"
            }
            (Command::Admit { .. }, Reply::Holds { .. }) => "not admitted: not empty",
            (Command::Admit { .. }, _) => "not admitted",
            (_, Reply::Guarded) => "guarded",
            (Command::Attach { stay, .. }, Reply::Attached { .. }) => match stay.mark {
                Some(_) => "attached under a mark",
                None => "attached without a mark",
            },
            (Command::Attach { .. }, _) => "not attached",
            (Command::Ping { stay, .. }, Reply::Attached { .. }) => match stay.mark {
                Some(_) => "goes on under a mark",
                None => "goes on without a mark",
            },
            (Command::Ping { .. }, _) => "does not go on",
            _ => "unknown",
        };
        self.count(kind);
    }

    /// Fresh marks do not repeat: who gets it was judged anew.
    fn met(&mut self, greeting: &Greeting, met: &Met) -> &'static str {
        let was_doubted = std::mem::replace(&mut self.is_doubted, met.doubt.is_some());
        if let Some(pact) = &met.pact {
            self.count("met with a set");
            self.count(if pact.before.is_some() { "with one before" } else { "with none before" });
            self.count(if pact.newcomer.is_some() {
                "with a newcomer"
            } else {
                "with no newcomer"
            });
        }
        if met.is_durable {
            self.count("durable");
        }
        if met.keys > 0 {
            self.count("holds something");
        }
        match (met.changes_in_ms, &met.pact) {
            (1, _) => self.count("would change in a millisecond"),
            (0, Some(_)) => self.count("would change"),
            (0, None) => {}
            _ => self.count("would not change yet"),
        }
        match (met.doubt, met.mark == greeting.mark) {
            (Some((Doubt::Unknown, _)), true) => "doubted: unknown",
            (Some((Doubt::OtherRun, _)), true) => "doubted: another run",
            (Some((Doubt::RolledBack, _)), true) => "doubted: rolled back",
            (Some((Doubt::ClockStepped, _)), true) => "doubted: clock stepped",
            (Some((_, 1)), false) => "the last millisecond of the guard",
            (Some(_), false) => "doubted still",
            (None, true) if was_doubted => "the guard is over",
            (None, true) => "another run that has lost nothing",
            (None, false) => "votes",
        }
    }

    fn count(&mut self, kind: &'static str) {
        *self.seen.entry(kind).or_default() += 1;
    }

    /// Everything that can happen was there often.
    pub(super) fn check_coverage(&self, seed: u64, kinds: &[&str]) {
        for kind in kinds {
            let count = self.seen.get(*kind).copied().unwrap_or_default();
            let one_of = if FULL.contains(kind) { 5_000 } else { 2_000 };
            assert!(count >= self.compared / one_of, "{kind}: {count}; seed {seed}: {self:#?}");
        }
    }
}

/// What a server without memory goes on to do with its record.
const fn kind_of_full(command: &Command, reply: &Reply) -> Option<&'static str> {
    Some(match (command, reply) {
        (Command::Meet { .. }, Reply::Met(_)) => "full: met",
        (_, Reply::Enrolled) => "full: enrolled",
        (_, Reply::Changed) => "full: changed",
        (_, Reply::Admitted) => "full: admitted",
        (Command::Attach { .. }, Reply::Attached { .. }) => "full: attached",
        (Command::Ping { .. }, Reply::Attached { .. }) => "full: goes on",
        _ => return None,
    })
}

pub(super) const FULL: [&str; 7] = [
    "full: not met",
    "full: met",
    "full: enrolled",
    "full: changed",
    "full: admitted",
    "full: attached",
    "full: goes on",
];

pub(super) const KINDS: [&str; 34] = [
    "doubted: unknown",
    "doubted: another run",
    "doubted: rolled back",
    "doubted: clock stepped",
    "doubted still",
    "the last millisecond of the guard",
    "the guard is over",
    "another run that has lost nothing",
    "votes",
    "met with a set",
    "with one before",
    "with none before",
    "with a newcomer",
    "with no newcomer",
    "durable",
    "holds something",
    "would change",
    "would change in a millisecond",
    "would not change yet",
    "enrolled",
    "not enrolled",
    "changed",
    "changed too soon",
    "not changed",
    "admitted",
    "not admitted: not empty",
    "not admitted",
    "guarded",
    "attached under a mark",
    "attached without a mark",
    "not attached",
    "goes on under a mark",
    "goes on without a mark",
    "does not go on",
];
