//! The state of one node, and how it executes commands: the reference for every engine.
//!
//! The memory engine, the local engine and the simulator run this code. The scripts on a server are
//! tested against it: the same random commands must give the same replies.

mod expiring;
mod full;
mod parts;
mod queue;

use self::{expiring::Expiring, queue::QueueState};
pub use self::{
    expiring::Kept,
    parts::{ClientState, LockState},
    queue::{LastGrant, LockDetails, SessionRecord},
};
use crate::{
    command::{
        ClientId, Command, ExtendedKey, KeyExtension, KeyObservation, Owner, Reply, SHOWN_LEN_MAX,
        Value,
    },
    membership,
    moment::NodeTime,
    name::Name,
    queue::{Group, Push, group},
};

/// The lock state of one node.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Store {
    keys: Expiring<Name, Value>,
    queue: QueueState,
    /// The node's record of itself and of the set of nodes.
    pub membership: membership::Node,
    /// The server has no memory left.
    is_full: bool,
}

impl Store {
    /// A node without data.
    #[must_use]
    pub const fn new() -> Self {
        let membership = membership::Node::new(0);
        Self { keys: Expiring::new(), queue: QueueState::new(), membership, is_full: false }
    }

    /// Executes one command at the node's own time.
    pub fn apply(&mut self, now: NodeTime, command: &Command) -> Reply {
        self.keys.expire(now.as_millis());
        self.queue.expire(now.as_millis());
        match command {
            stale if self.is_stale(stale) => Reply::Stale,
            new if self.lacks_memory_for(new) => Reply::Full,
            Command::SetKey { name, owner, ttl_ms, .. } => self.set_key(now, name, owner, *ttl_ms),
            Command::Adopt { name, from, owner, ttl_ms, sender } => {
                // The old owner may be queued instead, and would never use a grant.
                let may_be_queued = sender.is_some();
                mutate!(AdoptKeepsPosition => let may_be_queued = false);
                if may_be_queued {
                    self.queue.remove_waiter(name, from);
                }
                match (group(from), group(owner)) {
                    (None, None) => self.adopt(now, name, from, owner, *ttl_ms),
                    (before, after) if before == after => {
                        self.adopt_share(now, name, from, owner, *ttl_ms)
                    }
                    (None, Some(Group::Readers)) if sender.is_some() => {
                        self.downgrade(now, name, from, owner, *ttl_ms)
                    }
                    // A reader never becomes a writer. Without a queue there are no readers.
                    _ if self.keys.contains(name) => Reply::NotOwner,
                    _ => Reply::Absent,
                }
            }
            Command::DeleteKey { name, owner } => self.delete_key(name, owner),
            Command::ExtendKeys { entries, .. } => {
                let extend = |entry| self.extend_key(now, entry);
                Reply::ExtendedKeys(entries.iter().map(extend).collect())
            }
            Command::Check { name, owner } => {
                let share = self.share_observation(now, name, owner);
                Reply::Key(share.or_else(|| self.observation(now, name)))
            }
            Command::ReadKey { name } => Reply::Key(self.observation(now, name)),
            Command::Inspect { name, shown } => self.inspect(now, name, *shown),
            Command::List { prefix, cursor, count } => self.list(prefix, cursor.as_ref(), *count),
            Command::Membership(command) => {
                let key_count = self.key_count();
                let reply = self.membership.apply(now, command, key_count);
                reply.map_or(Reply::Stale, Reply::Membership)
            }
            Command::Attach { sender, terms } => self.attach(now, *sender, terms),
            Command::Ping { sender, terms } => self.ping(now, *sender, terms),
            Command::Acquire { sender, request } => self.acquire(now, *sender, request),
            Command::Introduce { client, who, lifetime_ms } => {
                self.queue.introduce(now, *client, who, *lifetime_ms);
                Reply::Introduced
            }
            Command::Who { client } => Reply::Known(self.queue.who(client)),
            Command::Release { name, owner, yields } => self.release(now, name, owner, *yields),
            Command::Extend { sender, entries } => self.extend(now, *sender, entries),
            Command::Batch(entries) => {
                Reply::Batch(entries.iter().map(|entry| Some(self.apply(now, entry))).collect())
            }
        }
    }

    /// The pushes to clients since the last call.
    pub fn take_pushes(&mut self) -> Vec<Push> {
        std::mem::take(&mut self.queue.pushes)
    }

    /// The client subscribes to pushes.
    pub fn subscribe(&mut self, client: ClientId) {
        self.queue.subscribers.insert(client);
    }

    /// The client's connection is closed. A push would not arrive.
    pub fn unsubscribe(&mut self, client: ClientId) {
        self.queue.subscribers.remove(&client);
    }

    /// All connections are closed.
    pub fn unsubscribe_all(&mut self) {
        self.queue.subscribers.clear();
    }

    /// The names of the locks that have a queue at `now`.
    pub fn queued_names(&mut self, now: NodeTime) -> Vec<Name> {
        self.queue.expire(now.as_millis());
        self.queue.names()
    }

    /// Stores a key as a foreign program would, replacing the previous one. With a `ttl_ms` of
    /// `None` the key never expires.
    pub fn plant(&mut self, now: NodeTime, name: &Name, value: Value, ttl_ms: Option<u64>) {
        self.keys.put(name, value, ttl_ms.and_then(|ttl_ms| end(now, ttl_ms)));
    }

    /// Deletes one key, as eviction or a foreign program does. Returns true if it existed.
    pub fn forget(&mut self, name: &Name) -> bool {
        self.keys.remove(name).is_some()
    }

    /// Deletes all data, as FLUSHALL does. Clients stay subscribed.
    pub fn clear(&mut self) {
        self.replace(Self { membership: self.membership.cleared(), ..Self::new() });
    }

    /// Copies all data of another node, as a replica does. Clients stay subscribed.
    pub fn copy(&mut self, other: &Self) {
        let membership = self.membership.with_record_of(&other.membership);
        self.replace(Self { membership, ..other.clone() });
        self.queue.pushes.clear();
    }

    /// Replaces the data, but neither the subscribers nor whether the node is full.
    fn replace(&mut self, other: Self) {
        let subscribers = std::mem::take(&mut self.queue.subscribers);
        *self = Self { is_full: self.is_full, ..other };
        self.queue.subscribers = subscribers;
    }

    /// The names of the keys that have not expired at `now`.
    pub fn names(&mut self, now: NodeTime) -> Vec<Name> {
        self.keys.expire(now.as_millis());
        self.keys.keys().cloned().collect()
    }

    /// Whether the command names a session that is not the current one. Commands of the queue check
    /// their session themselves.
    fn is_stale(&self, command: &Command) -> bool {
        mutate!(SetWithoutSession if matches!(command, Command::SetKey { .. }) => return false);
        let is_extension = matches!(command, Command::ExtendKeys { .. });
        mutate!(ExtendWithoutSession if is_extension => return false);
        mutate!(AdoptWithoutSession if matches!(command, Command::Adopt { .. }) => return false);
        match command {
            Command::SetKey { sender, .. }
            | Command::ExtendKeys { sender, .. }
            | Command::Adopt { sender, .. } => {
                sender.is_some_and(|sender| !self.queue.has_session(sender))
            }
            _ => false,
        }
    }

    fn set_key(&mut self, now: NodeTime, name: &Name, owner: &Owner, ttl_ms: u64) -> Reply {
        let exists = self.keys.contains(name);
        mutate!(SetOverwrites => let exists = false);
        if exists {
            return Reply::NotOwner;
        }
        let ends_at_ms = end(now, ttl_ms);
        mutate!(SetNeverExpires => let ends_at_ms = None);
        self.keys.put(name, text(owner), ends_at_ms);
        Reply::Stored
    }

    fn adopt(
        &mut self,
        now: NodeTime,
        name: &Name,
        from: &Owner,
        owner: &Owner,
        ttl_ms: u64,
    ) -> Reply {
        let ownership = self.ownership(name, from);
        mutate!(AdoptNotOwned if ownership == Ownership::Other => let ownership = Ownership::Own);
        match ownership {
            Ownership::Other => Reply::NotOwner,
            Ownership::Absent => Reply::Absent,
            Ownership::Own => {
                self.keys.put(name, text(owner), end(now, ttl_ms));
                Reply::Stored
            }
        }
    }

    fn delete_key(&mut self, name: &Name, owner: &Owner) -> Reply {
        let ownership = self.ownership(name, owner);
        mutate!(DeleteNotOwned if ownership == Ownership::Other => let ownership = Ownership::Own);
        match ownership {
            Ownership::Other => Reply::NotOwner,
            Ownership::Absent => Reply::Absent,
            Ownership::Own => {
                self.keys.remove(name);
                Reply::Deleted
            }
        }
    }

    fn extend_key(&mut self, now: NodeTime, entry: &KeyExtension) -> ExtendedKey {
        let KeyExtension { name, owner, ttl_ms } = entry;
        let ownership = self.ownership(name, owner);
        mutate!(ExtendNotOwned if ownership == Ownership::Other => return ExtendedKey::Renewed);
        mutate!(ExtendCreates if ownership == Ownership::Absent => let ownership = Ownership::Own);
        match ownership {
            Ownership::Other => ExtendedKey::NotOwner,
            Ownership::Absent => ExtendedKey::Absent,
            Ownership::Own => {
                let ends_at_ms = end(now, *ttl_ms);
                let previous = self.keys.end_of(name);
                mutate!(ExtendShortens => let previous = None);
                if previous.is_none_or(|previous| Some(previous) < ends_at_ms) {
                    self.keys.put(name, text(owner), ends_at_ms);
                }
                ExtendedKey::Renewed
            }
        }
    }

    /// The value of a key and its remaining time. A table is shown as the earliest of its shares
    /// that have not expired.
    fn observation(&self, now: NodeTime, name: &Name) -> Option<KeyObservation> {
        let value = match self.keys.get(name)? {
            Value::Text(text) => Value::Text(text.iter().take(SHOWN_LEN_MAX).copied().collect()),
            Value::OtherType(kind) => Value::OtherType(kind.clone()),
            Value::Shared(shares) => text(shares.first_alive(now.as_millis())?),
        };
        let ends_at_ms = self.keys.end_of(name);
        let expires_in_ms = ends_at_ms.map(|end| end.saturating_sub(now.as_millis()));
        Some(KeyObservation { value, expires_in_ms })
    }

    /// The share of one owner in a table.
    fn share_observation(
        &self,
        now: NodeTime,
        name: &Name,
        owner: &Owner,
    ) -> Option<KeyObservation> {
        let share = self.shares(name)?.alive(owner, now.as_millis())?;
        let expires_in_ms = Some(share.ends_at_ms.saturating_sub(now.as_millis()));
        Some(KeyObservation { value: text(owner), expires_in_ms })
    }

    /// Whether the key exists, and has this owner as its value.
    fn ownership(&self, name: &Name, owner: &Owner) -> Ownership {
        match self.keys.get(name) {
            None => Ownership::Absent,
            Some(Value::Text(text)) if **text == *owner.as_bytes() => Ownership::Own,
            Some(Value::Text(_) | Value::Shared(_) | Value::OtherType(_)) => Ownership::Other,
        }
    }
}

/// How an exclusive owner relates to a key.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Ownership {
    Own,
    Other,
    Absent,
}

fn text(owner: &Owner) -> Value {
    Value::Text(owner.as_bytes().into())
}

fn end(now: NodeTime, ttl_ms: u64) -> Option<u64> {
    Some(now.as_millis().saturating_add(ttl_ms))
}

#[cfg(test)]
mod tests;
