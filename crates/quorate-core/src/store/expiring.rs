//! A table whose entries expire.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

/// Entries by key, and the same keys by the time at which they expire, so that expired entries do
/// not pile up.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Expiring<K, V> {
    entries: BTreeMap<K, Kept<V>>,
    ends: BTreeSet<(u64, K)>,
}

/// A record that a node keeps, and when it expires.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Kept<V> {
    /// The record.
    pub value: V,
    /// The last millisecond of the node's time in which it exists; `None` if it never expires.
    pub ends_at_ms: Option<u64>,
}

impl<K, V> Default for Expiring<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> Expiring<K, V> {
    pub(super) const fn new() -> Self {
        Self { entries: BTreeMap::new(), ends: BTreeSet::new() }
    }
}

impl<K: Clone + Ord, V> Expiring<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// The entry with its end.
    pub(super) fn kept(&self, key: &K) -> Option<&Kept<V>> {
        self.entries.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// When the entry expires; `None` if it never does, or does not exist.
    pub(super) fn end_of(&self, key: &K) -> Option<u64> {
        self.entries.get(key).and_then(|entry| entry.ends_at_ms)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.entries.keys()
    }

    /// The keys from `from` on, in their order.
    pub(super) fn keys_from<Q>(&self, from: Bound<&Q>) -> impl Iterator<Item = &K>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.entries.range::<Q, _>((from, Bound::Unbounded)).map(|(key, _)| key)
    }

    pub(super) fn put(&mut self, key: &K, value: V, ends_at_ms: Option<u64>) {
        self.set(key, Some(Kept { value, ends_at_ms }));
    }

    /// Replaces an entry.
    pub(super) fn set(&mut self, key: &K, kept: Option<Kept<V>>) {
        self.remove(key);
        let Some(kept) = kept else { return };
        if let Some(end) = kept.ends_at_ms {
            self.ends.insert((end, key.clone()));
        }
        self.entries.insert(key.clone(), kept);
    }

    /// Changes when an existing entry expires.
    pub(super) fn set_end(&mut self, key: &K, ends_at_ms: u64) {
        if let Some(entry) = self.entries.get_mut(key) {
            if let Some(end) = entry.ends_at_ms.replace(ends_at_ms) {
                self.ends.remove(&(end, key.clone()));
            }
            self.ends.insert((ends_at_ms, key.clone()));
        }
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let removed = self.entries.remove(key)?;
        if let Some(end) = removed.ends_at_ms {
            self.ends.remove(&(end, key.clone()));
        }
        Some(removed.value)
    }

    /// Removes expired entries. An entry exists during the millisecond at which it ends, as on a
    /// server.
    pub(super) fn expire(&mut self, now_ms: u64) {
        while let Some((end, _)) = self.ends.first() {
            if *end >= now_ms {
                break;
            }
            if let Some((_, key)) = self.ends.pop_first() {
                self.entries.remove(&key);
            }
        }
    }

    /// Whether both tables have the same entries.
    #[cfg(test)]
    pub(super) fn is_consistent(&self) -> bool {
        self.entries.values().filter(|entry| entry.ends_at_ms.is_some()).count() == self.ends.len()
    }
}
