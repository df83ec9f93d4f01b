//! The two dialects in which locks are spoken about: with a queue and fences, or without.
//!
//! This is the only place that knows which command stands for what in which dialect.

use std::sync::Arc;

use crate::{
    acquire::NodeAction,
    command::{ClientId, Command, KeyExtension, Owner},
    name::Name,
    queue::{AcquireRequest, Extend, FencedLease, Sender, Session, Yield},
};

/// How clients speak with nodes about locks.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Dialect {
    /// Waiters queue on the nodes, which hand the lock on, and every holder has a fence.
    Queue,
    /// Redlock as it was published: `SET NX PX`, and a script that deletes. Waiters try again after
    /// random delays.
    Classic,
}

/// Takes over the lease of another owner. It asks each node once, and never queues.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// Whose lease it is.
    pub from: Owner,
    /// Who takes it over.
    pub owner: Owner,
    /// Absent in classic mode.
    pub fenced: Option<FencedLease>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature {
    pub(crate) sender: Sender,
    /// The nodes know our sessions, without which they do not vote.
    pub(crate) has_sessions: bool,
}

/// What a command is about: one lock.
#[derive(Clone)]
pub(crate) struct Subject<'a> {
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

    /// Whether nodes know queues and fences. They need sessions for that, and tell waiters when
    /// their turn has come.
    #[must_use]
    pub const fn has_queue(self) -> bool {
        matches!(self, Self::Queue)
    }

    /// Gives a lock back for good.
    #[must_use]
    pub fn release(self, name: Name, owner: Owner) -> Command {
        match self {
            Self::Queue => Command::Release { name, owner, yields: None },
            Self::Classic => Command::DeleteKey { name, owner },
        }
    }
}

impl Signature {
    /// Each connection puts in its own session.
    pub(crate) const fn of(client: ClientId, has_sessions: bool) -> Self {
        Self { sender: Sender { client, session: Session::UNSET }, has_sessions }
    }

    /// What an acquire says to a node.
    pub(crate) fn acquire(
        self,
        subject: Subject<'_>,
        dialect: Dialect,
        what: NodeAction,
    ) -> Command {
        let (sender, known) = (self.sender, self.known());
        let Subject { name, owner, ttl_ms } = subject;
        let name = name.clone();
        match (dialect, what) {
            (_, NodeAction::Release) => dialect.release(name, owner),
            (Dialect::Queue, NodeAction::Acquire { is_waiting, is_known }) => Command::Acquire {
                sender,
                ask: AcquireRequest { name, owner, is_waiting, is_known },
            },
            (Dialect::Classic, NodeAction::Acquire { .. }) => {
                Command::SetKey { name, owner, ttl_ms, sender: known }
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

    /// Takes over a lease.
    pub(crate) fn adopt(self, subject: Subject<'_>, from: &Owner) -> Command {
        let Subject { name, owner, ttl_ms } = subject;
        let (name, from) = (name.clone(), from.clone());
        Command::Adopt { name, from, owner, ttl_ms, sender: self.known() }
    }

    /// Asks for more time for leases. All leases of a client are of one dialect.
    pub(crate) fn extend(self, leases: &[(Subject<'_>, Option<FencedLease>)]) -> Command {
        match leases.first().map_or(Dialect::Classic, |(_, fenced)| Dialect::of(*fenced)) {
            Dialect::Queue => {
                let entries = leases.iter().filter_map(|(subject, fenced)| {
                    let Subject { name, owner, ttl_ms } = subject.clone();
                    Some((*fenced)?.extend(name.clone(), owner, ttl_ms))
                });
                Command::Extend { sender: self.sender, entries: entries.collect() }
            }
            Dialect::Classic => {
                let entries = leases.iter().map(|(subject, _)| {
                    let Subject { name, owner, ttl_ms } = subject.clone();
                    KeyExtension { name: name.clone(), owner, ttl_ms }
                });
                Command::ExtendKeys { sender: self.known(), entries: entries.collect() }
            }
        }
    }

    /// Who speaks, where nodes know sessions.
    fn known(self) -> Option<Sender> {
        self.has_sessions.then_some(self.sender)
    }
}
