//! The records of a node about one lock besides its key, for tests that compare nodes.

use crate::{
    command::Owner, fence::Fence, moment::NodeTime, name::Name, share::Shares, store::Store,
};

/// The records of a node about one lock besides its key.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LockDetails {
    /// The fence of the last grant, and in how many milliseconds it expires.
    pub fence: Option<(Fence, u64)>,
    /// When the lock was granted, in milliseconds of the node's time.
    pub since_ms: Option<u64>,
    /// The waiters, in the order of the queue.
    pub waiting: Vec<Owner>,
    /// In how many milliseconds the queue expires.
    pub queue_ends_in_ms: Option<u64>,
    /// The shares of its holders, including expired ones.
    pub shares: Shares,
}

impl Store {
    /// The records about a lock besides its key, for tests that compare nodes.
    pub fn details(&mut self, now: NodeTime, name: &Name) -> LockDetails {
        self.keys.expire(now.as_millis());
        self.queue.expire(now.as_millis());
        let left = |end: u64| end.saturating_sub(now.as_millis());
        let last = self.queue.fences.get(name);
        let waiting = self.queue.waiting.get(name).into_iter().flatten();
        LockDetails {
            fence: last.map(|it| it.fence).zip(self.queue.fences.end_of(name).map(left)),
            since_ms: last.map(|it| it.since_ms),
            waiting: waiting.map(|(_, owner)| owner.clone()).collect(),
            queue_ends_in_ms: self.queue.waiting.end_of(name).map(left),
            shares: self.shares(name).cloned().unwrap_or_default(),
        }
    }
}
