//! Counts what was seen, so that a test that compares nothing cannot pass.

use std::collections::BTreeMap;

use quorate_core::{
    command::{Command, Reply},
    membership::{Command as Membership, Handshake, NodeInfo, Reason, Reply as MembershipReply},
};

/// What was compared so far.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    /// Replies that were equal.
    pub(super) compared: u64,
    batches: u64,
    seen: BTreeMap<&'static str, u64>,
    /// Whether the node was in quarantine after its last handshake.
    is_quarantined: bool,
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
            (Command::Membership(Membership::Handshake(_)), Reply::Full) => "full: no handshake",
            (
                Command::Membership(Membership::Handshake(handshake)),
                Reply::Membership(MembershipReply::Info(info)),
            ) => self.kind_of_info(handshake, info),
            (
                Command::Membership(Membership::Enrol(_)),
                Reply::Membership(MembershipReply::Enrolled),
            ) => "enrolled",
            (Command::Membership(Membership::Enrol(_)), _) => "not enrolled",
            (
                Command::Membership(Membership::Change { .. }),
                Reply::Membership(MembershipReply::Changed),
            ) => "changed",
            (
                Command::Membership(Membership::Change { .. }),
                Reply::Membership(MembershipReply::TooSoon { .. }),
            ) => "changed too soon",
            (Command::Membership(Membership::Change { .. }), _) => "not changed",
            (
                Command::Membership(Membership::Admit { .. }),
                Reply::Membership(MembershipReply::Admitted),
            ) => {
                self.is_quarantined = false;
                "admitted"
            }
            (
                Command::Membership(Membership::Admit { .. }),
                Reply::Membership(MembershipReply::Holds { .. }),
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
    fn kind_of_info(&mut self, handshake: &Handshake, info: &NodeInfo) -> &'static str {
        let was_quarantined =
            std::mem::replace(&mut self.is_quarantined, info.quarantine.is_some());
        if let Some(config) = &info.config {
            self.count("a handshake with a set");
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
        if info.is_durable {
            self.count("durable");
        }
        if info.keys > 0 {
            self.count("holds something");
        }
        match (info.changes_in_ms, &info.config) {
            (1, _) => self.count("would change in a millisecond"),
            (0, Some(_)) => self.count("would change"),
            (0, None) => {}
            _ => self.count("would not change yet"),
        }
        let is_last = info.quarantine.is_some_and(|it| it.left_ms == 1);
        match (info.reason(), info.mark == handshake.mark) {
            (Some(Reason::Unknown), true) => "quarantined: unknown",
            (Some(Reason::OtherRun), true) => "quarantined: another run",
            (Some(Reason::RolledBack), true) => "quarantined: rolled back",
            (Some(Reason::ClockStepped), true) => "quarantined: clock stepped",
            (Some(_), false) if is_last => "the last millisecond of the quarantine",
            (Some(_), false) => "still quarantined",
            (None, true) if was_quarantined => "the quarantine has ended",
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
        (
            Command::Membership(Membership::Handshake(_)),
            Reply::Membership(MembershipReply::Info(_)),
        ) => "full: a handshake",
        (_, Reply::Membership(MembershipReply::Enrolled)) => "full: enrolled",
        (_, Reply::Membership(MembershipReply::Changed)) => "full: changed",
        (_, Reply::Membership(MembershipReply::Admitted)) => "full: admitted",
        (Command::Attach { .. }, Reply::Attached { .. }) => "full: attached",
        (Command::Ping { .. }, Reply::Attached { .. }) => "full: continues",
        _ => return None,
    })
}

pub(super) const FULL: [&str; 7] = [
    "full: no handshake",
    "full: a handshake",
    "full: enrolled",
    "full: changed",
    "full: admitted",
    "full: attached",
    "full: continues",
];

pub(super) const KINDS: [&str; 34] = [
    "quarantined: unknown",
    "quarantined: another run",
    "quarantined: rolled back",
    "quarantined: clock stepped",
    "still quarantined",
    "the last millisecond of the quarantine",
    "the quarantine has ended",
    "another run that has lost nothing",
    "votes",
    "a handshake with a set",
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
