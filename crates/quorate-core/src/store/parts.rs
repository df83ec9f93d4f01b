//! A store in parts, for engines that keep it elsewhere: they load what a command touches, let the
//! store run it, and keep what has changed.
//!
//! Membership is no part: such engines have none.

use std::collections::BTreeSet;

use super::{Kept, LastGrant, SessionRecord, Store};
use crate::{
    command::{ClientId, Command, Owner, Value},
    name::Name,
    queue::Yield,
};

/// All that a node knows about one lock.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LockState {
    /// Its key.
    pub key: Option<Kept<Value>>,
    /// Its last grant.
    pub fence: Option<Kept<LastGrant>>,
    /// Who waits for it, by ticket.
    pub line: Option<Kept<BTreeSet<(u64, Owner)>>>,
}

/// All that a node knows about one client.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClientState {
    /// Its session.
    pub session: Option<Kept<SessionRecord>>,
    /// Who it is, in words for people.
    pub who: Option<Kept<Box<str>>>,
}

impl Store {
    /// What is known about a lock, also what has ended since the last command.
    #[must_use]
    pub fn lock_state(&self, name: &Name) -> LockState {
        LockState {
            key: self.keys.kept(name).cloned(),
            fence: self.queue.fences.kept(name).cloned(),
            line: self.queue.waiting.kept(name).cloned(),
        }
    }

    /// Puts this in the place of what is known about a lock.
    pub fn set_lock_state(&mut self, name: &Name, state: LockState) {
        let LockState { key, fence, line } = state;
        self.keys.set(name, key);
        self.queue.fences.set(name, fence);
        self.queue.waiting.set(name, line);
    }

    /// What is known about a client, also what has ended since the last command.
    #[must_use]
    pub fn client_state(&self, client: &ClientId) -> ClientState {
        ClientState {
            session: self.queue.sessions.kept(client).cloned(),
            who: self.queue.whos.kept(client).cloned(),
        }
    }

    /// Puts this in the place of what is known about a client.
    pub fn set_client_state(&mut self, client: &ClientId, state: ClientState) {
        let ClientState { session, who } = state;
        self.queue.sessions.set(client, session);
        self.queue.whos.set(client, who);
    }
}

impl Command {
    /// The locks that it touches. A list also touches those whose names are next.
    #[must_use]
    pub fn names(&self) -> Vec<&Name> {
        match self {
            Self::SetKey { name, .. }
            | Self::Adopt { name, .. }
            | Self::DeleteKey { name, .. }
            | Self::Check { name, .. }
            | Self::ReadKey { name }
            | Self::Inspect { name, .. }
            | Self::Release { name, .. } => vec![name],
            Self::Acquire { request: ask, .. } => vec![&ask.name],
            Self::ExtendKeys { entries, .. } => entries.iter().map(|entry| &entry.name).collect(),
            Self::Extend { entries, .. } => entries.iter().map(|entry| &entry.name).collect(),
            Self::Batch(entries) => entries.iter().flat_map(Self::names).collect(),
            Self::Membership(_)
            | Self::Attach { .. }
            | Self::Ping { .. }
            | Self::Introduce { .. }
            | Self::List { .. }
            | Self::Who { .. } => Vec::new(),
        }
    }

    /// The client that it touches. A release also touches those who wait for the lock, and each
    /// entry of a batch is looked at by itself.
    #[must_use]
    pub const fn client(&self) -> Option<ClientId> {
        match self {
            Self::Attach { sender, .. }
            | Self::Ping { sender, .. }
            | Self::Acquire { sender, .. }
            | Self::Extend { sender, .. }
            | Self::SetKey { sender: Some(sender), .. }
            | Self::ExtendKeys { sender: Some(sender), .. }
            | Self::Release { yields: Some(Yield { sender, .. }), .. }
            | Self::Adopt { sender: Some(sender), .. } => Some(sender.client),
            Self::Introduce { client, .. } | Self::Who { client } => Some(*client),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        command::SessionTerms,
        moment::NodeTime,
        queue::{AcquireRequest, Position, Sender, Session},
    };

    /// One waits for what another has, and each is somebody: every part is there.
    #[test]
    fn a_store_that_is_taken_apart_and_put_together_is_the_same() {
        let name = Name::parse("a", "").unwrap();
        let now = NodeTime::from_micros(1_800_000_000_000_000);
        let clients = [1, 2].map(|byte| ClientId::from_random([byte; 20]));
        let mut whole = Store::new();
        let mut commands = Vec::new();
        for (number, client) in (1..).zip(clients) {
            let sender = Sender { client, session: Session::from_random(number) };
            let ticket = now.as_micros() + u64::try_from(number).unwrap();
            let owner = Position { ticket, ttl_ms: 500, client }.owner(1);
            let ask =
                AcquireRequest { name: name.clone(), owner, is_waiting: true, is_known: false };
            commands.extend([
                Command::Introduce { client, who: "me".into(), lifetime_ms: 900 },
                Command::Attach { sender, terms: SessionTerms::without_membership(700) },
                Command::Acquire { sender, request: ask },
            ]);
        }
        for command in &commands {
            assert!(command.client().is_some_and(|client| clients.contains(&client)));
            assert!(command.names().iter().all(|known| **known == name));
            whole.apply(now, command);
        }

        let mut copy = Store::new();
        let lock = whole.lock_state(&name);
        assert!(lock.key.is_some() && lock.fence.is_some() && lock.line.is_some());
        copy.set_lock_state(&name, lock);
        for client in &clients {
            let state = whole.client_state(client);
            assert!(state.session.is_some() && state.who.is_some());
            copy.set_client_state(client, state);
        }
        assert_eq!(copy, whole);

        copy.set_lock_state(&name, LockState::default());
        clients.iter().for_each(|it| copy.set_client_state(it, ClientState::default()));
        assert_eq!(copy, Store::new());
    }
}
