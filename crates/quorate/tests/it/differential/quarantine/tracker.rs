//! Counts what was seen, so that a test that compares nothing cannot pass.

use std::collections::BTreeMap;

use quorate_core::{
    command::{Command, Reply},
    membership::{Command as Membership, Handshake, NodeInfo, Reason, Reply as Told},
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
            (Command::Membership(Membership::Handshake(_)), Reply::Full) => "full: not met",
            (
                Command::Membership(Membership::Handshake(handshake)),
                Reply::Membership(Told::Info(met)),
            ) => self.met(handshake, met),
            (Command::Membership(Membership::Enrol(_)), Reply::Membership(Told::Enrolled)) => {
                "enrolled"
            }
            (Command::Membership(Membership::Enrol(_)), _) => "not enrolled",
            (Command::Membership(Membership::Change { .. }), Reply::Membership(Told::Changed)) => {
                "changed"
            }
            (
                Command::Membership(Membership::Change { .. }),
                Reply::Membership(Told::TooSoon { .. }),
            ) => "changed too soon",
            (Command::Membership(Membership::Change { .. }), _) => "not changed",
            (Command::Membership(Membership::Admit { .. }), Reply::Membership(Told::Admitted)) => {
                self.is_doubted = false;
                "admitted"
            }
            (
                Command::Membership(Membership::Admit { .. }),
                Reply::Membership(Told::Holds { .. }),
            ) => "not admitted: not empty",
            (Command::Membership(Membership::Admit { .. }), _) => "not admitted",
            (_, Reply::MembershipRequired) => "quarantined",
            (Command::Attach { terms, .. }, Reply::Attached { .. }) => match terms.mark {
                Some(_) => "attached under a mark",
                None => "attached without a mark",
            },
            (Command::Attach { .. }, _) => "not attached",
            (Command::Ping { terms, .. }, Reply::Attached { .. }) => match terms.mark {
                Some(_) => "continues under a mark",
                None => "continues without a mark",
            },
            (Command::Ping { .. }, _) => "does not continue",
            _ => "unknown",
        };
        self.count(kind);
    }

    /// Fresh marks do not repeat: a new mark means that the node was checked again.
    fn met(&mut self, handshake: &Handshake, met: &NodeInfo) -> &'static str {
        let was_doubted = std::mem::replace(&mut self.is_doubted, met.quarantine.is_some());
        if let Some(config) = &met.config {
            self.count("met with a set");
            self.count(if config.before.is_some() {
                "with one before"
            } else {
                "with none before"
            });
            self.count(if config.newcomer.is_some() {
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
        match (met.changes_in_ms, &met.config) {
            (1, _) => self.count("would change in a millisecond"),
            (0, Some(_)) => self.count("would change"),
            (0, None) => {}
            _ => self.count("would not change yet"),
        }
        let is_last = met.quarantine.is_some_and(|it| it.left_ms == 1);
        match (met.reason(), met.mark == handshake.mark) {
            (Some(Reason::Unknown), true) => "doubted: unknown",
            (Some(Reason::OtherRun), true) => "doubted: another run",
            (Some(Reason::RolledBack), true) => "doubted: rolled back",
            (Some(Reason::ClockStepped), true) => "doubted: clock stepped",
            (Some(_), false) if is_last => "the last millisecond of the quarantine",
            (Some(_), false) => "doubted still",
            (None, true) if was_doubted => "the quarantine has ended",
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

/// What a full server still does with its record.
const fn kind_of_full(command: &Command, reply: &Reply) -> Option<&'static str> {
    Some(match (command, reply) {
        (Command::Membership(Membership::Handshake(_)), Reply::Membership(Told::Info(_))) => {
            "full: met"
        }
        (_, Reply::Membership(Told::Enrolled)) => "full: enrolled",
        (_, Reply::Membership(Told::Changed)) => "full: changed",
        (_, Reply::Membership(Told::Admitted)) => "full: admitted",
        (Command::Attach { .. }, Reply::Attached { .. }) => "full: attached",
        (Command::Ping { .. }, Reply::Attached { .. }) => "full: continues",
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
    "full: continues",
];

pub(super) const KINDS: [&str; 34] = [
    "doubted: unknown",
    "doubted: another run",
    "doubted: rolled back",
    "doubted: clock stepped",
    "doubted still",
    "the last millisecond of the quarantine",
    "the quarantine has ended",
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
    "quarantined",
    "attached under a mark",
    "attached without a mark",
    "not attached",
    "continues under a mark",
    "continues without a mark",
    "does not continue",
];
