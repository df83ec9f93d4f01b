//! One batch of commands: loads what they touch, lets the core's store run them, and keeps what
//! has changed.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use quorate_core::{
    command::{ClientId, Command, Owner, Reply, Value},
    moment::NodeTime,
    name::Name,
    queue::{Group, Position, Push, Session, group},
    store::{ClientState, LockState, Store},
};

use super::{db::Tx, fault::Fault, notifier::Notifier};

/// What a batch works on.
#[derive(Debug)]
pub(super) struct Transaction<'a> {
    tx: &'a Tx<'a>,
    notifier: &'a Notifier,
    store: Store,
    /// As they were loaded.
    locks: BTreeMap<Name, LockState>,
    clients: BTreeMap<ClientId, ClientState>,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(tx: &'a Tx<'a>, notifier: &'a Notifier) -> Self {
        let (locks, clients) = (BTreeMap::new(), BTreeMap::new());
        Self { tx, notifier, store: Store::new(), locks, clients }
    }

    /// Whether a command can be run here: what a node knows of itself is not kept.
    pub(super) const fn knows(command: &Command) -> bool {
        matches!(
            command,
            Command::SetKey { .. }
                | Command::Adopt { .. }
                | Command::DeleteKey { .. }
                | Command::ExtendKeys { .. }
                | Command::Check { .. }
                | Command::ReadKey { .. }
                | Command::Inspect { .. }
                | Command::List { .. }
                | Command::Attach { .. }
                | Command::Ping { .. }
                | Command::Acquire { .. }
                | Command::Introduce { .. }
                | Command::Who { .. }
                | Command::Release { .. }
                | Command::Extend { .. }
        )
    }

    /// Runs one command, or one entry of a batch.
    pub(super) fn run(&mut self, now: NodeTime, command: &Command) -> Result<Reply, Fault> {
        for name in command.names() {
            self.load_lock(name)?;
        }
        if let Some(client) = command.client() {
            self.load_client(client)?;
        }
        match command {
            Command::Release { name, owner, yields } => {
                self.find_next(now, name, owner, yields.is_some())?;
            }
            // Those who share come in with a writer that becomes a reader.
            Command::Adopt { name, from, owner, .. } if group(from) != group(owner) => {
                self.find_next(now, name, from, false)?;
            }
            Command::List { prefix, cursor, count } => {
                let (from, is_excluded) = match cursor {
                    Some(cursor) => (cursor.as_str(), true),
                    None => (&**prefix, false),
                };
                for name in self.tx.names_from(from, is_excluded, *count, now)? {
                    self.load_lock(&name)?;
                }
            }
            Command::Acquire { request: ask, .. } => {
                self.find_others(now, &ask.name, &ask.owner)?;
            }
            _ => {}
        }
        Ok(self.store.apply(now, command))
    }

    /// The session of a client, if it has one.
    pub(super) fn session(
        &mut self,
        now: NodeTime,
        client: ClientId,
    ) -> Result<Option<Session>, Fault> {
        self.load_client(client)?;
        let kept = self.store.client_state(&client).session;
        let alive = kept.filter(|kept| is_there(kept.ends_at_ms, now));
        Ok(alive.map(|kept| kept.value.session))
    }

    /// Stores what has changed, and returns whom to tell what once that is so for good.
    pub(super) fn save(mut self) -> Result<Vec<Push>, Fault> {
        for (name, before) in &self.locks {
            let after = self.store.lock_state(name);
            if after != *before {
                self.tx.save_lock(name, before, &after)?;
            }
        }
        for (client, before) in &self.clients {
            let after = self.store.client_state(client);
            if after != *before {
                self.tx.save_client(client, &after)?;
            }
        }
        Ok(self.store.take_pushes())
    }

    fn load_lock(&mut self, name: &Name) -> Result<(), Fault> {
        if !self.locks.contains_key(name) {
            let state = self.tx.lock(name)?;
            self.store.set_lock_state(name, state.clone());
            self.locks.insert(name.clone(), state);
        }
        Ok(())
    }

    fn load_client(&mut self, client: ClientId) -> Result<(), Fault> {
        if let Entry::Vacant(entry) = self.clients.entry(client) {
            let state = self.tx.client(&client)?;
            self.store.set_client_state(&client, state.clone());
            entry.insert(state);
        }
        Ok(())
    }

    /// Finds those whom the store looks for when the owner asks for the lock: who has to give it
    /// back, and, where it is shared or to be, who stands before the owner.
    fn find_others(&mut self, now: NodeTime, name: &Name, owner: &Owner) -> Result<(), Fault> {
        self.find_later(name, owner);
        let key = self.store.lock_state(name).key;
        if group(owner).is_some() || key.is_some_and(|key| matches!(key.value, Value::Shared(_))) {
            self.find_next(now, name, owner, false)?;
        }
        Ok(())
    }

    /// Finds those in line who are there, up to the first who wants the lock alone: the store hands
    /// it to nobody who is not, and passes nobody who is. An owner who yields stands in line again;
    /// one who goes may have stood in it.
    fn find_next(
        &mut self,
        now: NodeTime,
        name: &Name,
        gone: &Owner,
        is_yield: bool,
    ) -> Result<(), Fault> {
        let line = self.store.lock_state(name).queue;
        let line = line.filter(|line| is_there(line.ends_at_ms, now));
        let mut line = line.map(|line| line.value).unwrap_or_default();
        if let Some(place) = Position::of(gone.as_bytes()).filter(|_| is_yield) {
            line.insert((place.ticket, gone.clone()));
        }
        for (_, owner) in &line {
            let Some(Position { client, .. }) = Position::of(owner.as_bytes()) else { continue };
            let has_session = self.session(now, client)?.is_some();
            let is_there = has_session && self.is_listening(client);
            let may_be_passed = group(owner) == Some(Group::Readers);
            if is_there && !may_be_passed && (is_yield || owner != gone) {
                return self.find_entries(now, &line, owner);
            }
        }
        Ok(())
    }

    /// Finds those in line who get the lock together with this entry of theirs.
    fn find_entries(
        &mut self,
        now: NodeTime,
        line: &BTreeSet<(u64, Owner)>,
        entry: &Owner,
    ) -> Result<(), Fault> {
        let others = line.iter().filter(|(_, owner)| group(owner) == group(entry));
        for (_, owner) in others.filter(|_| group(entry).is_some()) {
            let Some(Position { client, .. }) = Position::of(owner.as_bytes()) else { continue };
            if self.session(now, client)?.is_some() {
                self.is_listening(client);
            }
        }
        Ok(())
    }

    /// Sees whether those who hold the lock are there, if they came later than the owner: they are
    /// asked to give it back.
    fn find_later(&mut self, name: &Name, owner: &Owner) {
        let holders = match self.store.lock_state(name).key.map(|key| key.value) {
            Some(Value::Text(text)) => vec![Owner::from_bytes(&text)],
            Some(Value::Shared(shares)) => shares.iter().map(|(owner, _)| owner.clone()).collect(),
            Some(Value::OtherType(_)) | None => Vec::new(),
        };
        let later = holders.iter().filter(|holder| owner < holder);
        let places = later.filter_map(|holder| Position::of(holder.as_bytes()));
        places.for_each(|place| _ = self.is_listening(place.client));
    }

    fn is_listening(&mut self, client: ClientId) -> bool {
        let is_listening = self.notifier.is_listening(client);
        if is_listening {
            self.store.subscribe(client);
        }
        is_listening
    }
}

/// What has this end is there at `now`: the store lets go only when it runs a command.
fn is_there(ends_at_ms: Option<u64>, now: NodeTime) -> bool {
    ends_at_ms.is_none_or(|end| end >= now.as_millis())
}
