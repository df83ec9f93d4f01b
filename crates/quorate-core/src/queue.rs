//! What is said about waiting in line: who waits where, who speaks, and what a node tells unasked.

mod request;

use std::{fmt::Write as _, time::Duration};

pub use self::request::{Group, Request, TAG_LEN, Tag, group, identity_of, label_of, tag_of};
use crate::{
    command::{ClientId, Owner},
    fence::Fence,
    hex::hex_number,
    moment::Moment,
    name::Name,
};

/// One connection of a client to a node: a random number that is drawn anew for every attach.
///
/// What an older connection has sent, or what was meant for another server's data, does not know
/// the session of today and is turned away.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Session(u128);

hex_number!(Session);

impl Session {
    /// Stands for the session of the connection by which a command goes, until that is put in.
    pub const UNSET: Self = Self(0);
}

/// Who speaks, on which connection. It need not be the owner: a lease can move to another process.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Sender {
    /// The client.
    pub client: ClientId,
    /// Its session with the node.
    pub session: Session,
}

/// A place in the line of a lock, as it can be read from the owner who has it.
///
/// The owner of a waiter reads `q1:<ticket>:<ttl>:<client>:<request>`, and behind that `:s` if it
/// shares the lock, or `!<identity>:r` if it is an entry of a reentrant lock: a node can hand the
/// lock on without any other record. The ticket has sixteen
/// digits: the order of the texts is the order of the tickets. The request is a number that the
/// client never uses again, and may have a secret, a tag and a label: see [`Request`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Position {
    /// When the waiter came, in microseconds of the nodes' time. It is also the fence that it
    /// proposes.
    pub ticket: u64,
    /// How long a node keeps the key when it hands the lock to this waiter.
    pub ttl_ms: u64,
    /// The process that waits.
    pub client: ClientId,
}

impl Position {
    /// The owner of request `number` that has this place.
    #[must_use]
    pub fn owner(&self, number: u64) -> Owner {
        self.owner_of(&Request { number, ..Request::default() })
    }

    /// The same, of a request that shares the lock with others of its kind.
    #[must_use]
    pub fn shared_owner(&self, number: u64) -> Owner {
        self.owner_of(&Request { number, is_shared: true, ..Request::default() })
    }

    /// The same, of an entry of a reentrant lock.
    #[must_use]
    pub fn reentrant_owner(&self, number: u64, identity: &str) -> Owner {
        let identity = Some(identity);
        self.owner_of(&Request { number, identity, ..Request::default() })
    }

    /// The owner of a request that has this place.
    #[must_use]
    pub fn owner_of(&self, request: &Request<'_>) -> Owner {
        let Self { ticket, ttl_ms, client } = self;
        let mut text = String::with_capacity(128);
        // Writing to a string cannot fail.
        let _ = write!(text, "{MARK}{:016}:{ttl_ms}:{client}:{request}", ticket.min(&TICKET_MAX));
        Owner::from_bytes(text.as_bytes())
    }

    /// Reads the place from an owner; `None` if it is another library's, or of classic mode.
    #[must_use]
    pub fn of(owner: &[u8]) -> Option<Self> {
        let text = str::from_utf8(owner).ok()?.strip_prefix(MARK)?;
        let mut parts = text.splitn(4, ':');
        let ticket = number(parts.next().filter(|digits| digits.len() == TICKET_DIGITS)?)?;
        let ttl_ms = number(parts.next()?)?;
        let client = ClientId::parse(parts.next()?)?;
        parts.next()?;
        Some(Self { ticket, ttl_ms, client })
    }
}

/// Whether the owner shares the lock with others of its kind. Whoever wants it alone does not, nor
/// does another library's.
#[must_use]
pub fn is_shared(owner: &Owner) -> bool {
    group(owner) == Some(Group::Readers)
}

/// One request for a lock.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct AcquireRequest {
    /// The lock.
    pub name: Name,
    /// Who wants it; a [`Position`] can be read from it.
    pub owner: Owner,
    /// Whether it waits in line if it cannot have the lock.
    pub is_waiting: bool,
    /// Whether it may stand in line here already.
    pub is_known: bool,
}

/// One lease that is to live on.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Extend {
    /// The lock.
    pub name: Name,
    /// Who holds it, or is about to.
    pub owner: Owner,
    /// The fence of the lease: the node's is raised to it.
    pub fence: Fence,
    /// How long the node keeps the key from now.
    pub ttl_ms: u64,
    /// Whether a node that lost the key may take it again. A right of holders only: whoever has not
    /// decided its fence yet must not.
    pub may_heal: bool,
}

/// How a lease of the default mode is extended: with its fence, and by the right to heal or not.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct FencedLease {
    fence: Fence,
    may_heal: bool,
}

impl FencedLease {
    /// A lease that its holder has won: a node that lost the key takes it again.
    #[must_use]
    pub const fn won(fence: Fence) -> Self {
        Self { fence, may_heal: true }
    }

    /// A lease that came from another process. It never heals: its end is not known here, and it
    /// may have been released by another process that knows its owner.
    #[must_use]
    pub fn adopted(fence: Fence) -> Self {
        mutate!(AdoptedHeals => return Self::won(fence));
        Self { fence, may_heal: false }
    }

    /// The same, with another fence.
    #[must_use]
    pub const fn with_fence(self, fence: Fence) -> Self {
        Self { fence, ..self }
    }

    /// The fence of the lease.
    #[must_use]
    pub const fn fence(self) -> Fence {
        self.fence
    }

    /// Whether a node that lost the key takes it again.
    #[must_use]
    pub const fn may_heal(self) -> bool {
        self.may_heal
    }

    /// The extension of this lease, as it is sent to a node.
    #[must_use]
    pub const fn extend(self, name: Name, owner: Owner, ttl_ms: u64) -> Extend {
        let Self { fence, may_heal } = self;
        Extend { name, owner, fence, ttl_ms, may_heal }
    }
}

/// A grant that its owner gives back, to stand in line again.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Yield {
    /// The fence of the grant.
    pub fence: Fence,
    /// Who speaks. What an older connection gave back may be counted again by now: by a holder
    /// whose extension found it there.
    pub sender: Sender,
}

/// What became of one lease of an `Extend`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Extended {
    /// The key is the owner's, and the node's fence is this.
    Renewed(Fence),
    /// The key is not the owner's, and the node's fence is this.
    Refused(Fence),
    /// The node could not tell.
    Failed,
}

/// What a node tells a client unasked.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Push {
    /// Whom.
    pub client: ClientId,
    /// About which lock.
    pub name: Name,
    /// About which owner of the client's.
    pub owner: Owner,
    /// The fence of the grant that it is about.
    pub fence: Fence,
    /// What.
    pub kind: PushKind,
    /// The client's session by which it was granted. A node that has another's data knows another
    /// session: what it grants by that does not count.
    pub session: Option<Session>,
}

impl Push {
    /// Whether it counts for a client that has this session with the node: a grant is by the
    /// session that the node knows, and one that has another's data knows another one.
    #[must_use]
    pub fn counts_in(&self, session: Session) -> bool {
        mutate!(AnyPush => return true);
        self.session.is_none_or(|by| by == session)
    }
}

/// What a push says.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum PushKind {
    /// The key is the owner's now.
    Granted,
    /// Somebody with an earlier ticket waits for what the owner was granted.
    Inquired,
}

/// Until when a release that got no answer at `now` is sent again. A place in line may outlive the
/// lease, since others keep the line alive: for two of their ttls, of which `longest` is the
/// longest.
#[must_use]
pub fn owed_until(now: Moment, longest: Duration) -> Moment {
    now.saturating_add(longest.saturating_mul(LINE_LIFE_TTLS))
}

/// A line lives for so many ttls of whoever asked last.
pub(crate) const LINE_LIFE_TTLS: u32 = 2;

/// Digits and nothing else: a sign would be a number here, and none for the scripts on a server.
fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// How the owners of waiters begin; the number is that of the protocol.
const MARK: &str = "q1:";
const TICKET_DIGITS: usize = 16;

/// The largest ticket that has sixteen digits.
pub const TICKET_MAX: u64 = 9_999_999_999_999_999;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_from_the_owner_that_has_it() {
        let place = Position { ticket: 7, ttl_ms: 300, client: ClientId::from_random([0xa5; 20]) };
        let owner = place.owner(9);
        let expected = format!("q1:0000000000000007:300:{}:9", "a5".repeat(20));
        assert_eq!(owner.as_bytes(), expected.as_bytes());
        assert_eq!(Position::of(owner.as_bytes()), Some(place));
    }

    #[test]
    fn an_owner_tells_whether_it_shares() {
        let place = Position { ticket: 7, ttl_ms: 300, client: ClientId::from_random([0xa5; 20]) };
        let (alone, shared) = (place.owner(9), place.shared_owner(9));
        let expected = format!("q1:0000000000000007:300:{}:9:s", "a5".repeat(20));
        assert_eq!(shared.as_bytes(), expected.as_bytes());
        assert_eq!(Position::of(shared.as_bytes()), Some(place));
        let foreign = Owner::from_bytes(b"somebody:s");
        assert_eq!([alone, shared, foreign].map(|owner| is_shared(&owner)), [false, true, false]);
    }

    #[test]
    fn what_others_store_has_no_place() {
        let client = "a5".repeat(20);
        let classic = Owner::new(&ClientId::from_random([1; 20]), 1, "me");
        let others = [
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
        for other in others {
            assert_eq!(Position::of(&other), None, "{}", String::from_utf8_lossy(&other));
        }
    }

    #[test]
    fn the_order_of_owners_is_the_order_of_tickets() {
        let owner = |ticket| {
            Position { ticket, ttl_ms: 1, client: ClientId::from_random([0; 20]) }.owner(1)
        };
        let tickets = [0, 9, 10, 1_800_000_000_000_000, TICKET_MAX];
        assert!(tickets.is_sorted_by(|a, b| owner(*a).as_bytes() < owner(*b).as_bytes()));
    }
}
