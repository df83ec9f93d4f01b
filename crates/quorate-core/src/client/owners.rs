//! The owners as which a client requests locks.

use std::{collections::BTreeMap, sync::Arc};

use super::CallId;
use crate::{
    backoff::Jitter,
    command::{ClientId, Owner},
    dialect::Dialect,
    moment::Moment,
    queue::{Position, Tag, identity_of, is_shared, label_of, tag_of},
    tickets::Tickets,
};

/// The kind of an owner.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct OwnerKind {
    /// Whether it is a reader.
    pub is_shared: bool,
    /// The identity of an entry of a reentrant lock.
    pub identity: Option<Arc<str>>,
    /// The tag by which other processes find its lease.
    pub tag: Option<Tag>,
    /// The text that people see in place of the client's description.
    pub label: Option<Arc<str>>,
}

impl OwnerKind {
    /// An exclusive owner without anything special, as most are.
    pub const PLAIN: Self = Self { is_shared: false, identity: None, tag: None, label: None };

    /// The form in which a call keeps it. `None` if it is [plain](Self::PLAIN).
    #[must_use]
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::PLAIN).then(|| Box::new(self))
    }

    /// The kind of an owner that continues the lease of this one.
    #[must_use]
    pub fn of(owner: &Owner) -> Self {
        let text = owner.as_bytes();
        let label = label_of(text).map(Arc::from);
        let identity = identity_of(owner).map(Arc::from);
        Self { is_shared: is_shared(owner), identity, tag: tag_of(text), label }
    }
}

/// Creates owners that were never used before.
pub trait Owners {
    /// The client.
    fn client(&self) -> ClientId;

    /// A ticket for a caller that came at `started_at`, if enough nodes have reported their time.
    /// All members of a set get the same ticket.
    fn draw_ticket(&mut self, started_at: Moment, set: Option<CallId>) -> Option<u64>;

    /// An owner with this position in the queue.
    fn next_owner(&mut self, position: &Position, kind: &OwnerKind) -> Owner;

    /// An owner for classic mode, which has no queue.
    fn next_plain_owner(&mut self, kind: &OwnerKind) -> Owner;

    /// A seed for random delays.
    fn draw_seed(&mut self) -> u64;
}

/// Creates owners from numbers that are never used twice, and secrets.
pub trait OwnerSource {
    /// A new owner with this position in the queue.
    fn next_owner(&mut self, position: &Position, kind: &OwnerKind) -> Owner;

    /// A new owner for classic mode.
    fn next_plain_owner(&mut self, kind: &OwnerKind) -> Owner;

    /// The ticket to use instead of the one that was drawn.
    fn ticket(&mut self, drawn: u64) -> u64 {
        drawn
    }
}

/// The source of owners and tickets of a client.
#[derive(Clone, Debug)]
pub struct Naming<S> {
    /// The client.
    pub client: ClientId,
    /// Tickets by the time of the nodes.
    pub tickets: Tickets,
    /// The tickets of sets that are not held yet.
    pub(super) of_sets: BTreeMap<CallId, u64>,
    /// The source of numbers and secrets.
    pub source: S,
    /// For random delays.
    pub jitter: Jitter,
}

impl<S: OwnerSource> Naming<S> {
    /// An owner that replaces another holder and is never queued.
    pub fn next_holder(
        &mut self,
        dialect: Dialect,
        ttl_ms: u64,
        kind: &OwnerKind,
        now: Moment,
    ) -> Owner {
        if !dialect.has_queue() {
            return self.source.next_plain_owner(kind);
        }
        let ticket = self.draw_ticket(now, None).unwrap_or(0);
        let client = self.client;
        self.source.next_owner(&Position { ticket, ttl_ms, client }, kind)
    }
}

impl<S: OwnerSource> Owners for Naming<S> {
    fn client(&self) -> ClientId {
        self.client
    }

    fn draw_ticket(&mut self, started_at: Moment, set: Option<CallId>) -> Option<u64> {
        mutate!(TicketForEachMember => let set = None);
        if let Some(known) = set.and_then(|set| self.of_sets.get(&set)) {
            return Some(*known);
        }
        let drawn = self.tickets.draw(started_at)?;
        let ticket = self.source.ticket(drawn);
        self.of_sets.extend(set.map(|set| (set, ticket)));
        Some(ticket)
    }

    fn next_owner(&mut self, position: &Position, kind: &OwnerKind) -> Owner {
        self.source.next_owner(position, kind)
    }

    fn next_plain_owner(&mut self, kind: &OwnerKind) -> Owner {
        self.source.next_plain_owner(kind)
    }

    fn draw_seed(&mut self) -> u64 {
        self.jitter.next()
    }
}
