//! The two dialects of the lock commands: with a queue and fences, or without.
//!
//! Only this module knows which command implements which operation in which dialect.

use std::sync::Arc;

use crate::{
    acquire::NodeAction,
    command::{ClientId, Command, KeyExtension, Owner},
    name::Name,
    queue::{AcquireRequest, Extend, FencedLease, Sender, Session, Yield},
};

/// The kind of commands that a client uses for its locks.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Dialect {
    /// Waiters queue on the nodes, a node grants a freed lock to the next waiter, and every holder
    /// has a fence.
    Queue,
    /// Redlock as published: `SET NX PX`, and a script that deletes. Waiters retry after random
    /// delays.
    Classic,
}

/// Adopts the lease of another owner. It asks each node once, and never queues.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// The current owner of the lease.
    pub from: Owner,
    /// The new owner.
    pub owner: Owner,
    /// `None` in classic mode.
    pub fenced: Option<FencedLease>,
}

/// Builds the commands of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandBuilder {
    pub(crate) sender: Sender,
    /// Whether nodes require sessions to vote.
    pub(crate) has_sessions: bool,
}

/// The lock and the owner of a command.
#[derive(Clone)]
pub(crate) struct Target<'a> {
    pub(crate) name: &'a Name,
    pub(crate) owner: Owner,
    pub(crate) ttl_ms: u64,
}

impl Dialect {
    /// The dialect of a lease.
    #[must_use]
    pub const fn of(fenced: Option<FencedLease>) -> Self {
        if fenced.is_some() { Self::Queue } else { Self::Classic }
    }

    /// Whether nodes support queues and fences. They require sessions, and notify a waiter when it
    /// is granted the lock.
    #[must_use]
    pub const fn has_queue(self) -> bool {
        matches!(self, Self::Queue)
    }

    /// Releases a lock for good.
    #[must_use]
    pub fn release(self, name: Name, owner: Owner) -> Command {
        match self {
            Self::Queue => Command::Release { name, owner, yields: None },
            Self::Classic => Command::DeleteKey { name, owner },
        }
    }
}

impl CommandBuilder {
    /// Each connection sets its own session.
    pub(crate) const fn of(client: ClientId, has_sessions: bool) -> Self {
        Self { sender: Sender { client, session: Session::UNSET }, has_sessions }
    }

    /// The command for an action of the acquire machine.
    pub(crate) fn acquire(
        self,
        target: Target<'_>,
        dialect: Dialect,
        action: NodeAction,
    ) -> Command {
        let (sender, session_sender) = (self.sender, self.session_sender());
        let Target { name, owner, ttl_ms } = target;
        let name = name.clone();
        match (dialect, action) {
            (_, NodeAction::Release) => dialect.release(name, owner),
            (Dialect::Queue, NodeAction::Acquire { is_waiting, is_known }) => Command::Acquire {
                sender,
                request: AcquireRequest { name, owner, is_waiting, is_known },
            },
            (Dialect::Classic, NodeAction::Acquire { .. }) => {
                Command::SetKey { name, owner, ttl_ms, sender: session_sender }
            }
            (_, NodeAction::Yield(fence) | NodeAction::Reject(fence)) => {
                Command::Release { name, owner, yields: Some(Yield { fence, sender }) }
            }
            (_, NodeAction::Confirm(fence)) => {
                let entry = Extend { name, owner, fence, ttl_ms, may_heal: false };
                Command::Extend { sender, entries: Arc::new([entry]) }
            }
        }
    }

    /// Adopts a lease.
    pub(crate) fn adopt(self, target: Target<'_>, from: &Owner) -> Command {
        let Target { name, owner, ttl_ms } = target;
        let (name, from) = (name.clone(), from.clone());
        Command::Adopt { name, from, owner, ttl_ms, sender: self.session_sender() }
    }

    /// Extends leases. All leases of a client use the same dialect.
    pub(crate) fn extend(self, leases: &[(Target<'_>, Option<FencedLease>)]) -> Command {
        match leases.first().map_or(Dialect::Classic, |(_, fenced)| Dialect::of(*fenced)) {
            Dialect::Queue => {
                let entries = leases.iter().filter_map(|(target, fenced)| {
                    let Target { name, owner, ttl_ms } = target.clone();
                    Some((*fenced)?.extend(name.clone(), owner, ttl_ms))
                });
                Command::Extend { sender: self.sender, entries: entries.collect() }
            }
            Dialect::Classic => {
                let entries = leases.iter().map(|(target, _)| {
                    let Target { name, owner, ttl_ms } = target.clone();
                    KeyExtension { name: name.clone(), owner, ttl_ms }
                });
                Command::ExtendKeys { sender: self.session_sender(), entries: entries.collect() }
            }
        }
    }

    /// The sender, if nodes require sessions.
    fn session_sender(self) -> Option<Sender> {
        self.has_sessions.then_some(self.sender)
    }
}
