//! The owners of a client, and the routing of pushes about them.

use std::collections::BTreeMap;

use crate::{
    command::Owner,
    name::Name,
    queue::{Push, PushKind},
};

/// The owners of a client that wait for a lock or hold one. `W` identifies a waiter.
#[derive(Clone, Debug, Hash)]
pub(super) struct Registry<W> {
    /// The waiter; `None` for a holder.
    owners: BTreeMap<Owner, Option<W>>,
    /// The number of owners that wait for each lock.
    waiting: BTreeMap<Name, usize>,
}

/// What to do with a push.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Route<W> {
    /// Pass it to this waiter.
    Waiter(W),
    /// Ignore it: the owner holds the lock already, or another process may have the lease now.
    Ignore,
    /// Release the grant, which nothing here waits for, so that the next waiter gets the lock.
    Release,
}

impl<W> Default for Registry<W> {
    fn default() -> Self {
        Self { owners: BTreeMap::new(), waiting: BTreeMap::new() }
    }
}

impl<W: Clone> Registry<W> {
    /// Records that the owner waits for the lock.
    pub(super) fn wait(&mut self, owner: &Owner, name: &Name, waiter: W) {
        let count = self.waiting.entry(name.clone()).or_default();
        *count = count.saturating_add(1);
        let before = self.owners.insert(owner.clone(), Some(waiter));
        self.stop_waiting(name, before);
    }

    /// Records that the owner holds the lock or is about to.
    pub(super) fn hold(&mut self, owner: &Owner, name: &Name) {
        let before = self.owners.insert(owner.clone(), None);
        self.stop_waiting(name, before);
    }

    /// Removes an owner that waits for the lock or holds it: the client does not use it any more.
    pub(super) fn forget(&mut self, owner: &Owner, name: &Name) {
        let before = self.owners.remove(owner);
        self.stop_waiting(name, before);
    }

    /// Whether no owner waits or holds a lock.
    pub(super) fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.waiting.is_empty()
    }

    /// Whether an owner of this client waits for the lock.
    #[must_use]
    pub(super) fn is_awaited(&self, name: &Name) -> bool {
        self.waiting.contains_key(name)
    }

    /// What to do with a push.
    #[must_use]
    pub(super) fn route(&self, push: &Push) -> Route<W> {
        mutate!(OrphansKept if !self.owners.contains_key(&push.owner) => return Route::Ignore);
        match self.owners.get(&push.owner) {
            Some(Some(waiter)) => Route::Waiter(waiter.clone()),
            Some(None) => Route::Ignore,
            // Only a new grant to a waiter that has left must be released.
            None if push.kind == PushKind::Inquired => Route::Ignore,
            None => Route::Release,
        }
    }

    /// `before`: what the owner of this lock was until now.
    fn stop_waiting(&mut self, name: &Name, before: Option<Option<W>>) {
        if before.flatten().is_none() {
            return;
        }
        let Some(count) = self.waiting.get_mut(name) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.waiting.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{command::ClientId, fence::Fence, queue::Position};

    fn owner(number: u64) -> Owner {
        Position { ticket: 7, ttl_ms: 1_000, client: client() }.owner(number)
    }

    fn client() -> ClientId {
        ClientId::from_random([3; 20])
    }

    fn name() -> Name {
        Name::parse("orders", "").unwrap()
    }

    fn push(owner: &Owner, kind: PushKind) -> Push {
        let (client, name, owner) = (client(), name(), owner.clone());
        Push { client, name, owner, kind, fence: Fence::new(9), session: None }
    }

    #[test]
    fn pushes_go_to_the_waiter_of_their_owner() {
        let mut registry = Registry::default();
        registry.wait(&owner(1), &name(), "first");
        registry.wait(&owner(2), &name(), "second");
        let route =
            |registry: &Registry<_>, number, kind| registry.route(&push(&owner(number), kind));
        assert_eq!(route(&registry, 2, PushKind::Granted), Route::Waiter("second"));
        assert_eq!(route(&registry, 1, PushKind::Inquired), Route::Waiter("first"));
        registry.hold(&owner(2), &name());
        assert_eq!(route(&registry, 2, PushKind::Granted), Route::Ignore, "it holds the lock");
        registry.forget(&owner(1), &name());
        assert_eq!(route(&registry, 1, PushKind::Granted), Route::Release, "no waiter wants it");
        assert_eq!(
            route(&registry, 1, PushKind::Inquired),
            Route::Ignore,
            "another process may hold it"
        );
    }

    #[test]
    fn lock_is_awaited_until_its_last_waiter_goes() {
        let mut registry = Registry::default();
        for number in [1, 2] {
            registry.wait(&owner(number), &name(), number);
            registry.wait(&owner(number), &name(), number);
        }
        registry.hold(&owner(1), &name());
        assert!(registry.is_awaited(&name()));
        registry.forget(&owner(2), &name());
        assert!(!registry.is_awaited(&name()));
        registry.forget(&owner(1), &name());
        assert!(registry.is_empty(), "no owner is registered");
    }
}
