//! A node without free memory keeps what it has and stores nothing new.
//!
//! Sessions, records, leases and queue positions that exist are kept, renewed, passed on and
//! released. Otherwise every lease would expire within one ttl while the server is full.

use super::{Ownership, Store};
use crate::{
    command::{Command, Value},
    moment::NodeTime,
    queue::{AcquireRequest, Position, group},
};

impl Store {
    /// Sets whether the node has no memory left.
    pub const fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Whether the node has no memory left.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    /// The number of owners that hold a lock or wait for one, for simulations. On a full node it
    /// does not grow.
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

    /// Whether the node is full and the command would store something new.
    pub(super) fn lacks_memory_for(&self, command: &Command) -> bool {
        mutate!(FullGrants if matches!(command, Command::SetKey { .. }) => return false);
        let is_new = match command {
            Command::SetKey { .. } => true,
            Command::Introduce { client, .. } => !self.queue.descriptions.contains(client),
            Command::Membership(command) => self.membership.is_creating(command),
            _ => false,
        };
        self.is_full && is_new
    }

    /// Whether the node is full and the owner neither holds the lock nor is queued for it.
    pub(super) fn lacks_memory_to_acquire(
        &self,
        now: NodeTime,
        request: &AcquireRequest,
        position: Position,
    ) -> bool {
        mutate!(FullGrants => return false);
        let AcquireRequest { name, owner, is_known, .. } = request;
        let share = || self.shares(name)?.alive(owner, now.as_millis());
        let is_holder = match group(owner).is_some() {
            true => share().is_some(),
            false => self.ownership(name, owner) == Ownership::Own,
        };
        let is_waiter = *is_known && self.queue.rank(name, position.ticket, owner).is_some();
        mutate!(FullDropsWaiters => let is_waiter = false);
        self.is_full && !is_holder && !is_waiter
    }

    /// Whether the node is full and a heal would store a lease that is new to it. If the node has
    /// the fence of the lease, it had the key before.
    pub(super) fn lacks_memory_to_heal(&self, is_known: bool) -> bool {
        mutate!(FullHealsAnything => return false);
        self.is_full && !is_known
    }
}
