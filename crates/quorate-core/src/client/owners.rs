//! The names under which a client asks for locks.

use std::sync::Arc;

use crate::{
    command::{ClientId, Owner},
    line::{Place, Tag, is_shared, label_of, tag_of},
    moment::Moment,
};

/// What kind of owner asks for a lock.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct OwnerKind {
    /// It shares the lock with others of its kind.
    pub is_shared: bool,
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
        Self { is_shared: is_shared(owner), tag: tag_of(text), label }
    }
}

/// Names owners that nobody has had before.
pub trait Owners {
    /// The client.
    fn client(&self) -> ClientId;

    /// A ticket for a caller that came at `came_at`, once enough nodes have told their time.
    fn draw_ticket(&mut self, came_at: Moment) -> Option<u64>;

    /// An owner with this place in the queue.
    fn next_owner(&mut self, place: &Place, kind: &OwnerKind) -> Owner;
}
