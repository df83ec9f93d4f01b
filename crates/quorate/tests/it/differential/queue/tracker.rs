//! Counts what was seen, so that a test that compares nothing cannot pass.

use std::collections::BTreeMap;

use quorate_core::{
    command::{Command, ExtendedKey, Owner, Reply},
    fence::{FENCE_RENEW_MS, Fence},
    moment::NodeTime,
    queue::{Extended, Group, Position, Push, PushKind, group, is_shared},
    store::{LockDetails, Store},
};

use super::{super::batch::Step, batches::Batches};

/// What was compared so far.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    /// Replies that were equal.
    pub(super) compared: u64,
    batches: u64,
    pub(super) entries: Batches,
    seen: BTreeMap<&'static str, u64>,
    /// The fence that was stored before the command that runs.
    stored: Option<Fence>,
    /// Its remaining lifetime.
    stored_left_ms: u64,
    is_free: bool,
    is_awaited: bool,
    /// It was held together.
    is_shared: bool,
    /// It was held by entries of an identity.
    is_entered: bool,
    /// The server had no memory left.
    is_full: bool,
}

impl Tracker {
    pub(super) fn handle_batch(&mut self) {
        self.batches += 1;
        let is_hopeless = self.batches > 1_000 && self.compared == 0;
        assert!(!is_hopeless, "no batch fits into a millisecond: {self:?}");
    }

    pub(super) fn handle_before(&mut self, step: &Step, store: &mut Store, now: NodeTime) {
        self.is_full = store.is_full();
        let name = match step {
            Step::Ask(Command::Acquire { request: ask, .. }) => &ask.name,
            Step::Ask(Command::Batch(entries)) => entries[0].entry_name().expect("a lock"),
            Step::Ask(Command::Release { name, .. }) => name,
            Step::Ask(Command::Extend { entries, .. }) => &entries[0].name,
            _ => return,
        };
        let aside = store.details(now, name);
        self.stored = aside.fence.map(|(fence, _)| fence);
        self.stored_left_ms = aside.fence.map_or(u64::MAX, |(_, left_ms)| left_ms);
        self.is_awaited = !aside.waiting.is_empty();
        self.is_shared = !aside.shares.is_empty();
        self.is_entered = aside.shares.iter().any(|(owner, _)| is_entry(owner));
        self.is_free = !store.names(now).contains(name);
    }

    pub(super) fn handle_compared(&mut self, command: &Command, reply: &Reply) {
        self.compared += 1;
        let full = self.is_full.then(|| self.kind_of_full(command, reply)).flatten();
        let entry = self.kind_of_entry(command, reply);
        let is_heartbeat = command.entries().iter().all(Command::is_heartbeat);
        for kind in self.kind_of_share(command, reply).into_iter().chain(full).chain(entry) {
            *self.seen.entry(kind).or_default() += 1;
        }
        let kind = match (command, reply) {
            (Command::SetKey { .. }, Reply::Stale) => "no key stored: stale",
            (Command::SetKey { .. }, Reply::Stored) => "a key stored by a session",
            (Command::SetKey { .. }, Reply::NotOwner) => "no key stored: of another owner",
            (Command::ExtendKeys { .. }, Reply::Stale) => "no key extended: stale",
            (_, Reply::ExtendedKeys(results)) => match results[0] {
                ExtendedKey::Renewed => "a key extended by a session",
                _ => "no key extended",
            },
            (_, Reply::Stale) => "stale",
            (_, Reply::Attached { .. }) => "attached",
            (_, Reply::Granted { is_earlier: true, .. }) => "an earlier waiter",
            (_, Reply::Granted { .. }) if !self.is_free => "granted again",
            (Command::Acquire { request: ask, .. }, Reply::Granted { fence, .. }) => {
                let ticket = Position::of(ask.owner.as_bytes()).expect("a waiter").ticket;
                match (fence.get().cmp(&ticket), self.stored) {
                    (std::cmp::Ordering::Less, _) => "a ticket of the future",
                    (std::cmp::Ordering::Equal, Some(_)) => "a larger ticket",
                    (std::cmp::Ordering::Equal, None) => "the first ticket",
                    (std::cmp::Ordering::Greater, Some(_)) => "a smaller ticket",
                    (std::cmp::Ordering::Greater, None) => "a ticket of the past",
                }
            }
            (_, Reply::Queued { is_foreign: true, .. }) => "queued behind another library",
            (_, Reply::Queued { rank: None, .. }) => "not queued",
            (_, Reply::Queued { rank: Some(0), .. }) => "the first waiter",
            (_, Reply::Queued { rank: Some(_), .. }) => "not the first waiter",
            (Command::Release { yields: Some(_), .. }, Reply::Released { is_ours: true }) => {
                "yielded"
            }
            (Command::Release { yields: Some(_), .. }, Reply::Released { .. }) => "not yielded",
            (_, Reply::Batch(each)) if is_heartbeat => match &each[0] {
                Some(Reply::Stale) => "stale",
                Some(Reply::Granted { .. }) if self.is_free => "a heartbeat finds it free",
                Some(Reply::Granted { .. }) => "a heartbeat of the holder",
                _ => "a heartbeat in the queue",
            },
            (Command::Adopt { .. }, Reply::Stored) => "adopted",
            (Command::Adopt { .. }, _) => "not adopted",
            (_, Reply::Released { is_ours: true }) if self.is_awaited => "handed off",
            (_, Reply::Released { is_ours: true }) => "released",
            (_, Reply::Released { is_ours: false }) if self.is_free => "released by no holder",
            (_, Reply::Released { is_ours: false }) => "not released",
            (_, Reply::ExtendedLeases(results)) => match results[0] {
                Extended::Renewed(_) if self.is_free => "healed",
                Extended::Renewed(fence) if Some(fence) > self.stored => "a fence raised",
                Extended::Renewed(_) if self.stored_left_ms <= FENCE_RENEW_MS => {
                    "the record of a fence extended"
                }
                Extended::Renewed(_) => "extended",
                Extended::Refused(_) if self.is_free => "not healed",
                Extended::Refused(_) | Extended::Failed => "not extended",
            },
            (_, Reply::Inspected(report)) => match (&report.observation, report.waiting_total) {
                (None, 0) => "inspected, not held",
                (Some(_), 0) => "inspected, held",
                (_, 1..) => "inspected, awaited",
            },
            (_, Reply::Listed(listed)) if listed.names.is_empty() => "nothing listed",
            (_, Reply::Listed(_)) => "listed",
            _ => return,
        };
        *self.seen.entry(kind).or_default() += 1;
    }

    /// What happened to shared holders of a lock, and to waiters for a share.
    fn kind_of_share(&self, command: &Command, reply: &Reply) -> Option<&'static str> {
        Some(match (command, reply) {
            (Command::Acquire { request: ask, .. }, Reply::Granted { fence, is_earlier })
                if is_shared(&ask.owner) =>
            {
                match (self.is_free, self.is_shared, *is_earlier) {
                    (true, ..) => "the first to share",
                    (_, true, true) => "a share that is waited for",
                    (_, true, _) if Some(*fence) > self.stored => "one more to share",
                    (_, true, _) => "shared already",
                    (_, false, _) => return None,
                }
            }
            (Command::Acquire { request: ask, .. }, Reply::Queued { .. }) => {
                match (self.is_shared, is_shared(&ask.owner)) {
                    (true, true) => "behind an exclusive waiter",
                    (true, false) => "behind shared holders",
                    (false, true) => "behind an exclusive holder",
                    (false, false) => return None,
                }
            }
            (Command::Release { yields, .. }, Reply::Released { is_ours }) if self.is_shared => {
                match (yields.is_some(), *is_ours, self.is_awaited) {
                    (true, true, _) => "a share yielded",
                    (false, true, true) => "a share released to others",
                    (false, true, false) => "a share released",
                    (false, false, true) => "shared holders unblocked",
                    (..) => return None,
                }
            }
            (Command::Extend { entries, .. }, Reply::ExtendedLeases(results)) => {
                let is_kept = matches!(results[0], Extended::Renewed(_));
                match (is_shared(&entries[0].owner), is_kept, self.is_free) {
                    (true, true, true) => "a share healed",
                    (true, true, false) => "a share extended",
                    (true, false, _) => "a share not extended",
                    (false, ..) => return None,
                }
            }
            (Command::Adopt { from, .. }, Reply::Stored) if is_shared(from) => "a share adopted",
            (Command::Adopt { from, owner, .. }, reply) if is_shared(owner) && !is_shared(from) => {
                match (reply, self.is_shared, self.is_awaited) {
                    (Reply::Stored, true, _) => "downgraded before",
                    (Reply::Stored, false, true) => "downgraded, and awaited",
                    (Reply::Stored, false, false) => "downgraded",
                    (Reply::Absent, ..) => "not downgraded, absent",
                    (Reply::NotOwner, ..) => "not downgraded, of another owner",
                    (..) => return None,
                }
            }
            (Command::Adopt { from, owner, .. }, Reply::NotOwner)
                if is_shared(from) && !is_shared(owner) =>
            {
                "no reader becomes a writer"
            }
            (Command::Check { owner, .. }, Reply::Key(Some(_))) if is_shared(owner) => {
                "a share inspected"
            }
            (_, Reply::Inspected(report)) if report.shares.len() > 1 => "shares inspected",
            _ => return None,
        })
    }

    /// What happened to entries of a reentrant lock.
    fn kind_of_entry(&self, command: &Command, reply: &Reply) -> Option<&'static str> {
        Some(match (command, reply) {
            (Command::Acquire { request: ask, .. }, Reply::Granted { is_earlier, .. })
                if is_entry(&ask.owner) =>
            {
                match (self.is_free, *is_earlier) {
                    (true, _) => "the first entry",
                    (false, true) => "an entry that is waited for",
                    (false, false) => "an entry among its own",
                }
            }
            (Command::Acquire { request: ask, .. }, Reply::Queued { .. }) => {
                match (self.is_entered, self.is_shared, is_entry(&ask.owner)) {
                    (true, _, true) => "an entry behind another identity",
                    (true, _, false) => "behind entries",
                    (false, true, true) => "an entry behind readers",
                    (false, false, true) => "an entry behind an exclusive holder",
                    (false, _, false) => return None,
                }
            }
            (Command::Release { .. }, Reply::Released { is_ours: true }) if self.is_entered => {
                match self.is_awaited {
                    true => "an entry released to others",
                    false => "an entry released",
                }
            }
            (Command::Extend { entries, .. }, Reply::ExtendedLeases(results))
                if is_entry(&entries[0].owner) =>
            {
                match (&results[0], self.is_free) {
                    (Extended::Renewed(_), true) => "an entry healed",
                    (Extended::Renewed(_), false) => "an entry extended",
                    (Extended::Refused(_), true) => "an entry not healed",
                    (Extended::Refused(_) | Extended::Failed, _) => return None,
                }
            }
            (Command::Adopt { from, .. }, Reply::Stored) if is_entry(from) => "an entry adopted",
            _ => return None,
        })
    }

    /// What happened on a server without memory.
    fn kind_of_full(&self, command: &Command, reply: &Reply) -> Option<&'static str> {
        Some(match (command, reply) {
            (Command::Introduce { .. }, Reply::Full) => "full: a client not introduced",
            (Command::Introduce { .. }, _) => "full: a client introduced again",
            (Command::SetKey { .. }, Reply::Full) => "full: no key stored",
            (Command::Acquire { request: ask, .. }, Reply::Full) => match is_shared(&ask.owner) {
                true => "full: a new reader refused",
                false => "full: a new owner refused",
            },
            (Command::Acquire { .. }, Reply::Granted { .. }) => match self.is_free {
                true => "full: a waiter granted",
                false => "full: a holder granted again",
            },
            (Command::Acquire { .. }, Reply::Queued { .. }) => "full: still in the queue",
            (Command::Batch(entries), Reply::Batch(each)) if entries[0].is_heartbeat() => {
                match each.contains(&Some(Reply::Full)) {
                    true => "full: a new owner among others",
                    false => "full: other waiters reported",
                }
            }
            (Command::Release { yields: Some(_), .. }, Reply::Released { is_ours: true }) => {
                "full: yielded"
            }
            (_, Reply::Released { is_ours: true }) if self.is_awaited => "full: handed off",
            (_, Reply::ExtendedLeases(results)) => match results[0] {
                Extended::Failed => "full: not healed",
                Extended::Renewed(_) if self.is_free => "full: healed",
                Extended::Renewed(fence) if Some(fence) > self.stored => "full: a fence raised",
                Extended::Renewed(_) => "full: extended",
                Extended::Refused(_) => return None,
            },
            (Command::Adopt { from, owner, .. }, Reply::Stored) => {
                match is_shared(owner) && !is_shared(from) {
                    true => "full: downgraded",
                    false => "full: adopted",
                }
            }
            (_, Reply::Attached { .. }) => "full: attached",
            _ => return None,
        })
    }

    pub(super) fn handle_push(&mut self, push: &Push) {
        let kind = match push.kind {
            PushKind::Granted => "notified of a grant",
            PushKind::Inquired => "notified of an earlier waiter",
        };
        *self.seen.entry(kind).or_default() += 1;
    }

    /// What was known about a lock before some time passed, and after it.
    pub(super) fn handle_passed(&mut self, before: &LockDetails, after: &LockDetails) {
        let fence = match (before.fence, after.fence) {
            (Some(_), Some((_, 0))) => Some("the last millisecond of a fence"),
            (Some(_), None) => Some("a fence expired"),
            _ => None,
        };
        let queue = match (before.queue_ends_in_ms, after.queue_ends_in_ms) {
            (Some(_), Some(0)) => Some("the last millisecond of a queue"),
            (Some(_), None) => Some("a queue expired"),
            _ => None,
        };
        for kind in [fence, queue].into_iter().flatten() {
            *self.seen.entry(kind).or_default() += 1;
        }
    }

    /// How often it happened.
    pub(super) fn count(&self, kind: &str) -> u64 {
        self.seen.get(kind).copied().unwrap_or_default()
    }

    /// Everything that can happen was there often; some things, now and then.
    pub(super) fn check_coverage(&self, seed: u64, kinds: &[&str]) {
        for kind in kinds {
            let is_seldom = SELDOM.contains(kind) || FULL.contains(kind);
            let one_of = if is_seldom { 5_000 } else { 2_000 };
            let count = self.count(kind);
            assert!(count >= self.compared / one_of, "{kind}: {count}; seed {seed}: {self:?}");
        }
    }
}

fn is_entry(owner: &Owner) -> bool {
    matches!(group(owner), Some(Group::Identity(_)))
}

/// What happens within seconds.
pub(super) const KINDS: [&str; 65] = [
    "no key stored: stale",
    "a key stored by a session",
    "no key stored: of another owner",
    "no key extended: stale",
    "a key extended by a session",
    "no key extended",
    "inspected, not held",
    "inspected, held",
    "inspected, awaited",
    "nothing listed",
    "listed",
    "adopted",
    "not adopted",
    "a heartbeat finds it free",
    "a heartbeat of the holder",
    "a heartbeat in the queue",
    "stale",
    "attached",
    "an earlier waiter",
    "granted again",
    "a ticket of the future",
    "a larger ticket",
    "the first ticket",
    "a smaller ticket",
    "a ticket of the past",
    "queued behind another library",
    "not queued",
    "the first waiter",
    "not the first waiter",
    "yielded",
    "not yielded",
    "handed off",
    "released",
    "released by no holder",
    "not released",
    "healed",
    "a fence raised",
    "extended",
    "not healed",
    "notified of a grant",
    "notified of an earlier waiter",
    "the first to share",
    "one more to share",
    "shared already",
    "behind shared holders",
    "behind an exclusive holder",
    "a share yielded",
    "a share released to others",
    "a share released",
    "a share healed",
    "a share extended",
    "a share not extended",
    "a share adopted",
    "a share inspected",
    "the first entry",
    "an entry among its own",
    "an entry behind another identity",
    "behind entries",
    "an entry behind readers",
    "an entry behind an exclusive holder",
    "an entry released to others",
    "an entry released",
    "an entry healed",
    "an entry extended",
    "an entry not healed",
];

/// What happens on a server without memory.
pub(super) const FULL: [&str; 19] = [
    "full: a client not introduced",
    "full: a client introduced again",
    "full: no key stored",
    "full: a new reader refused",
    "full: a new owner refused",
    "full: a waiter granted",
    "full: a holder granted again",
    "full: still in the queue",
    "full: a new owner among others",
    "full: other waiters reported",
    "full: yielded",
    "full: handed off",
    "full: not healed",
    "full: healed",
    "full: a fence raised",
    "full: extended",
    "full: adopted",
    "full: downgraded",
    "full: attached",
];

/// What happens now and then, or if hours pass.
pub(super) const SELDOM: [&str; 14] = [
    "downgraded",
    "downgraded, and awaited",
    "not downgraded, absent",
    "not downgraded, of another owner",
    "an entry that is waited for",
    "an entry adopted",
    "downgraded before",
    "no reader becomes a writer",
    "a share that is waited for",
    "behind an exclusive waiter",
    "the last millisecond of a fence",
    "a fence expired",
    "the last millisecond of a queue",
    "a queue expired",
];
