//! Locks with several holders: each has a share with its own end.

use std::collections::{BTreeMap, btree_map};

use crate::{command::Owner, fence::Fence};

/// The holders of one lock on one node. The key exists as long as its last share. Each share ends
/// independently.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Shares(BTreeMap<Owner, Share>);

/// The share of one holder.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Share {
    /// The fence of this grant on this node.
    pub fence: Fence,
    /// The last millisecond of the node's time in which the share counts.
    pub ends_at_ms: u64,
    /// When it was granted, in milliseconds of the node's time.
    pub since_ms: u64,
}

impl Share {
    /// Whether the share counts at that time.
    #[must_use]
    pub const fn is_alive(&self, now_ms: u64) -> bool {
        self.ends_at_ms >= now_ms
    }
}

impl Shares {
    /// The share of the owner, if it counts at that time.
    #[must_use]
    pub fn alive(&self, owner: &Owner, now_ms: u64) -> Option<Share> {
        self.0.get(owner).copied().filter(|share| share.is_alive(now_ms))
    }

    /// The owner with the earliest ticket among the shares that count at that time.
    #[must_use]
    pub fn first_alive(&self, now_ms: u64) -> Option<&Owner> {
        self.0.iter().find(|(_, share)| share.is_alive(now_ms)).map(|(owner, _)| owner)
    }

    /// The end of the share that expires first.
    #[must_use]
    pub fn earliest_end(&self) -> Option<u64> {
        self.0.values().map(|share| share.ends_at_ms).min()
    }

    /// All shares by ticket, earliest first, including expired ones.
    pub fn iter(&self) -> btree_map::Iter<'_, Owner, Share> {
        self.0.iter()
    }

    /// The number of shares, including expired ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no shares.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn put(&mut self, owner: &Owner, share: Share) {
        self.0.insert(owner.clone(), share);
    }

    pub(crate) fn remove(&mut self, owner: &Owner) -> Option<Share> {
        self.0.remove(owner)
    }

    /// Removes expired shares. Returns the last end of the others.
    pub(crate) fn purge(&mut self, now_ms: u64) -> Option<u64> {
        self.0.retain(|_, share| share.is_alive(now_ms));
        self.0.values().map(|share| share.ends_at_ms).max()
    }
}

impl FromIterator<(Owner, Share)> for Shares {
    fn from_iter<I: IntoIterator<Item = (Owner, Share)>>(shares: I) -> Self {
        Self(shares.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a Shares {
    type Item = (&'a Owner, &'a Share);
    type IntoIter = btree_map::Iter<'a, Owner, Share>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
