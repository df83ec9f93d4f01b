//! A holder's belief that it holds a lock.

use quorate_core::{command::Owner, fence::Fence};

use crate::{
    clock::{NEVER, Nanos},
    trace::Group,
};

/// One holder's belief: from when it is notified that it holds a lock until its own clock says that
/// the lease has ended.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) lock: usize,
    /// `None` for a foreign library.
    pub(crate) client: Option<usize>,
    pub(crate) owner: Owner,
    /// The group whose members may hold the lock at the same time.
    pub(crate) group: Option<Group>,
    /// The reader's owner id, while a writer becomes a reader.
    pub(crate) reader: Option<Owner>,
    /// The owner of the lease that this one continues.
    pub(super) from: Option<Owner>,
    pub(super) start: Nanos,
    pub(crate) end: Nanos,
    /// Until when a majority must have its key: until its end. A holder that crashed releases
    /// nothing, so its lease counts until its regular end.
    pub(super) backed_until: Nanos,
    /// The holder's own limit.
    pub(super) end_max: Nanos,
    pub(super) fence: Option<Fence>,
    /// When the holder began to ask for it.
    pub(super) asked_at: Nanos,
    pub(super) is_notified: bool,
    pub(super) is_given_up: bool,
}

impl Claim {
    pub(crate) fn new(
        lock: usize,
        client: Option<usize>,
        owner: Owner,
        (start, end, end_max): (Nanos, Nanos, Nanos),
    ) -> Self {
        let (fence, asked_at, is_notified, is_given_up) = (None, start, false, false);
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
            is_notified,
            is_given_up,
        }
    }

    /// A reader's fence is not checked.
    pub(crate) fn with_fence(mut self, fence: Option<Fence>, asked_at: Nanos) -> Self {
        self.fence = fence.filter(|_| self.group != Some(Group::Readers));
        self.asked_at = asked_at;
        self
    }

    pub(crate) fn adopted_from(mut self, from: Option<Owner>) -> Self {
        self.from = from;
        self
    }

    /// True if both may hold the lock at the same time.
    pub(super) fn is_with(&self, other: &Self) -> bool {
        self.group.is_some() && self.group == other.group
    }

    /// True if it is an entry of a reentrant lock.
    pub(crate) const fn is_entry(&self) -> bool {
        matches!(self.group, Some(Group::Identity(_)))
    }

    /// True while a majority must have it.
    pub(crate) const fn is_backed(&self, now: Nanos) -> bool {
        self.start <= now && now < self.backed_until
    }

    /// True if it has ended and its holder runs but was not notified.
    pub(super) fn is_unnotified(&self, running: u32) -> bool {
        let runs = self.client.is_some_and(|client| running & (1 << client) != 0);
        runs && !self.is_notified && !self.is_given_up && self.end != NEVER
    }
}
