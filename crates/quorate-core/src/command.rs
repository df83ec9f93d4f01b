//! The whole language that is spoken to a node, and how each reply becomes a vote.

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

/// What is asked of one node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Command {
    /// Store the owner under the name for `ttl_ms`, if nothing is there.
    SetKey {
        /// The lock.
        name: Name,
        /// Who takes it.
        owner: Owner,
        /// How long the node keeps it.
        ttl_ms: u64,
        /// Who speaks; `None` where nodes are not guarded, and there are no sessions.
        sender: Option<Sender>,
    },
    /// Put a new owner in the place of the one who left the lock, for `ttl_ms` from now. A writer
    /// can leave it to a reader, with whom those readers come in that are next in line.
    Adopt {
        /// The lock.
        name: Name,
        /// Who left it.
        from: Owner,
        /// Who takes it over.
        owner: Owner,
        /// How long the node keeps it.
        ttl_ms: u64,
        /// Who speaks; `None` in classic mode where nodes are not guarded.
        sender: Option<Sender>,
    },
    /// Delete the key, if it is the owner's.
    DeleteKey {
        /// The lock.
        name: Name,
        /// Who gives it back.
        owner: Owner,
    },
    /// Let each of these keys live on from now, if it is its owner's. No key is created again, and
    /// none is made to go earlier: an order that comes late must not undo a later one. Each is
    /// judged by itself: one that fails does not void the others.
    ExtendKeys {
        /// The keys, at most [`EXTEND_MAX`] of them.
        entries: Arc<[KeyExtension]>,
        /// Who speaks; `None` where nodes are not guarded, and there are no sessions.
        sender: Option<Sender>,
    },
    /// Say whether the key is the owner's.
    Check {
        /// The lock.
        name: Name,
        /// Who believes to hold it.
        owner: Owner,
    },
    /// Say what is stored under the name.
    ReadKey {
        /// The lock.
        name: Name,
    },
    /// Say all that is known about a lock.
    Inspect {
        /// The lock.
        name: Name,
        /// How many of those in line are told, at most
        /// [`WAITING_SHOWN_MAX`](crate::inspect::WAITING_SHOWN_MAX).
        shown: u32,
    },
    /// Say which locks are held or waited for: a page of them.
    List {
        /// How their names begin.
        prefix: Arc<str>,
        /// Where to go on; `None` at first.
        cursor: Option<Cursor>,
        /// How many keys are looked at, more or less.
        count: u32,
    },
    /// What is said to the node about itself and about the set of nodes.
    Membership(membership::Command),
    /// Begin a session: from now on the client speaks with this one, and with no other.
    Attach {
        /// Who speaks, and how it will be known.
        sender: Sender,
        /// On which terms.
        terms: SessionTerms,
    },
    /// Go on with a session.
    Ping {
        /// Who speaks.
        sender: Sender,
        /// On which terms.
        terms: SessionTerms,
    },
    /// Have the lock, or a place in its line.
    Acquire {
        /// Who speaks.
        sender: Sender,
        /// What is wanted.
        ask: AcquireRequest,
    },
    /// Tell who a client is, in words for people.
    Introduce {
        /// The client.
        client: ClientId,
        /// Who it is.
        who: Arc<str>,
        /// How long that is kept.
        life_ms: u64,
    },
    /// Say who a client is.
    Who {
        /// The client.
        client: ClientId,
    },
    /// Give a lock or a place in its line back, and hand the lock to the next in line.
    Release {
        /// The lock.
        name: Name,
        /// Who gives it back.
        owner: Owner,
        /// The one grant that is given back, and for which the owner stays in line; without it the
        /// owner goes for good, whoever says so.
        yields: Option<Yield>,
    },
    /// Let each of these leases live on from now. Each is judged by itself.
    Extend {
        /// Who speaks.
        sender: Sender,
        /// The leases, at most [`EXTEND_MAX`] of them.
        entries: Arc<[Extend]>,
    },
    /// Several commands about locks, run in their order. Each is answered by itself. No entry is a
    /// batch.
    Batch(Box<[Self]>),
}

impl From<membership::Command> for Command {
    fn from(command: membership::Command) -> Self {
        Self::Membership(command)
    }
}

impl Command {
    /// What the reply to this command says about it. A reply that does not fit is no answer.
    #[must_use]
    pub fn vote(&self, reply: &Reply) -> Vote {
        match (self, reply) {
            (Self::SetKey { .. } | Self::Adopt { .. }, Reply::Stored)
            | (Self::DeleteKey { .. }, Reply::Deleted)
            | (Self::Attach { .. } | Self::Ping { .. }, Reply::Attached { .. })
            | (Self::Introduce { .. }, Reply::Introduced)
            | (Self::Acquire { .. }, Reply::Granted { .. })
            | (Self::Release { .. }, Reply::Released { is_ours: true }) => Vote::Grant,
            (Self::Extend { .. }, Reply::ExtendedLeases(fates)) => self.extended(fates, 0),
            (Self::Acquire { .. }, Reply::Queued { .. })
            | (Self::Release { .. }, Reply::Released { is_ours: false })
            | (Self::SetKey { .. }, Reply::NotOwner)
            | (Self::Adopt { .. } | Self::DeleteKey { .. }, Reply::Absent | Reply::NotOwner) => {
                Vote::Refuse
            }
            (Self::ExtendKeys { .. }, Reply::ExtendedKeys(fates)) => self.extended_keys(fates, 0),
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

    /// Whether it changes nothing on a node, and needs no session.
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

    /// Whether it asks for a lock: a node that recovers is not asked yet.
    #[must_use]
    pub fn is_acquire(&self) -> bool {
        let asks = |entry: &Self| matches!(entry, Self::Acquire { .. } | Self::SetKey { .. });
        self.entries().iter().any(asks)
    }

    /// Whether a waiter that the node may know repeats its request.
    #[must_use]
    pub const fn is_heartbeat(&self) -> bool {
        matches!(
            self,
            Self::Acquire { ask: AcquireRequest { is_waiting: true, is_known: true, .. }, .. }
        )
    }

    /// The entries of a batch; any other command is its only entry.
    #[must_use]
    pub const fn entries(&self) -> &[Self] {
        match self {
            Self::Batch(entries) => entries,
            single => std::slice::from_ref(single),
        }
    }

    /// The lock of a command that can be an entry of a batch. Renewals of several leases cannot.
    #[must_use]
    pub fn entry_name(&self) -> Option<&Name> {
        match self {
            Self::SetKey { name, .. }
            | Self::Adopt { name, .. }
            | Self::DeleteKey { name, .. }
            | Self::Check { name, .. }
            | Self::Release { name, .. }
            | Self::Acquire { ask: AcquireRequest { name, .. }, .. } => Some(name),
            Self::ExtendKeys { entries, .. } if entries.len() == 1 => Some(&entries[0].name),
            Self::Extend { entries, .. } if entries.len() == 1 => Some(&entries[0].name),
            _ => None,
        }
    }

    /// Says it with this session: the one of the connection on which it is sent.
    pub fn set_session(&mut self, today: Session) {
        match self {
            Self::Attach { sender, .. }
            | Self::Ping { sender, .. }
            | Self::Acquire { sender, .. }
            | Self::Extend { sender, .. }
            | Self::SetKey { sender: Some(sender), .. }
            | Self::ExtendKeys { sender: Some(sender), .. }
            | Self::Release { yields: Some(Yield { sender, .. }), .. }
            | Self::Adopt { sender: Some(sender), .. } => sender.session = today,
            Self::Batch(entries) => entries.iter_mut().for_each(|entry| entry.set_session(today)),
            _ => {}
        }
    }

    /// What the reply to this `Prolong` says about its entry at `index`. A reply with another
    /// number of fates is no answer for any of them.
    #[must_use]
    pub fn extended_keys(&self, fates: &[ExtendedKey], index: usize) -> Vote {
        match self {
            Self::ExtendKeys { entries, .. } if entries.len() == fates.len() => {
                mutate!(BatchByFirst => let index = 0);
                fates.get(index).map_or(Vote::Unknown, ExtendedKey::vote)
            }
            _ => Vote::Unknown,
        }
    }

    /// What the reply to this `Extend` says about its entry at `index`. A reply with another number
    /// of fates is no answer for any of them.
    #[must_use]
    pub fn extended(&self, fates: &[Extended], index: usize) -> Vote {
        match self {
            Self::Extend { entries, .. } if entries.len() == fates.len() => {
                mutate!(BatchByFirst => let index = 0);
                match fates.get(index) {
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
    /// How long it lasts if it is not heard of.
    pub life_ms: u64,
    /// What the node is, as the client has judged it; `None` without membership.
    pub mark: Option<Mark>,
    /// How far a ticket may lie from the node's time, in microseconds.
    pub slack_us: u64,
    /// The client's wall clock.
    pub wall_ms: u64,
}

impl SessionTerms {
    /// With a node that is no member of a set.
    #[must_use]
    pub const fn without_membership(life_ms: u64) -> Self {
        Self { life_ms, mark: None, slack_us: SLACK_US, wall_ms: 0 }
    }
}

/// One key that is to live on.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct KeyExtension {
    /// The lock.
    pub name: Name,
    /// Who holds it.
    pub owner: Owner,
    /// How long the node keeps it from now.
    pub ttl_ms: u64,
}

/// The most keys of one [`Command::ExtendKeys`]: a node does nothing else meanwhile.
pub const EXTEND_MAX: usize = 128;

/// The most entries of one [`Command::Batch`]. One of heartbeats may have [`EXTEND_MAX`].
pub const BATCH_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Name {
        Name::parse("a", "").expect("valid")
    }

    /// Every command with every reply: only the exact pairs are answers, all else is unknown.
    #[test]
    fn a_reply_that_does_not_fit_is_no_answer() {
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
        let seen = |value: &Owner| {
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
            seen(&owner),
            seen(&other),
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
    fn each_key_of_a_prolong_is_judged_by_itself() {
        let owner = Owner::new(&ClientId::from_random([1; 20]), 1, "me");
        let entry = KeyExtension { name: name(), owner, ttl_ms: 1 };
        let command = Command::ExtendKeys { entries: vec![entry; 4].into(), sender: None };
        let fates =
            [ExtendedKey::Renewed, ExtendedKey::Absent, ExtendedKey::NotOwner, ExtendedKey::Failed];
        let votes = [Vote::Grant, Vote::Refuse, Vote::Refuse, Vote::Unknown];
        for (index, vote) in votes.into_iter().enumerate() {
            assert_eq!(command.extended_keys(&fates, index), vote);
            assert_eq!(command.extended_keys(&fates[..3], index), Vote::Unknown, "one is missing");
        }
    }
}
