//! The names under which a client asks for locks.

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

/// What kind of owner asks for a lock.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct OwnerKind {
    /// It shares the lock with others of its kind.
    pub is_shared: bool,
    /// Whose entry it is, if the lock is reentrant.
    pub identity: Option<Arc<str>>,
    /// By which other processes find its lease again.
    pub tag: Option<Tag>,
    /// How it is shown to people, if not like its client.
    pub label: Option<Arc<str>>,
}

impl OwnerKind {
    /// The kind of an owner that continues the lease of this one.
    #[must_use]
    pub fn of(owner: &Owner) -> Self {
        let text = owner.as_bytes();
        let label = label_of(text).map(Arc::from);
        let identity = identity_of(owner).map(Arc::from);
        Self { is_shared: is_shared(owner), identity, tag: tag_of(text), label }
    }
}

/// Names owners that nobody has had before.
pub trait Owners {
    /// The client.
    fn client(&self) -> ClientId;

    /// A ticket for a caller that came at `came_at`, once enough nodes have told their time. All
    /// members of a set get the same one.
    fn draw_ticket(&mut self, started_at: Moment, set: Option<CallId>) -> Option<u64>;

    /// An owner with this place in the queue.
    fn next_owner(&mut self, place: &Position, kind: &OwnerKind) -> Owner;

    /// An owner for nodes that have no queue.
    fn next_plain_owner(&mut self, kind: &OwnerKind) -> Owner;

    /// For random delays.
    fn draw_seed(&mut self) -> u64;
}

/// Where the names of owners come from: numbers that are never used twice, and secrets.
pub trait OwnerSource {
    /// An owner with this place in the queue that nobody has had before.
    fn next_owner(&mut self, place: &Position, kind: &OwnerKind) -> Owner;

    /// The same, without a place.
    fn next_plain_owner(&mut self, kind: &OwnerKind) -> Owner;

    /// The ticket that is used instead of the one that was drawn.
    fn ticket(&mut self, drawn: u64) -> u64 {
        drawn
    }
}

/// How a client names its owners.
#[derive(Clone, Debug)]
pub struct Naming<S> {
    /// The client.
    pub client: ClientId,
    /// By the time of the nodes.
    pub tickets: Tickets,
    /// Those of the sets that are waited for.
    pub(super) of_sets: BTreeMap<CallId, u64>,
    /// Numbers and secrets.
    pub source: S,
    /// For random delays.
    pub jitter: Jitter,
}

impl<S: OwnerSource> Naming<S> {
    /// An owner that takes the place of another holder, and never stands in the queue.
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

    fn next_owner(&mut self, place: &Position, kind: &OwnerKind) -> Owner {
        self.source.next_owner(place, kind)
    }

    fn next_plain_owner(&mut self, kind: &OwnerKind) -> Owner {
        self.source.next_plain_owner(kind)
    }

    fn draw_seed(&mut self) -> u64 {
        self.jitter.next()
    }
}
