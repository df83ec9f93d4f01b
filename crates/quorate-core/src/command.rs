//! The commands of a node, and how each reply becomes a vote.

mod owner;
mod reply;

use std::sync::Arc;

pub use self::{
    owner::{ClientId, Owner},
    reply::{ExtendedKey, KeyObservation, Reply, SHOWN_LEN_MAX, Value},
};
use crate::{
    fence::SLACK_US,
    inspect::Cursor,
    membership::{self, Mark},
    name::Name,
    queue::{AcquireRequest, Extend, Extended, Sender, Session, Yield},
    quorum::Vote,
};

/// A request to one node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Command {
    /// Store the owner under the name for `ttl_ms`, unless the key exists.
    SetKey {
        /// The lock.
        name: Name,
        /// The new holder.
        owner: Owner,
        /// How long the node keeps the key.
        ttl_ms: u64,
        /// The sender; `None` without quarantine, where nodes have no sessions.
        sender: Option<Sender>,
    },
    /// Replace the owner `from` by `owner`, for `ttl_ms` from now. If a writer is replaced by a
    /// reader, the readers at the head of the queue are granted the lock too.
    Adopt {
        /// The lock.
        name: Name,
        /// The current holder.
        from: Owner,
        /// The new holder.
        owner: Owner,
        /// How long the node keeps the key.
        ttl_ms: u64,
        /// The sender; `None` in classic mode without quarantine.
        sender: Option<Sender>,
    },
    /// Delete the key if the owner holds it.
    DeleteKey {
        /// The lock.
        name: Name,
        /// The holder.
        owner: Owner,
    },
    /// Extend each of these keys from now, if its owner holds it. An extension neither recreates a
    /// key nor shortens its ttl: a delayed command must not undo a later one. The result of each
    /// key is independent of the others.
    ExtendKeys {
        /// The keys, at most [`EXTEND_MAX`] of them.
        entries: Arc<[KeyExtension]>,
        /// The sender; `None` without quarantine, where nodes have no sessions.
        sender: Option<Sender>,
    },
    /// Check whether the owner holds the key.
    Check {
        /// The lock.
        name: Name,
        /// The presumed holder.
        owner: Owner,
    },
    /// Read the value that is stored under the name.
    ReadKey {
        /// The lock.
        name: Name,
    },
    /// Report everything that the node knows about a lock.
    Inspect {
        /// The lock.
        name: Name,
        /// The most waiters to report, up to
        /// [`WAITING_SHOWN_MAX`](crate::inspect::WAITING_SHOWN_MAX).
        shown: u32,
    },
    /// List locks that are held or waited for: one page of them.
    List {
        /// The prefix of their names.
        prefix: Arc<str>,
        /// Where to continue; `None` for the first page.
        cursor: Option<Cursor>,
        /// Roughly how many keys the node scans.
        count: u32,
    },
    /// Read or change what the node knows about itself and its set of nodes.
    Membership(membership::Command),
    /// Start a session. From now on the node accepts only this session of the client.
    Attach {
        /// The client and its new session.
        sender: Sender,
        /// The terms of the session.
        terms: SessionTerms,
    },
    /// Keep a session alive.
    Ping {
        /// The sender.
        sender: Sender,
        /// The terms of the session.
        terms: SessionTerms,
    },
    /// Acquire a lock, or join its queue.
    Acquire {
        /// The sender.
        sender: Sender,
        /// The request.
        request: AcquireRequest,
    },
    /// Store a description of a client for people.
    Introduce {
        /// The client.
        client: ClientId,
        /// The description.
        who: Arc<str>,
        /// How long the node keeps the description.
        lifetime_ms: u64,
    },
    /// Read the description of a client.
    Who {
        /// The client.
        client: ClientId,
    },
    /// Release a lock or leave its queue. The node grants the lock to the next waiter.
    Release {
        /// The lock.
        name: Name,
        /// The holder or waiter.
        owner: Owner,
        /// The only grant to release, after which the owner stays in the queue. Without it the
        /// owner leaves for good, whichever client sends the command.
        yields: Option<Yield>,
    },
    /// Extend each of these leases from now. The result of each is independent of the others.
    Extend {
        /// The sender.
        sender: Sender,
        /// The leases, at most [`EXTEND_MAX`] of them.
        entries: Arc<[Extend]>,
    },
    /// Several commands about locks, executed in order. Each has a reply of its own. A batch
    /// contains no batch.
    Batch(Box<[Self]>),
}

impl From<membership::Command> for Command {
    fn from(command: membership::Command) -> Self {
        Self::Membership(command)
    }
}

impl Command {
    /// How the reply counts as a vote on this command. A reply that does not fit counts as unknown.
    #[must_use]
    pub fn vote(&self, reply: &Reply) -> Vote {
        match (self, reply) {
            (Self::SetKey { .. } | Self::Adopt { .. }, Reply::Stored)
            | (Self::DeleteKey { .. }, Reply::Deleted)
            | (Self::Attach { .. } | Self::Ping { .. }, Reply::Attached { .. })
            | (Self::Introduce { .. }, Reply::Introduced)
            | (Self::Acquire { .. }, Reply::Granted { .. })
            | (Self::Release { .. }, Reply::Released { is_ours: true }) => Vote::Grant,
            (Self::Extend { .. }, Reply::ExtendedLeases(results)) => self.extended(results, 0),
            (Self::Acquire { .. }, Reply::Queued { .. })
            | (Self::Release { .. }, Reply::Released { is_ours: false })
            | (Self::SetKey { .. }, Reply::NotOwner)
            | (Self::Adopt { .. } | Self::DeleteKey { .. }, Reply::Absent | Reply::NotOwner) => {
                Vote::Refuse
            }
            (Self::ExtendKeys { .. }, Reply::ExtendedKeys(results)) => {
                self.extended_keys(results, 0)
            }
            (Self::Check { owner, .. }, Reply::Key(observation)) => match observation {
                Some(KeyObservation { value: Value::Text(text), .. })
                    if **text == *owner.as_bytes() =>
                {
                    Vote::Grant
                }
                Some(_) | None => Vote::Refuse,
            },
            _ => Vote::Unknown,
        }
    }

    /// Whether the command changes nothing on a node and needs no session.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Check { .. }
            | Self::ReadKey { .. }
            | Self::Inspect { .. }
            | Self::List { .. }
            | Self::Who { .. } => true,
            Self::Membership(command) => command.is_read_only(),
            Self::Batch(entries) => entries.iter().all(Self::is_read_only),
            _ => false,
        }
    }

    /// Whether the command tries to acquire a lock. A node that recovers must not get it.
    #[must_use]
    pub fn is_acquire(&self) -> bool {
        let asks = |entry: &Self| matches!(entry, Self::Acquire { .. } | Self::SetKey { .. });
        self.entries().iter().any(asks)
    }

    /// Whether it is the repeated request of a waiter that the node may know.
    #[must_use]
    pub const fn is_heartbeat(&self) -> bool {
        matches!(
            self,
            Self::Acquire { request: AcquireRequest { is_waiting: true, is_known: true, .. }, .. }
        )
    }

    /// The entries of a batch. Any other command is its own only entry.
    #[must_use]
    pub const fn entries(&self) -> &[Self] {
        match self {
            Self::Batch(entries) => entries,
            single => std::slice::from_ref(single),
        }
    }

    /// The lock of a command that can be an entry of a batch. Extensions of several leases cannot.
    #[must_use]
    pub fn entry_name(&self) -> Option<&Name> {
        match self {
            Self::SetKey { name, .. }
            | Self::Adopt { name, .. }
            | Self::DeleteKey { name, .. }
            | Self::Check { name, .. }
            | Self::Release { name, .. }
            | Self::Acquire { request: AcquireRequest { name, .. }, .. } => Some(name),
            Self::ExtendKeys { entries, .. } if entries.len() == 1 => Some(&entries[0].name),
            Self::Extend { entries, .. } if entries.len() == 1 => Some(&entries[0].name),
            _ => None,
        }
    }

    /// Whether one call of a script can execute both commands.
    #[must_use]
    pub fn shares_call(&self, other: &Self) -> bool {
        matches!(
            (self, other),
            (Self::Acquire { .. }, Self::Acquire { .. })
                | (Self::Release { yields: None, .. }, Self::Release { yields: None, .. })
                | (Self::Extend { .. }, Self::Extend { .. })
                | (Self::ExtendKeys { .. }, Self::ExtendKeys { .. })
                | (Self::SetKey { sender: Some(_), .. }, Self::SetKey { sender: Some(_), .. })
                | (Self::DeleteKey { .. }, Self::DeleteKey { .. })
        )
    }

    /// Sets the session of the connection on which the command is sent.
    pub fn set_session(&mut self, session: Session) {
        match self {
            Self::Attach { sender, .. }
            | Self::Ping { sender, .. }
            | Self::Acquire { sender, .. }
            | Self::Extend { sender, .. }
            | Self::SetKey { sender: Some(sender), .. }
            | Self::ExtendKeys { sender: Some(sender), .. }
            | Self::Release { yields: Some(Yield { sender, .. }), .. }
            | Self::Adopt { sender: Some(sender), .. } => sender.session = session,
            Self::Batch(entries) => entries.iter_mut().for_each(|entry| entry.set_session(session)),
            _ => {}
        }
    }

    /// The vote on the entry at `index` of this `ExtendKeys`. All entries are unknown if the reply
    /// has a different number of results.
    #[must_use]
    pub fn extended_keys(&self, results: &[ExtendedKey], index: usize) -> Vote {
        match self {
            Self::ExtendKeys { entries, .. } if entries.len() == results.len() => {
                mutate!(BatchByFirst => let index = 0);
                results.get(index).map_or(Vote::Unknown, ExtendedKey::vote)
            }
            _ => Vote::Unknown,
        }
    }

    /// The vote on the entry at `index` of this `Extend`. All entries are unknown if the reply has
    /// a different number of results.
    #[must_use]
    pub fn extended(&self, results: &[Extended], index: usize) -> Vote {
        match self {
            Self::Extend { entries, .. } if entries.len() == results.len() => {
                mutate!(BatchByFirst => let index = 0);
                match results.get(index) {
                    Some(Extended::Renewed(_)) => Vote::Grant,
                    Some(Extended::Refused(_)) => Vote::Refuse,
                    Some(Extended::Failed) | None => Vote::Unknown,
                }
            }
            _ => Vote::Unknown,
        }
    }
}

/// The terms of a session.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SessionTerms {
    /// How long the session lasts without contact.
    pub lifetime_ms: u64,
    /// The mark of the node, as this client knows it; `None` without membership.
    pub mark: Option<Mark>,
    /// How far a ticket may differ from the node's time, in microseconds.
    pub slack_us: u64,
    /// The client's wall clock.
    pub wall_ms: u64,
}

impl SessionTerms {
    /// Terms for a node that is not a member of a set.
    #[must_use]
    pub const fn without_membership(lifetime_ms: u64) -> Self {
        Self { lifetime_ms, mark: None, slack_us: SLACK_US, wall_ms: 0 }
    }
}

/// One key to extend.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct KeyExtension {
    /// The lock.
    pub name: Name,
    /// The holder.
    pub owner: Owner,
    /// How long the node keeps it from now.
    pub ttl_ms: u64,
}

/// The most keys of one [`Command::ExtendKeys`]: a node executes nothing else meanwhile.
pub const EXTEND_MAX: usize = 128;

/// The most entries of one [`Command::Batch`]. A batch of heartbeats may have [`EXTEND_MAX`].
pub const BATCH_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Name {
        Name::parse("a", "").expect("valid")
    }

    /// Every command with every reply: only the listed pairs count, all others are unknown.
    #[test]
    fn mismatched_reply_counts_as_unknown() {
        let owner = Owner::new(&ClientId::from_random([1; 20]), 1, "me");
        let other = Owner::new(&ClientId::from_random([1; 20]), 11, "me");
        let (n, o) = (name, || owner.clone());
        let commands = [
            Command::SetKey { name: n(), owner: o(), ttl_ms: 1, sender: None },
            Command::Adopt { name: n(), from: other.clone(), owner: o(), ttl_ms: 1, sender: None },
            Command::DeleteKey { name: n(), owner: o() },
            Command::ExtendKeys {
                entries: [KeyExtension { name: n(), owner: o(), ttl_ms: 1 }].into(),
                sender: None,
            },
            Command::Check { name: n(), owner: o() },
            Command::ReadKey { name: n() },
        ];
        let observed = |value: &Owner| {
            let value = Value::Text(value.as_bytes().into());
            Reply::Key(Some(KeyObservation { value, expires_in_ms: Some(1) }))
        };
        let hash = Value::OtherType("hash".into());
        let replies = [
            Reply::Stored,
            Reply::Deleted,
            Reply::ExtendedKeys([ExtendedKey::Renewed].into()),
            Reply::Absent,
            Reply::NotOwner,
            Reply::Stale,
            Reply::Key(None),
            observed(&owner),
            observed(&other),
            Reply::Key(Some(KeyObservation { value: hash, expires_in_ms: None })),
        ];
        let table =
            ["G...R.....", "G..RR.....", ".G.RR.....", "..G.......", "......RGRR", ".........."];
        for (command, row) in commands.iter().zip(table) {
            for (reply, expected) in replies.iter().zip(row.chars()) {
                let vote = match expected {
                    'G' => Vote::Grant,
                    'R' => Vote::Refuse,
                    _ => Vote::Unknown,
                };
                assert_eq!(command.vote(reply), vote, "{command:?} {reply:?}");
            }
        }
    }

    #[test]
    fn each_extended_key_has_its_own_vote() {
        let owner = Owner::new(&ClientId::from_random([1; 20]), 1, "me");
        let entry = KeyExtension { name: name(), owner, ttl_ms: 1 };
        let command = Command::ExtendKeys { entries: vec![entry; 4].into(), sender: None };
        let results =
            [ExtendedKey::Renewed, ExtendedKey::Absent, ExtendedKey::NotOwner, ExtendedKey::Failed];
        let votes = [Vote::Grant, Vote::Refuse, Vote::Refuse, Vote::Unknown];
        for (index, vote) in votes.into_iter().enumerate() {
            assert_eq!(command.extended_keys(&results, index), vote);
            assert_eq!(
                command.extended_keys(&results[..3], index),
                Vote::Unknown,
                "a result is missing"
            );
        }
    }
}
