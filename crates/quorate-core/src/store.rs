//! What one node does with one command: the reference for every engine.
//!
//! The memory engine and the simulator run this very code, and the scripts on a real server are
//! tested against it: the same random commands must give the same replies.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    command::{Command, Fate, Owner, Prolongation, Reply, SHOWN_LEN_MAX, Sighting, Value},
    moment::NodeTime,
    mutant::{self, Mutant},
    name::Name,
};

/// The lock state of one node.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Store {
    keys: BTreeMap<Name, Entry>,
    /// The same keys by the time at which they go, so that forgotten ones do not pile up.
    ends: BTreeSet<(u64, Name)>,
}

impl Store {
    /// A node that holds nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { keys: BTreeMap::new(), ends: BTreeSet::new() }
    }

    /// Runs one command at the node's own time.
    pub fn apply(&mut self, now: NodeTime, command: &Command) -> Reply {
        self.expire(now);
        match command {
            Command::Take { name, owner, ttl_ms } => {
                if self.keys.contains_key(name) && !mutant::is_on(Mutant::TakeOverwrites) {
                    return Reply::Another;
                }
                let ends_at_ms = match mutant::is_on(Mutant::TakeForever) {
                    true => None,
                    false => end(now, *ttl_ms),
                };
                self.put(name, Value::Text(owner.as_bytes().into()), ends_at_ms);
                Reply::Taken
            }
            Command::Adopt { name, from, owner, ttl_ms } => match self.whose(name, from) {
                Whose::Theirs if !mutant::is_on(Mutant::AdoptAnyones) => Reply::Another,
                Whose::Nobodys => Reply::Absent,
                Whose::Ours | Whose::Theirs => {
                    self.put(name, Value::Text(owner.as_bytes().into()), end(now, *ttl_ms));
                    Reply::Taken
                }
            },
            Command::Free { name, owner } => match self.whose(name, owner) {
                Whose::Theirs if !mutant::is_on(Mutant::FreeAnyones) => Reply::Another,
                Whose::Nobodys => Reply::Absent,
                Whose::Ours | Whose::Theirs => {
                    self.remove(name);
                    Reply::Freed
                }
            },
            Command::Prolong { entries } => {
                Reply::Each(entries.iter().map(|entry| self.prolong(now, entry)).collect())
            }
            Command::Check { name, .. } | Command::Look { name } => {
                Reply::Seen(self.keys.get(name).map(|entry| Sighting {
                    value: shown(&entry.value),
                    expires_in_ms: entry.ends_at_ms.map(|end| end.saturating_sub(now.as_millis())),
                }))
            }
        }
    }

    /// Puts a key there as a foreign program would, replacing what was there. A `ttl_ms` of `None`
    /// is a key that never goes.
    pub fn plant(&mut self, now: NodeTime, name: &Name, value: Value, ttl_ms: Option<u64>) {
        self.put(name, value, ttl_ms.and_then(|ttl_ms| end(now, ttl_ms)));
    }

    /// Forgets one key, as eviction or a foreign program does. Returns true if it was there.
    pub fn forget(&mut self, name: &Name) -> bool {
        self.remove(name)
    }

    /// Forgets everything, as a restart without persistence does.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// The names of the keys that are alive at `now`.
    pub fn names(&mut self, now: NodeTime) -> Vec<Name> {
        self.expire(now);
        self.keys.keys().cloned().collect()
    }

    fn prolong(&mut self, now: NodeTime, entry: &Prolongation) -> Fate {
        let Prolongation { name, owner, ttl_ms } = entry;
        match self.whose(name, owner) {
            Whose::Theirs if mutant::is_on(Mutant::ProlongAnyones) => Fate::LivesOn,
            Whose::Theirs => Fate::Another,
            Whose::Nobodys if !mutant::is_on(Mutant::ProlongCreates) => Fate::Absent,
            Whose::Ours | Whose::Nobodys => {
                let ends_at_ms = end(now, *ttl_ms);
                let known = self.keys.get(name).and_then(|entry| entry.ends_at_ms);
                let is_shortened = mutant::is_on(Mutant::ProlongShortens);
                if known.is_none_or(|known| Some(known) < ends_at_ms) || is_shortened {
                    self.put(name, Value::Text(owner.as_bytes().into()), ends_at_ms);
                }
                Fate::LivesOn
            }
        }
    }

    fn whose(&self, name: &Name, owner: &Owner) -> Whose {
        match self.keys.get(name).map(|entry| &entry.value) {
            None => Whose::Nobodys,
            Some(Value::Text(text)) if **text == *owner.as_bytes() => Whose::Ours,
            Some(Value::Text(_) | Value::OtherType(_)) => Whose::Theirs,
        }
    }

    fn put(&mut self, name: &Name, value: Value, ends_at_ms: Option<u64>) {
        self.remove(name);
        self.keys.insert(name.clone(), Entry { value, ends_at_ms });
        if let Some(end) = ends_at_ms {
            self.ends.insert((end, name.clone()));
        }
    }

    fn remove(&mut self, name: &Name) -> bool {
        let removed = self.keys.remove(name);
        if let Some(end) = removed.as_ref().and_then(|entry| entry.ends_at_ms) {
            self.ends.remove(&(end, name.clone()));
        }
        removed.is_some()
    }

    /// A key lives through the millisecond at which it ends, as on a real server.
    fn expire(&mut self, now: NodeTime) {
        while let Some((end, _)) = self.ends.first() {
            if *end >= now.as_millis() {
                break;
            }
            if let Some((_, name)) = self.ends.pop_first() {
                self.keys.remove(&name);
            }
        }
    }
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Entry {
    value: Value,
    ends_at_ms: Option<u64>,
}

enum Whose {
    Ours,
    Theirs,
    Nobodys,
}

fn shown(value: &Value) -> Value {
    match value {
        Value::Text(text) => Value::Text(text.iter().take(SHOWN_LEN_MAX).copied().collect()),
        Value::OtherType(kind) => Value::OtherType(kind.clone()),
    }
}

fn end(now: NodeTime, ttl_ms: u64) -> Option<u64> {
    Some(now.as_millis().saturating_add(ttl_ms))
}

#[cfg(test)]
mod tests;
