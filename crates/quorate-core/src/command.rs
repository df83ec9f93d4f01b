//! The whole language that is spoken to a node, and how each reply becomes a vote.

use std::{fmt, fmt::Write as _, sync::Arc};

use crate::{
    fence::{Fence, SLACK_US},
    inspect::{Cursor, Inspected, Listed},
    line::{Ask, Extend, Extended, Session, Speaker, Yield},
    membership::{self, Mark},
    mutant::{self, Mutant},
    name::Name,
    quorum::Vote,
    share::Shares,
};

/// What is asked of one node.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Command {
    /// Store the owner under the name for `ttl_ms`, if nothing is there.
    Take {
        /// The lock.
        name: Name,
        /// Who takes it.
        owner: Owner,
        /// How long the node keeps it.
        ttl_ms: u64,
        /// Who speaks; `None` where nodes are not guarded, and there are no sessions.
        speaker: Option<Speaker>,
    },
    /// Put a new owner in the place of the one who left the lock, for `ttl_ms` from now.
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
        speaker: Option<Speaker>,
    },
    /// Delete the key, if it is the owner's.
    Free {
        /// The lock.
        name: Name,
        /// Who gives it back.
        owner: Owner,
    },
    /// Let each of these keys live on from now, if it is its owner's. No key is created again, and
    /// none is made to go earlier: an order that comes late must not undo a later one. Each is
    /// judged by itself: one that fails does not void the others.
    Prolong {
        /// The keys, at most [`PROLONG_MAX`] of them.
        entries: Arc<[Prolongation]>,
        /// Who speaks; `None` where nodes are not guarded, and there are no sessions.
        speaker: Option<Speaker>,
    },
    /// Say whether the key is the owner's.
    Check {
        /// The lock.
        name: Name,
        /// Who believes to hold it.
        owner: Owner,
    },
    /// Say what is stored under the name.
    Look {
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
        speaker: Speaker,
        /// On which terms.
        terms: SessionTerms,
    },
    /// Go on with a session.
    Ping {
        /// Who speaks.
        speaker: Speaker,
        /// On which terms.
        terms: SessionTerms,
    },
    /// Have the lock, or a place in its line.
    Acquire {
        /// Who speaks.
        speaker: Speaker,
        /// What is wanted.
        ask: Ask,
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
        speaker: Speaker,
        /// The leases, at most [`PROLONG_MAX`] of them.
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
            (Self::Take { .. } | Self::Adopt { .. }, Reply::Taken)
            | (Self::Free { .. }, Reply::Freed)
            | (Self::Attach { .. } | Self::Ping { .. }, Reply::Attached { .. })
            | (Self::Introduce { .. }, Reply::Introduced)
            | (Self::Acquire { .. }, Reply::Granted { .. })
            | (Self::Release { .. }, Reply::Released { is_ours: true }) => Vote::Grant,
            (Self::Extend { .. }, Reply::EachExtended(fates)) => self.extended(fates, 0),
            (Self::Acquire { .. }, Reply::Queued { .. })
            | (Self::Release { .. }, Reply::Released { is_ours: false })
            | (Self::Take { .. }, Reply::Another)
            | (Self::Adopt { .. } | Self::Free { .. }, Reply::Absent | Reply::Another) => {
                Vote::Refuse
            }
            (Self::Prolong { .. }, Reply::Each(fates)) => self.prolonged(fates, 0),
            (Self::Check { owner, .. }, Reply::Seen(sighting)) => match sighting {
                Some(Sighting { value: Value::Text(text), .. }) if **text == *owner.as_bytes() => {
                    Vote::Grant
                }
                Some(_) | None => Vote::Refuse,
            },
            _ => Vote::Unknown,
        }
    }

    /// Whether it changes nothing on a node, and needs no session.
    #[must_use]
    pub fn only_looks(&self) -> bool {
        match self {
            Self::Check { .. }
            | Self::Look { .. }
            | Self::Inspect { .. }
            | Self::List { .. }
            | Self::Who { .. } => true,
            Self::Membership(command) => command.only_looks(),
            Self::Batch(entries) => entries.iter().all(Self::only_looks),
            _ => false,
        }
    }

    /// Whether it asks for a lock: a node that recovers is not asked yet.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        let asks = |entry: &Self| matches!(entry, Self::Acquire { .. } | Self::Take { .. });
        self.entries().iter().any(asks)
    }

    /// Whether a waiter that the node may know repeats its request.
    #[must_use]
    pub const fn is_heartbeat(&self) -> bool {
        matches!(self, Self::Acquire { ask: Ask { is_waiting: true, is_known: true, .. }, .. })
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
            Self::Take { name, .. }
            | Self::Adopt { name, .. }
            | Self::Free { name, .. }
            | Self::Check { name, .. }
            | Self::Release { name, .. }
            | Self::Acquire { ask: Ask { name, .. }, .. } => Some(name),
            Self::Prolong { entries, .. } if entries.len() == 1 => Some(&entries[0].name),
            Self::Extend { entries, .. } if entries.len() == 1 => Some(&entries[0].name),
            _ => None,
        }
    }

    /// Says it with this session: the one of the connection on which it is sent.
    pub fn set_session(&mut self, today: Session) {
        match self {
            Self::Attach { speaker, .. }
            | Self::Ping { speaker, .. }
            | Self::Acquire { speaker, .. }
            | Self::Extend { speaker, .. }
            | Self::Take { speaker: Some(speaker), .. }
            | Self::Prolong { speaker: Some(speaker), .. }
            | Self::Release { yields: Some(Yield { speaker, .. }), .. }
            | Self::Adopt { speaker: Some(speaker), .. } => speaker.session = today,
            Self::Batch(entries) => entries.iter_mut().for_each(|entry| entry.set_session(today)),
            _ => {}
        }
    }

    /// What the reply to this `Prolong` says about its entry at `index`. A reply with another
    /// number of fates is no answer for any of them.
    #[must_use]
    pub fn prolonged(&self, fates: &[Fate], index: usize) -> Vote {
        match self {
            Self::Prolong { entries, .. } if entries.len() == fates.len() => {
                let index = if mutant::is_on(Mutant::BatchByFirst) { 0 } else { index };
                fates.get(index).map_or(Vote::Unknown, Fate::vote)
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
                let index = if mutant::is_on(Mutant::BatchByFirst) { 0 } else { index };
                match fates.get(index) {
                    Some(Extended::LivesOn(_)) => Vote::Grant,
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
pub struct Prolongation {
    /// The lock.
    pub name: Name,
    /// Who holds it.
    pub owner: Owner,
    /// How long the node keeps it from now.
    pub ttl_ms: u64,
}

/// The most keys of one [`Command::Prolong`]: a node does nothing else meanwhile.
pub const PROLONG_MAX: usize = 128;

/// The most entries of one [`Command::Batch`]. One of heartbeats may have [`PROLONG_MAX`].
pub const BATCH_MAX: usize = 32;

/// What a node answered.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Reply {
    /// The key was stored.
    Taken,
    /// The key was deleted.
    Freed,
    /// There is no such key.
    Absent,
    /// The key is there and not the owner's.
    Another,
    /// What became of each key of a `Prolong`, in its order.
    Each(Box<[Fate]>),
    /// What is stored there, if anything.
    Seen(Option<Sighting>),
    /// What is known about a lock.
    Inspected(Box<Inspected>),
    /// Which locks there are.
    Listed(Listed),
    /// What the node replies to a membership command.
    Membership(membership::Reply),
    /// The node is a member of a set, and the client does not say which config it goes by.
    MembershipRequired,
    /// The session goes on; this is the node's time.
    Attached {
        /// Microseconds of its wall clock.
        time_us: u64,
    },
    /// The session, or the mark, is not of today: nothing was done.
    Stale,
    /// The node has no memory left for anything new: nothing was done.
    Full,
    /// The key is the owner's.
    Granted {
        /// Names this grant of this node.
        fence: Fence,
        /// Somebody with an earlier ticket waits.
        is_earlier: bool,
    },
    /// The key is another's.
    Queued {
        /// The node's fence: no grant of it or below is the owner's any more.
        fence: Fence,
        /// Milliseconds until the key goes; `None` if it never does.
        expires_in_ms: Option<u64>,
        /// How many stand before the owner in line; `None` if it is not in it.
        rank: Option<u64>,
        /// The holder is another library's, which tells nobody when it goes.
        is_foreign: bool,
    },
    /// The client is known from now on.
    Introduced,
    /// Who the client is, if that is known.
    Known(Option<Box<str>>),
    /// What was given back.
    Released {
        /// The key was the owner's.
        is_ours: bool,
    },
    /// What became of each lease of an `Extend`, in its order.
    EachExtended(Box<[Extended]>),
    /// The answer to each entry of a batch, in its order; `None` if the node could not tell.
    Batch(Box<[Option<Self>]>),
}

impl Reply {
    /// Whether the session is not of today, for any entry.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        match self {
            Self::Batch(each) => each.iter().flatten().any(Self::is_stale),
            single => *single == Self::Stale,
        }
    }
}

/// What became of one key of a `Prolong`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Fate {
    /// The key lives on.
    LivesOn,
    /// There is no such key.
    Absent,
    /// The key is there and not the owner's.
    Another,
    /// The node could not tell.
    Failed,
}

impl Fate {
    /// What it says about the lease.
    #[must_use]
    pub fn vote(&self) -> Vote {
        match self {
            Self::Absent if mutant::is_on(Mutant::AbsentLivesOn) => Vote::Grant,
            Self::LivesOn => Vote::Grant,
            Self::Absent | Self::Another => Vote::Refuse,
            Self::Failed => Vote::Unknown,
        }
    }
}

/// What was found under a name. Of a long value only the first [`SHOWN_LEN_MAX`] bytes are told;
/// an owner is shorter than that.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Sighting {
    /// What is stored.
    pub value: Value,
    /// Milliseconds until it goes; `None` if it never does, as some libraries store it.
    pub expires_in_ms: Option<u64>,
}

/// The most bytes of a value that a node tells.
pub const SHOWN_LEN_MAX: usize = 512;

/// A stored value.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Value {
    /// A string of bytes, as nearly every lock library stores it.
    Text(Box<[u8]>),
    /// Several owners of ours, who hold the lock together.
    Shared(Shares),
    /// Something else: the node's word for its type, such as `hash`.
    OtherType(Box<str>),
}

/// The value that marks a key as one owner's: unique across all clients and requests, and not to
/// be guessed.
///
/// It reads `<client id>:<number of the request>@<who>`. The part behind `@` is for people; the
/// comparison is always of the whole.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Owner(Arc<[u8]>);

impl Owner {
    /// The owner of request `number` of a client with 160 bits of real randomness.
    #[must_use]
    pub fn new(client: &ClientId, number: u64, who: &str) -> Self {
        let number = if mutant::is_on(Mutant::SameOwner) { 0 } else { number };
        let mut text = String::with_capacity(64_usize.saturating_add(who.len()));
        // Writing to a string cannot fail.
        let _ = write!(text, "{client}:{number}@{who}");
        Self(text.into_bytes().into())
    }

    /// The owner that another process was, as its bytes were handed over.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The bytes that are stored.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whoever knows an owner can release its lock.
        f.write_str("Owner(…)")
    }
}

/// The identity of one client: 160 random bits.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ClientId([u8; 20]);

impl ClientId {
    /// Makes the identity from bytes which must come from a good source of randomness.
    #[must_use]
    pub const fn from_random(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// Reads what `Display` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 40 {
            return None;
        }
        let mut bytes = [0; 20];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = (nibble(pair[0])? << 4) | nibble(pair[1])?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hex = [0_u8; 40];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair[0] = HEX[usize::from(byte >> 4)];
            pair[1] = HEX[usize::from(byte & 15)];
        }
        f.write_str(str::from_utf8(&hex).unwrap_or_default())
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // All owners of a client follow from it.
        f.write_str("ClientId(…)")
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

const fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit.wrapping_sub(b'0')),
        b'a'..=b'f' => Some(digit.wrapping_sub(b'a').wrapping_add(10)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Name {
        Name::parse("a", "").expect("valid")
    }

    #[test]
    fn an_owner_reads_client_number_and_who() {
        let client = ClientId::from_random([0xa5; 20]);
        let owner = Owner::new(&client, 7, "cron/db1/4711");
        let expected = format!("{}:7@cron/db1/4711", "a5".repeat(20));
        assert_eq!(owner.as_bytes(), expected.as_bytes());
        assert_eq!(format!("{owner:?} {client:?}"), "Owner(…) ClientId(…)", "secrets");
    }

    /// Every command with every reply: only the exact pairs are answers, all else is unknown.
    #[test]
    fn a_reply_that_does_not_fit_is_no_answer() {
        let owner = Owner::new(&ClientId::from_random([1; 20]), 1, "me");
        let other = Owner::new(&ClientId::from_random([1; 20]), 11, "me");
        let (n, o) = (name, || owner.clone());
        let commands = [
            Command::Take { name: n(), owner: o(), ttl_ms: 1, speaker: None },
            Command::Adopt { name: n(), from: other.clone(), owner: o(), ttl_ms: 1, speaker: None },
            Command::Free { name: n(), owner: o() },
            Command::Prolong {
                entries: [Prolongation { name: n(), owner: o(), ttl_ms: 1 }].into(),
                speaker: None,
            },
            Command::Check { name: n(), owner: o() },
            Command::Look { name: n() },
        ];
        let seen = |value: &Owner| {
            let value = Value::Text(value.as_bytes().into());
            Reply::Seen(Some(Sighting { value, expires_in_ms: Some(1) }))
        };
        let hash = Value::OtherType("hash".into());
        let replies = [
            Reply::Taken,
            Reply::Freed,
            Reply::Each([Fate::LivesOn].into()),
            Reply::Absent,
            Reply::Another,
            Reply::Stale,
            Reply::Seen(None),
            seen(&owner),
            seen(&other),
            Reply::Seen(Some(Sighting { value: hash, expires_in_ms: None })),
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
        let entry = Prolongation { name: name(), owner, ttl_ms: 1 };
        let command = Command::Prolong { entries: vec![entry; 4].into(), speaker: None };
        let fates = [Fate::LivesOn, Fate::Absent, Fate::Another, Fate::Failed];
        let votes = [Vote::Grant, Vote::Refuse, Vote::Refuse, Vote::Unknown];
        for (index, vote) in votes.into_iter().enumerate() {
            assert_eq!(command.prolonged(&fates, index), vote);
            assert_eq!(command.prolonged(&fates[..3], index), Vote::Unknown, "one is missing");
        }
    }
}
