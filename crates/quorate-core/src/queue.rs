//! The vocabulary of the queue: positions, sessions, requests, extensions and pushes.

mod request;

use std::time::Duration;

pub use self::request::{
    Group, Request, TAG_LEN, Tag, group, identity_of, label_of, reader_of, tag_of,
};
use crate::{
    command::{ClientId, Owner},
    fence::Fence,
    hex::{append_decimal, hex_number},
    moment::Moment,
    name::Name,
};

/// One connection of a client to a node: a random number that is drawn anew for every attach.
///
/// A node rejects commands of an older connection, and commands that were meant for another
/// server's data, since they do not carry the current session.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Session(u128);

hex_number!(Session);

impl Session {
    /// A placeholder until the connection that sends the command sets its session.
    pub const UNSET: Self = Self(0);
}

/// The client that sends a command, and its connection. It need not be the owner's client: a lease
/// can move to another process.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Sender {
    /// The client.
    pub client: ClientId,
    /// Its session with the node.
    pub session: Session,
}

/// The position of a waiter in the queue of a lock, encoded in its owner.
///
/// The owner of a waiter reads `q1:<ticket>:<ttl>:<client>:<request>`. A reader has the suffix
/// `:s`, an entry of a reentrant lock the suffix `!<identity>:r`. A node needs no other record to
/// grant the lock to the next waiter. The ticket has sixteen digits, so the texts have the order of
/// the tickets. The request is a number that the client never uses again, and may have a secret, a
/// tag and a label: see [`Request`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Position {
    /// When the waiter started to wait, in microseconds of the nodes' time. It is also the fence
    /// that it proposes.
    pub ticket: u64,
    /// How long a node keeps the key when it grants the lock to this waiter.
    pub ttl_ms: u64,
    /// The client that waits.
    pub client: ClientId,
}

impl Position {
    /// The owner of request `number` at this position.
    #[must_use]
    pub fn owner(&self, number: u64) -> Owner {
        self.owner_of(&Request { number, ..Request::default() })
    }

    /// The owner of a request that shares the lock with other readers.
    #[must_use]
    pub fn shared_owner(&self, number: u64) -> Owner {
        self.owner_of(&Request { number, is_shared: true, ..Request::default() })
    }

    /// The owner of an entry of a reentrant lock.
    #[must_use]
    pub fn reentrant_owner(&self, number: u64, identity: &str) -> Owner {
        let identity = Some(identity);
        self.owner_of(&Request { number, identity, ..Request::default() })
    }

    /// The owner of a request at this position.
    #[must_use]
    pub fn owner_of(&self, request: &Request<'_>) -> Owner {
        let Self { ticket, ttl_ms, client } = self;
        // Without the formatting of the standard library, which takes most of the time.
        let mut text = Vec::with_capacity(128);
        text.extend_from_slice(PREFIX.as_bytes());
        append_decimal(&mut text, *ticket.min(&TICKET_MAX), TICKET_DIGITS);
        text.push(b':');
        append_decimal(&mut text, *ttl_ms, 1);
        text.push(b':');
        client.append_to(&mut text);
        text.push(b':');
        request.append_to(&mut text);
        Owner::from_bytes(&text)
    }

    /// Parses the position from an owner; `None` if the owner is from another library or from
    /// classic mode.
    #[must_use]
    pub fn of(owner: &[u8]) -> Option<Self> {
        let (ticket, ttl_ms, rest) = split(owner)?;
        let (client, _request) = str::from_utf8(rest).ok()?.split_once(':')?;
        Some(Self { ticket, ttl_ms, client: ClientId::parse(client)? })
    }

    /// Parses only the ticket and the ttl from an owner of this library.
    #[must_use]
    pub fn ticket_and_ttl(owner: &[u8]) -> Option<(u64, u64)> {
        split(owner).map(|(ticket, ttl_ms, _)| (ticket, ttl_ms))
    }
}

/// The ticket, the ttl, and what follows.
fn split(owner: &[u8]) -> Option<(u64, u64, &[u8])> {
    let text = owner.strip_prefix(PREFIX.as_bytes())?;
    let (ticket, text) = text.split_at_checked(TICKET_DIGITS)?;
    let text = text.strip_prefix(b":")?;
    let end = text.iter().position(|byte| *byte == b':')?;
    let (ttl, rest) = text.split_at(end);
    Some((number(ticket)?, number(ttl)?, rest.strip_prefix(b":")?))
}

/// Whether the owner is a reader, which shares the lock. Exclusive owners and those of other
/// libraries are not.
#[must_use]
pub fn is_shared(owner: &Owner) -> bool {
    group(owner) == Some(Group::Readers)
}

/// One request to acquire a lock.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct AcquireRequest {
    /// The lock.
    pub name: Name,
    /// The owner that requests it. It encodes a [`Position`].
    pub owner: Owner,
    /// Whether it joins the queue if it cannot acquire the lock.
    pub is_waiting: bool,
    /// Whether it may already be in the queue of this node.
    pub is_known: bool,
}

/// One lease to extend.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Extend {
    /// The lock.
    pub name: Name,
    /// The holder, or a waiter that is about to become the holder.
    pub owner: Owner,
    /// The fence of the lease. The node raises its own fence to it.
    pub fence: Fence,
    /// How long the node keeps the key from now.
    pub ttl_ms: u64,
    /// Whether a node that lost the key stores it again. Only holders may heal, not waiters whose
    /// fence is not decided yet.
    pub may_heal: bool,
}

/// How a lease of the default mode is extended: with its fence, and with or without the right to
/// heal.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct FencedLease {
    fence: Fence,
    may_heal: bool,
}

impl FencedLease {
    /// A lease that its holder acquired. A node that lost the key stores it again.
    #[must_use]
    pub const fn acquired(fence: Fence) -> Self {
        Self { fence, may_heal: true }
    }

    /// A lease from another process. It never heals: its end is unknown here, and another process
    /// that knows its owner may have released it.
    #[must_use]
    pub fn adopted(fence: Fence) -> Self {
        mutate!(AdoptedHeals => return Self::acquired(fence));
        Self { fence, may_heal: false }
    }

    /// The same lease with another fence.
    #[must_use]
    pub const fn with_fence(self, fence: Fence) -> Self {
        Self { fence, ..self }
    }

    /// The fence of the lease.
    #[must_use]
    pub const fn fence(self) -> Fence {
        self.fence
    }

    /// Whether a node that lost the key stores it again.
    #[must_use]
    pub const fn may_heal(self) -> bool {
        self.may_heal
    }

    /// The extension of this lease, as sent to a node.
    #[must_use]
    pub const fn extend(self, name: Name, owner: Owner, ttl_ms: u64) -> Extend {
        let Self { fence, may_heal } = self;
        Extend { name, owner, fence, ttl_ms, may_heal }
    }
}

/// A grant that its owner gives up, to wait in the queue again.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Yield {
    /// The fence of the grant.
    pub fence: Fence,
    /// The sender. A yield that an older connection sent must not count: an extension of the holder
    /// may have confirmed the grant since.
    pub sender: Sender,
}

/// The result of one lease of an `Extend`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Extended {
    /// The owner holds the key, and this is the node's fence.
    Renewed(Fence),
    /// The owner does not hold the key, and this is the node's fence.
    Refused(Fence),
    /// The node could not determine the result.
    Failed,
}

/// A message that a node sends without a request.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Push {
    /// The recipient.
    pub client: ClientId,
    /// The lock.
    pub name: Name,
    /// The client's owner that the push concerns.
    pub owner: Owner,
    /// The fence of the grant that the push concerns.
    pub fence: Fence,
    /// The message.
    pub kind: PushKind,
    /// The client's session to which the lock was granted. A node with another server's data knows
    /// another session: its grants do not count.
    pub session: Option<Session>,
}

impl Push {
    /// Whether the push counts for a client with this session: a grant counts only if the node made
    /// it for this session, and not for one in another server's data.
    #[must_use]
    pub fn counts_in(&self, session: Session) -> bool {
        mutate!(AnyPush => return true);
        self.session.is_none_or(|granted_to| granted_to == session)
    }
}

/// The message of a push.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum PushKind {
    /// The owner now holds the key.
    Granted,
    /// A waiter with an earlier ticket waits for a lock that the owner was granted.
    Inquired,
}

/// How long to retry a release that got no answer at `now`. A queue position may outlive the lease,
/// since other waiters keep the queue alive: for two of their ttls. `longest` is the longest ttl in
/// use.
#[must_use]
pub fn retry_release_until(now: Moment, longest: Duration) -> Moment {
    now.saturating_add(longest.saturating_mul(QUEUE_LIFETIME_TTLS))
}

/// A queue is kept for this many ttls of the waiter that asked last.
pub(crate) const QUEUE_LIFETIME_TTLS: u32 = 2;

/// Parses digits only: Rust would accept a sign, the scripts on a server would not.
fn number(digits: &[u8]) -> Option<u64> {
    let append = |number: u64, byte: &u8| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    };
    (!digits.is_empty()).then(|| digits.iter().try_fold(0, append))?
}

/// The prefix of waiters' owners. Its number is the version of the protocol.
const PREFIX: &str = "q1:";
const TICKET_DIGITS: usize = 16;

/// The largest ticket that has sixteen digits.
pub const TICKET_MAX: u64 = 9_999_999_999_999_999;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_is_parsed_from_its_owner() {
        let position =
            Position { ticket: 7, ttl_ms: 300, client: ClientId::from_random([0xa5; 20]) };
        let owner = position.owner(9);
        let expected = format!("q1:0000000000000007:300:{}:9", "a5".repeat(20));
        assert_eq!(owner.as_bytes(), expected.as_bytes());
        assert_eq!(Position::of(owner.as_bytes()), Some(position));
    }

    #[test]
    fn shared_owners_are_recognized() {
        let position =
            Position { ticket: 7, ttl_ms: 300, client: ClientId::from_random([0xa5; 20]) };
        let (alone, shared) = (position.owner(9), position.shared_owner(9));
        let expected = format!("q1:0000000000000007:300:{}:9:s", "a5".repeat(20));
        assert_eq!(shared.as_bytes(), expected.as_bytes());
        assert_eq!(Position::of(shared.as_bytes()), Some(position));
        let foreign = Owner::from_bytes(b"foreign:s");
        assert_eq!([alone, shared, foreign].map(|owner| is_shared(&owner)), [false, true, false]);
    }

    #[test]
    fn foreign_values_have_no_position() {
        let client = "a5".repeat(20);
        let classic = Owner::new(&ClientId::from_random([1; 20]), 1, "me");
        let values = [
            classic.as_bytes().to_vec(),
            b"".to_vec(),
            b"q1:".to_vec(),
            b"\xff\xfe".to_vec(),
            format!("q1:7:300:{client}:9").into_bytes(),
            format!("q1:0000000000000007:300:{client}").into_bytes(),
            format!("q1:0000000000000007:x:{client}:9").into_bytes(),
            format!("q1:0000000000000007:300:{client}a:9").into_bytes(),
            format!("q1:+000000000000007:300:{client}:9").into_bytes(),
            format!("q1:0000000000000007:+300:{client}:9").into_bytes(),
            format!("q1:0000000000000007:300:{}:9", client.to_uppercase()).into_bytes(),
            format!("q2:0000000000000007:300:{client}:9").into_bytes(),
        ];
        for value in values {
            assert_eq!(Position::of(&value), None, "{}", String::from_utf8_lossy(&value));
        }
    }

    #[test]
    fn owners_are_ordered_by_ticket() {
        let owner = |ticket| {
            Position { ticket, ttl_ms: 1, client: ClientId::from_random([0; 20]) }.owner(1)
        };
        let tickets = [0, 9, 10, 1_800_000_000_000_000, TICKET_MAX];
        assert!(tickets.is_sorted_by(|a, b| owner(*a).as_bytes() < owner(*b).as_bytes()));
    }
}
