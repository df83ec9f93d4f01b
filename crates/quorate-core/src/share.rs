//! Holding a lock together with others: who of them holds it, and until when.

use std::collections::{BTreeMap, btree_map};

use crate::{command::Owner, fence::Fence};

/// Those who hold one lock together on one node. The key lives for as long as the last of them, and
/// each goes by itself when its own time is over.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Shares(BTreeMap<Owner, Share>);

/// One of them.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Share {
    /// Names this grant of this node.
    pub fence: Fence,
    /// The last millisecond of the node's time in which it counts.
    pub ends_at_ms: u64,
    /// When it was granted, in milliseconds of the node's time.
    pub since_ms: u64,
}

impl Share {
    /// Whether it counts at that time.
    #[must_use]
    pub const fn is_alive(&self, now_ms: u64) -> bool {
        self.ends_at_ms >= now_ms
    }
}

impl Shares {
    /// The share of an owner that counts at that time.
    #[must_use]
    pub fn alive(&self, owner: &Owner, now_ms: u64) -> Option<Share> {
        self.0.get(owner).copied().filter(|share| share.is_alive(now_ms))
    }

    /// The earliest of those who count at that time.
    #[must_use]
    pub fn first_alive(&self, now_ms: u64) -> Option<&Owner> {
        self.0.iter().find(|(_, share)| share.is_alive(now_ms)).map(|(owner, _)| owner)
    }

    /// The end of the one who goes first.
    #[must_use]
    pub fn first_end(&self) -> Option<u64> {
        self.0.values().map(|share| share.ends_at_ms).min()
    }

    /// All of them, the earliest ticket first, also those whose time is over.
    pub fn iter(&self) -> btree_map::Iter<'_, Owner, Share> {
        self.0.iter()
    }

    /// How many there are, also those whose time is over.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Nobody is left.
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

    /// Throws out those whose time is over. Returns the last end of the others.
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
