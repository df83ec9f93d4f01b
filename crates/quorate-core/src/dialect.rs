//! The two dialects in which locks are spoken about: with a queue and fences, or without.
//!
//! This is the only place that knows which command stands for what in which dialect.

use std::sync::Arc;

use crate::{
    client::Config,
    command::{Command, Owner, Prolongation},
    contend::Saying,
    line::{Ask, Extend, FencedLease, Session, Speaker, Yield},
    name::Name,
    terms::Terms,
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

/// What a command is about: one lock, and who speaks.
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a Name,
    pub(crate) owner: Owner,
    pub(crate) terms: &'a Terms,
    pub(crate) speaker: Speaker,
    /// The nodes know our sessions, without which they do not vote.
    pub(crate) has_sessions: bool,
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
            Self::Classic => Command::Free { name, owner },
        }
    }
}

impl<'a> Subject<'a> {
    pub(crate) const fn new(
        config: &Config,
        name: &'a Name,
        owner: Owner,
        terms: &'a Terms,
    ) -> Self {
        let speaker = Speaker { client: config.client, session: Session::UNSET };
        Self { name, owner, terms, speaker, has_sessions: config.has_sessions }
    }

    /// What an acquire says to a node.
    pub(crate) fn acquire(self, dialect: Dialect, what: Saying) -> Command {
        let known = self.known();
        let Self { name, owner, terms, speaker, .. } = self;
        let (name, ttl_ms) = (name.clone(), terms.ttl_ms());
        match (dialect, what) {
            (_, Saying::Leave) => dialect.release(name, owner),
            (Dialect::Queue, Saying::Ask { is_waiting, is_known }) => {
                Command::Acquire { speaker, ask: Ask { name, owner, is_waiting, is_known } }
            }
            (Dialect::Classic, Saying::Ask { .. }) => {
                Command::Take { name, owner, ttl_ms, speaker: known }
            }
            (_, Saying::Yield(fence) | Saying::Doubt(fence)) => {
                Command::Release { name, owner, yields: Some(Yield { fence, speaker }) }
            }
            (_, Saying::Confirm(fence)) => {
                let entry = Extend { name, owner, fence, ttl_ms, may_heal: false };
                Command::Extend { speaker, entries: Arc::new([entry]) }
            }
        }
    }

    /// Takes over a lease.
    pub(crate) fn adopt(self, from: &Owner) -> Command {
        let speaker = self.known();
        let Self { name, owner, terms, .. } = self;
        Command::Adopt {
            name: name.clone(),
            from: from.clone(),
            owner,
            ttl_ms: terms.ttl_ms(),
            speaker,
        }
    }

    /// Asks for more time for a lease.
    pub(crate) fn extend(self, fenced: Option<FencedLease>) -> Command {
        let known = self.known();
        let Self { name, owner, terms, speaker, .. } = self;
        let (name, ttl_ms) = (name.clone(), terms.ttl_ms());
        match fenced {
            Some(fenced) => {
                Command::Extend { speaker, entries: [fenced.extend(name, owner, ttl_ms)].into() }
            }
            None => {
                let entries = [Prolongation { name, owner, ttl_ms }].into();
                Command::Prolong { entries, speaker: known }
            }
        }
    }

    /// Who speaks, where nodes know sessions.
    fn known(&self) -> Option<Speaker> {
        self.has_sessions.then_some(self.speaker)
    }
}
