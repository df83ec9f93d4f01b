//! Access to parts of a store, for engines that keep the data elsewhere: they load the records that
//! a command touches, let the store execute it, and save the records that have changed.
//!
//! Membership is not included, since such engines have none.

use std::collections::BTreeSet;

use super::{Kept, LastGrant, SessionRecord, Store};
use crate::{
    command::{ClientId, Command, Owner, Value},
    name::Name,
    queue::Yield,
};

/// The records of a node about one lock.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LockState {
    /// Its key.
    pub key: Option<Kept<Value>>,
    /// Its last grant.
    pub fence: Option<Kept<LastGrant>>,
    /// Its waiters, by ticket.
    pub queue: Option<Kept<BTreeSet<(u64, Owner)>>>,
}

/// The records of a node about one client.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClientState {
    /// Its session.
    pub session: Option<Kept<SessionRecord>>,
    /// Its description for people.
    pub who: Option<Kept<Box<str>>>,
}

impl Store {
    /// The records of a lock, even if they have expired since the last command.
    #[must_use]
    pub fn lock_state(&self, name: &Name) -> LockState {
        LockState {
            key: self.keys.kept(name).cloned(),
            fence: self.queue.fences.kept(name).cloned(),
            queue: self.queue.waiting.kept(name).cloned(),
        }
    }

    /// Replaces the records of a lock.
    pub fn set_lock_state(&mut self, name: &Name, state: LockState) {
        let LockState { key, fence, queue } = state;
        self.keys.set(name, key);
        self.queue.fences.set(name, fence);
        self.queue.waiting.set(name, queue);
    }

    /// The records of a client, even if they have expired since the last command.
    #[must_use]
    pub fn client_state(&self, client: &ClientId) -> ClientState {
        ClientState {
            session: self.queue.sessions.kept(client).cloned(),
            who: self.queue.descriptions.kept(client).cloned(),
        }
    }

    /// Replaces the records of a client.
    pub fn set_client_state(&mut self, client: &ClientId, state: ClientState) {
        let ClientState { session, who } = state;
        self.queue.sessions.set(client, session);
        self.queue.descriptions.set(client, who);
    }
}

impl Command {
    /// The locks that the command touches. A `List` also reads the names of other locks.
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
            Self::Acquire { request, .. } => vec![&request.name],
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

    /// The client that the command touches. A release also touches the clients of waiters. The
    /// entries of a batch must be examined one by one.
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

    /// One client holds a lock, another waits for it, and both have a description, so every record
    /// exists.
    #[test]
    fn store_rebuilt_from_its_records_is_equal() {
        let name = Name::parse("a", "").unwrap();
        let now = NodeTime::from_micros(1_800_000_000_000_000);
        let clients = [1, 2].map(|byte| ClientId::from_random([byte; 20]));
        let mut whole = Store::new();
        let mut commands = Vec::new();
        for (number, client) in (1..).zip(clients) {
            let sender = Sender { client, session: Session::from_random(number) };
            let ticket = now.as_micros() + u64::try_from(number).unwrap();
            let owner = Position { ticket, ttl_ms: 500, client }.owner(1);
            let request =
                AcquireRequest { name: name.clone(), owner, is_waiting: true, is_known: false };
            commands.extend([
                Command::Introduce { client, who: "me".into(), lifetime_ms: 900 },
                Command::Attach { sender, terms: SessionTerms::without_membership(700) },
                Command::Acquire { sender, request },
            ]);
        }
        for command in &commands {
            assert!(command.client().is_some_and(|client| clients.contains(&client)));
            assert!(command.names().iter().all(|known| **known == name));
            whole.apply(now, command);
        }

        let mut copy = Store::new();
        let lock = whole.lock_state(&name);
        assert!(lock.key.is_some() && lock.fence.is_some() && lock.queue.is_some());
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
