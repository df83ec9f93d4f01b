//! What a node does without memory: it keeps what it has, and stores nothing new.
//!
//! Sessions, records, leases and places in a queue are kept, renewed, handed on and given back.
//! Otherwise every lease would run out while the server is full, one ttl after its session.

use super::{Store, Whose};
use crate::{
    command::{Command, Value},
    moment::NodeTime,
    queue::{AcquireRequest, Position, group},
};

impl Store {
    /// The node has no memory left from now on, or has some again.
    pub const fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Whether the node has no memory left.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    /// How many owners hold a lock or wait for one, for simulations: a full node gets no more.
    pub fn owners(&mut self, now: NodeTime) -> usize {
        self.keys.expire(now.as_millis());
        self.queue.expire(now.as_millis());
        let holders = |name| match self.keys.get(name) {
            Some(Value::Shared(shares)) => shares.len(),
            Some(Value::Text(_) | Value::OtherType(_)) => 1,
            None => 0,
        };
        let waiters = |name| self.queue.waiting.get(name).map_or(0, |waiting| waiting.len());
        let held: usize = self.keys.keys().map(holders).sum();
        held.saturating_add(self.queue.waiting.keys().map(waiters).sum())
    }

    /// Whether a command would store something new, and there is no memory for it.
    pub(super) fn lacks_memory_for(&self, command: &Command) -> bool {
        mutate!(FullGrants if matches!(command, Command::SetKey { .. }) => return false);
        let is_new = match command {
            Command::SetKey { .. } => true,
            Command::Introduce { client, .. } => !self.queue.whos.contains(client),
            Command::Membership(command) => self.membership.is_creating(command),
            _ => false,
        };
        self.is_full && is_new
    }

    /// Whether there is no memory for what an owner asks for: it neither has the lock nor a place
    /// in its queue.
    pub(super) fn lacks_memory_for_ask(
        &self,
        now: NodeTime,
        ask: &AcquireRequest,
        place: Position,
    ) -> bool {
        mutate!(FullGrants => return false);
        let AcquireRequest { name, owner, is_known, .. } = ask;
        let share = || self.shares(name)?.alive(owner, now.as_millis());
        let is_holder = match group(owner).is_some() {
            true => share().is_some(),
            false => self.whose(name, owner) == Whose::Ours,
        };
        let is_waiter = *is_known && self.queue.rank(name, place.ticket, owner).is_some();
        mutate!(FullDropsWaiters => let is_waiter = false);
        self.is_full && !is_holder && !is_waiter
    }

    /// The same for a lease whose key is not there. If the node knows its fence it had the key
    /// before; if not, the lease was won on other nodes, and is new here.
    pub(super) fn lacks_memory_to_heal(&self, is_known: bool) -> bool {
        mutate!(FullHealsAnything => return false);
        self.is_full && !is_known
    }
}
