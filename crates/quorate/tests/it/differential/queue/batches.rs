//! Counts what happened to the entries of batches, so that a test without them cannot pass.

use std::collections::BTreeMap;

use quorate_core::{
    command::{BATCH_MAX, Command, ExtendedKey, Reply},
    queue::{Extended, Position, Push, PushKind},
};

/// What happened to the entries of batches.
#[derive(Debug, Default)]
pub(super) struct Batches {
    seen: BTreeMap<String, u64>,
}

impl Batches {
    pub(super) fn handle(&mut self, command: &Command, reply: &Reply) {
        let (Command::Batch(entries), Reply::Batch(replies)) = (command, reply) else { return };
        let kind = kind(&entries[0]);
        let outcomes: Vec<&str> = entries
            .iter()
            .zip(replies)
            .map(|(entry, reply)| outcome(entry, reply.as_ref().expect("the store has replied")))
            .collect();
        outcomes.iter().for_each(|outcome| self.count(format!("{kind}: {outcome}")));
        let is_usual = |outcome: &&str| {
            matches!(*outcome, "granted" | "released" | "stored" | "deleted" | "renewed")
        };
        let is_stale = outcomes.contains(&"stale");
        if outcomes.len() > 1 && outcomes.iter().all(is_usual) {
            self.count(format!("{kind}: all as usual"));
        } else if !is_stale && outcomes.iter().any(is_usual) {
            self.count(format!("{kind}: different outcomes"));
        }
        match entries.len() {
            BATCH_MAX => self.count(format!("{kind}: {BATCH_MAX} entries")),
            len if len > BATCH_MAX => self.count(format!("{kind}: more entries")),
            _ => {}
        }
        let stored = outcomes.iter().position(|outcome| *outcome != "full" && *outcome != "failed");
        let refused = outcomes.iter().rposition(|outcome| *outcome == "full");
        if stored.zip(refused).is_some_and(|(stored, refused)| stored < refused) {
            self.count(format!("{kind}: full after another outcome"));
        }
    }

    /// The pushes that one command has caused.
    pub(super) fn handle_pushes(&mut self, command: &Command, pushes: &[Push], is_full: bool) {
        let Command::Batch(entries) = command else { return };
        if pushes.iter().any(|push| push.kind == PushKind::Granted) {
            let when = if is_full { " when full" } else { "" };
            self.count(format!("{}: handed off{when}", kind(&entries[0])));
        }
    }

    fn count(&mut self, what: String) {
        *self.seen.entry(what).or_default() += 1;
    }

    pub(super) fn check_coverage(&self, seed: u64, least: u64, kinds: &[&str]) {
        for kind in kinds {
            let count = self.seen.get(*kind).copied().unwrap_or_default();
            assert!(count >= least, "{kind}: {count} of {least}; seed {seed}: {self:#?}");
        }
    }
}

fn kind(first: &Command) -> &'static str {
    match first {
        Command::Acquire { .. } => "acquire",
        Command::Release { .. } => "release",
        Command::Extend { .. } => "extend",
        Command::ExtendKeys { .. } => "extend key",
        Command::SetKey { .. } => "set key",
        Command::DeleteKey { .. } => "delete key",
        other => panic!("{other:?} is sent without a batch"),
    }
}

fn outcome(entry: &Command, reply: &Reply) -> &'static str {
    match (entry, reply) {
        (_, Reply::Stale) => "stale",
        (_, Reply::Full) => "full",
        (_, Reply::Granted { is_earlier: true, .. }) => "an earlier waiter",
        (Command::Acquire { request, .. }, Reply::Granted { fence, .. }) => {
            let ticket = Position::of(request.owner.as_bytes()).map(|position| position.ticket);
            if ticket == Some(fence.get()) { "granted" } else { "granted with another fence" }
        }
        (_, Reply::Queued { is_foreign: true, .. }) => "behind another library",
        (_, Reply::Queued { rank: Some(_), .. }) => "queued",
        (_, Reply::Queued { rank: None, .. }) => "not queued",
        (_, Reply::Released { is_ours: true }) => "released",
        (_, Reply::Released { is_ours: false }) => "not released",
        (_, Reply::Stored) => "stored",
        (_, Reply::Deleted) => "deleted",
        (_, Reply::Absent) => "absent",
        (_, Reply::NotOwner) => "of another owner",
        (_, Reply::ExtendedLeases(results)) => match results[0] {
            Extended::Renewed(_) => "renewed",
            Extended::Refused(_) => "refused",
            Extended::Failed => "failed",
        },
        (_, Reply::ExtendedKeys(results)) => match results[0] {
            ExtendedKey::Renewed => "renewed",
            ExtendedKey::Absent => "absent",
            ExtendedKey::NotOwner => "of another owner",
            ExtendedKey::Failed => "failed",
        },
        (entry, reply) => panic!("{reply:?} is no reply to {entry:?}"),
    }
}

/// What happens within seconds.
pub(super) const KINDS: [&str; 32] = [
    "acquire: all as usual",
    "acquire: different outcomes",
    "acquire: granted",
    "acquire: granted with another fence",
    "acquire: behind another library",
    "acquire: queued",
    "acquire: not queued",
    "acquire: stale",
    "release: all as usual",
    "release: different outcomes",
    "release: released",
    "release: not released",
    "release: handed off",
    "extend: all as usual",
    "extend: different outcomes",
    "extend: renewed",
    "extend: refused",
    "extend: stale",
    "extend key: different outcomes",
    "extend key: renewed",
    "extend key: absent",
    "extend key: of another owner",
    "extend key: stale",
    "set key: all as usual",
    "set key: different outcomes",
    "set key: stored",
    "set key: of another owner",
    "set key: stale",
    "delete key: different outcomes",
    "delete key: deleted",
    "delete key: absent",
    "delete key: of another owner",
];

/// What happens now and then. Large batches seldom fit into a millisecond of a busy machine.
pub(super) const SELDOM: [&str; 9] = [
    "acquire: an earlier waiter",
    "acquire: more entries",
    "delete key: all as usual",
    "acquire: 32 entries",
    "release: 32 entries",
    "extend: 32 entries",
    "extend key: 32 entries",
    "set key: 32 entries",
    "delete key: 32 entries",
];

/// What happens on a server without memory.
pub(super) const FULL: [&str; 7] = [
    "acquire: full",
    "acquire: full after another outcome",
    "set key: full",
    "extend: failed",
    "release: handed off when full",
    "acquire: different outcomes",
    "release: different outcomes",
];
