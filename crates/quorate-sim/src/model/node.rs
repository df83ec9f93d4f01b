//! One node: the core's store, and what a look into it shows.

use quorate_core::{
    command::{Command, Owner, Reply, Value},
    moment::NodeTime,
    name::Name,
    store::Store,
};

/// A node, with the key that it has now.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Node {
    store: Store,
    /// What the store shows, read after every change.
    key: Option<Key>,
    /// A renewal has made a key, or another's its own.
    is_forged: bool,
}

/// The key of the lock on one node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Key {
    pub(super) client: u8,
    pub(super) attempt: u8,
    pub(super) left_ms: u64,
}

impl Node {
    pub(super) fn run(&mut self, now: NodeTime, name: &Name, command: &Command) -> Reply {
        let owner = |key: Key| (key.client, key.attempt);
        let before = self.key.map(owner);
        let reply = self.store.apply(now, command);
        self.look(now, name);
        let is_changed = self.key.is_some() && self.key.map(owner) != before;
        self.is_forged |= is_changed && matches!(command, Command::Prolong { .. });
        reply
    }

    /// Lets go what has expired, and reads what is left.
    pub(super) fn look(&mut self, now: NodeTime, name: &Name) {
        let reply = self.store.apply(now, &Command::Look { name: name.clone() });
        let Reply::Seen(sighting) = reply else { unreachable!("a look is answered by a sighting") };
        self.key = sighting.map(|sighting| match sighting.value {
            Value::Text(text) if text.len() == 2 => Key {
                client: text[0] - b'A',
                attempt: text[1] - b'0',
                left_ms: sighting.expires_in_ms.expect("every key of this model has an end"),
            },
            value => unreachable!("only owners of this model are stored: {value:?}"),
        });
    }

    /// The key goes before its time.
    pub(super) fn lose_key(&mut self, now: NodeTime, name: &Name) {
        if let Some(key) = self.key {
            let owner: Owner = super::desk::owner(key.client, key.attempt);
            self.run(now, name, &Command::Free { name: name.clone(), owner });
        }
    }

    /// Everything goes.
    pub(super) fn forget(&mut self) {
        self.store.clear();
        self.key = None;
    }

    pub(super) fn key(&self) -> Option<Key> {
        self.key
    }

    pub(super) fn is_forged(&self) -> bool {
        self.is_forged
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }
}
