//! What one node does with one command: the reference for every engine.
//!
//! The memory engine, the local engine and the simulator run this very code, and the scripts on a
//! real server are tested against it: the same random commands must give the same replies.

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
    /// What it knows of itself and of the set of nodes.
    pub membership: membership::Node,
    /// The server has no memory left.
    is_full: bool,
}

impl Store {
    /// A node that holds nothing.
    #[must_use]
    pub const fn new() -> Self {
        let membership = membership::Node::new(0);
        Self { keys: Expiring::new(), queue: QueueState::new(), membership, is_full: false }
    }

    /// Runs one command at the node's own time.
    pub fn apply(&mut self, now: NodeTime, command: &Command) -> Reply {
        self.keys.expire(now.as_millis());
        self.queue.expire(now.as_millis());
        match command {
            stale if self.is_stale(stale) => Reply::Stale,
            new if self.lacks_memory_for(new) => Reply::Full,
            Command::SetKey { name, owner, ttl_ms, .. } => self.take(now, name, owner, *ttl_ms),
            Command::Adopt { name, from, owner, ttl_ms, sender } => {
                // Where it is not the holder it may stand in line, and will never come for that.
                let may_stand_in_line = sender.is_some();
                mutate!(AdoptKeepsPosition => let may_stand_in_line = false);
                if may_stand_in_line {
                    self.queue.forget_place(name, from);
                }
                match (group(from), group(owner)) {
                    (None, None) => self.adopt(now, name, from, owner, *ttl_ms),
                    (before, after) if before == after => {
                        self.adopt_share(now, name, from, owner, *ttl_ms)
                    }
                    (None, Some(Group::Readers)) if sender.is_some() => {
                        self.downgrade(now, name, from, owner, *ttl_ms)
                    }
                    // Who shares a lock never has it alone, and without a line nobody reads.
                    _ if self.keys.contains(name) => Reply::NotOwner,
                    _ => Reply::Absent,
                }
            }
            Command::DeleteKey { name, owner } => self.free(name, owner),
            Command::ExtendKeys { entries, .. } => {
                Reply::ExtendedKeys(entries.iter().map(|entry| self.prolong(now, entry)).collect())
            }
            Command::Check { name, owner } => {
                let share = self.share_observation(now, name, owner);
                Reply::Key(share.or_else(|| self.observation(now, name)))
            }
            Command::ReadKey { name } => Reply::Key(self.observation(now, name)),
            Command::Inspect { name, shown } => self.inspect(now, name, *shown),
            Command::List { prefix, cursor, count } => self.list(prefix, cursor.as_ref(), *count),
            Command::Membership(command) => {
                let keys = self.held();
                let reply = self.membership.apply(now, command, keys);
                reply.map_or(Reply::Stale, Reply::Membership)
            }
            Command::Attach { sender, terms } => self.attach(now, *sender, terms),
            Command::Ping { sender, terms } => self.ping(now, *sender, terms),
            Command::Acquire { sender, request: ask } => self.acquire(now, *sender, ask),
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

    /// What the node has to tell clients since this was last asked.
    pub fn take_pushes(&mut self) -> Vec<Push> {
        std::mem::take(&mut self.queue.pushes)
    }

    /// The client listens for pushes from now on.
    pub fn listen(&mut self, client: ClientId) {
        self.queue.listeners.insert(client);
    }

    /// The client's connection has closed: nobody would hear a push.
    pub fn hang_up(&mut self, client: ClientId) {
        self.queue.listeners.remove(&client);
    }

    /// All connections have closed.
    pub fn hang_up_all(&mut self) {
        self.queue.listeners.clear();
    }

    /// The names of locks that somebody stands in line for at `now`.
    pub fn lines(&mut self, now: NodeTime) -> Vec<Name> {
        self.queue.expire(now.as_millis());
        self.queue.names()
    }

    /// Puts a key there as a foreign program would, replacing what was there. A `ttl_ms` of `None`
    /// is a key that never goes.
    pub fn plant(&mut self, now: NodeTime, name: &Name, value: Value, ttl_ms: Option<u64>) {
        self.keys.put(name, value, ttl_ms.and_then(|ttl_ms| end(now, ttl_ms)));
    }

    /// Forgets one key, as eviction or a foreign program does. Returns true if it was there.
    pub fn forget(&mut self, name: &Name) -> bool {
        self.keys.remove(name).is_some()
    }

    /// Forgets everything, as FLUSHALL does. Whoever listens goes on to listen.
    pub fn clear(&mut self) {
        self.replace(Self { membership: self.membership.cleared(), ..Self::new() });
    }

    /// Takes over all data of another node, as a replica does. Whoever listens stays.
    pub fn copy(&mut self, other: &Self) {
        let membership = self.membership.with_record_of(&other.membership);
        self.replace(Self { membership, ..other.clone() });
        self.queue.pushes.clear();
    }

    /// Replaces its data, but not its clients and its memory.
    fn replace(&mut self, other: Self) {
        let listeners = std::mem::take(&mut self.queue.listeners);
        *self = Self { is_full: self.is_full, ..other };
        self.queue.listeners = listeners;
    }

    /// The names of the keys that are alive at `now`.
    pub fn names(&mut self, now: NodeTime) -> Vec<Name> {
        self.keys.expire(now.as_millis());
        self.keys.keys().cloned().collect()
    }

    /// Whether it is a vote by a session that is not of today. Those of the line look themselves.
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

    fn take(&mut self, now: NodeTime, name: &Name, owner: &Owner, ttl_ms: u64) -> Reply {
        let is_taken = self.keys.contains(name);
        mutate!(SetOverwrites => let is_taken = false);
        if is_taken {
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
        let whose = self.whose(name, from);
        mutate!(AdoptNotOwned if whose == Whose::Theirs => let whose = Whose::Ours);
        match whose {
            Whose::Theirs => Reply::NotOwner,
            Whose::Nobodys => Reply::Absent,
            Whose::Ours => {
                self.keys.put(name, text(owner), end(now, ttl_ms));
                Reply::Stored
            }
        }
    }

    fn free(&mut self, name: &Name, owner: &Owner) -> Reply {
        let whose = self.whose(name, owner);
        mutate!(DeleteNotOwned if whose == Whose::Theirs => let whose = Whose::Ours);
        match whose {
            Whose::Theirs => Reply::NotOwner,
            Whose::Nobodys => Reply::Absent,
            Whose::Ours => {
                self.keys.remove(name);
                Reply::Deleted
            }
        }
    }

    fn prolong(&mut self, now: NodeTime, entry: &KeyExtension) -> ExtendedKey {
        let KeyExtension { name, owner, ttl_ms } = entry;
        let whose = self.whose(name, owner);
        mutate!(ExtendNotOwned if whose == Whose::Theirs => return ExtendedKey::Renewed);
        mutate!(ExtendCreates if whose == Whose::Nobodys => let whose = Whose::Ours);
        match whose {
            Whose::Theirs => ExtendedKey::NotOwner,
            Whose::Nobodys => ExtendedKey::Absent,
            Whose::Ours => {
                let ends_at_ms = end(now, *ttl_ms);
                let known = self.keys.end_of(name);
                mutate!(ExtendShortens => let known = None);
                if known.is_none_or(|known| Some(known) < ends_at_ms) {
                    self.keys.put(name, text(owner), ends_at_ms);
                }
                ExtendedKey::Renewed
            }
        }
    }

    /// Of those who hold a lock together the first is told; nobody, if their time is over.
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

    /// What one of those who hold a lock together has of it.
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

    fn whose(&self, name: &Name, owner: &Owner) -> Whose {
        match self.keys.get(name) {
            None => Whose::Nobodys,
            Some(Value::Text(text)) if **text == *owner.as_bytes() => Whose::Ours,
            Some(Value::Text(_) | Value::Shared(_) | Value::OtherType(_)) => Whose::Theirs,
        }
    }
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Whose {
    Ours,
    Theirs,
    Nobodys,
}

fn text(owner: &Owner) -> Value {
    Value::Text(owner.as_bytes().into())
}

fn end(now: NodeTime, ttl_ms: u64) -> Option<u64> {
    Some(now.as_millis().saturating_add(ttl_ms))
}

#[cfg(test)]
mod tests;
