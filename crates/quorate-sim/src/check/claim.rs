//! What a holder believes.

use quorate_core::{command::Owner, fence::Fence};

use crate::{
    clock::{NEVER, Nanos},
    trace::Group,
};

/// One holder's belief: from when it was told that it holds a lock until its own clock says that
/// it does not.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) lock: usize,
    /// `None` is another library.
    pub(crate) client: Option<usize>,
    pub(crate) owner: Owner,
    /// Others of its group may hold the lock as well.
    pub(crate) group: Option<Group>,
    /// As whom it is about to be held, by a holder who becomes a reader.
    pub(crate) reader: Option<Owner>,
    /// Whose lease it was before.
    pub(super) from: Option<Owner>,
    pub(super) start: Nanos,
    pub(crate) end: Nanos,
    /// For how long a majority must carry it: until its end, and for a holder that died, who frees
    /// nothing, until what would have been its end.
    pub(super) backed_until: Nanos,
    /// The holder's own limit.
    pub(super) end_max: Nanos,
    pub(super) fence: Option<Fence>,
    /// When the holder began to ask for it.
    pub(super) asked_at: Nanos,
    pub(super) is_told: bool,
    pub(super) is_let_go: bool,
}

impl Claim {
    pub(crate) fn new(
        lock: usize,
        client: Option<usize>,
        owner: Owner,
        (start, end, end_max): (Nanos, Nanos, Nanos),
    ) -> Self {
        let (fence, asked_at, is_told, is_let_go) = (None, start, false, false);
        let backed_until = end;
        let (group, reader, from) = (Group::of(owner.as_bytes()), None, None);
        Self {
            lock,
            client,
            owner,
            group,
            reader,
            from,
            start,
            end,
            backed_until,
            end_max,
            fence,
            asked_at,
            is_told,
            is_let_go,
        }
    }

    /// Of one who shares the lock the fence says nothing.
    pub(crate) fn with_fence(mut self, fence: Option<Fence>, asked_at: Nanos) -> Self {
        self.fence = fence.filter(|_| self.group != Some(Group::Readers));
        self.asked_at = asked_at;
        self
    }

    pub(crate) fn adopted_from(mut self, from: Option<Owner>) -> Self {
        self.from = from;
        self
    }

    /// Both may hold their lock at once.
    pub(super) fn is_with(&self, other: &Self) -> bool {
        self.group.is_some() && self.group == other.group
    }

    /// It is an entry of a reentrant lock.
    pub(crate) const fn is_entry(&self) -> bool {
        matches!(self.group, Some(Group::Identity(_)))
    }

    /// True while a majority must carry it.
    pub(crate) const fn is_backed(&self, now: Nanos) -> bool {
        self.start <= now && now < self.backed_until
    }

    /// Its time is over, and its holder runs but was not told.
    pub(super) fn is_unsaid(&self, running: u32) -> bool {
        let runs = self.client.is_some_and(|client| running & (1 << client) != 0);
        runs && !self.is_told && !self.is_let_go && self.end != NEVER
    }
}
