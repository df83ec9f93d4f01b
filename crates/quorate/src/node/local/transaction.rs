//! A batch of commands: loads the data that they need, executes them in the core's store, and saves
//! what has changed.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use quorate_core::{
    command::{ClientId, Command, Owner, Reply, Value},
    moment::NodeTime,
    name::Name,
    queue::{Group, Position, Push, Session, group},
    store::{ClientState, LockState, Store},
};

use super::{db::Tx, fault::Fault, notifier::Notifier};

/// The state of a batch.
#[derive(Debug)]
pub(super) struct Transaction<'a> {
    tx: &'a Tx<'a>,
    notifier: &'a Notifier,
    store: Store,
    /// The locks as they were loaded.
    locks: BTreeMap<Name, LockState>,
    clients: BTreeMap<ClientId, ClientState>,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(tx: &'a Tx<'a>, notifier: &'a Notifier) -> Self {
        let (locks, clients) = (BTreeMap::new(), BTreeMap::new());
        Self { tx, notifier, store: Store::new(), locks, clients }
    }

    /// Whether a local node supports the command. It has no membership.
    pub(super) const fn supports(command: &Command) -> bool {
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

    /// Executes one command, or one entry of a batch.
    pub(super) fn run(&mut self, now: NodeTime, command: &Command) -> Result<Reply, Fault> {
        for name in command.names() {
            self.load_lock(name)?;
        }
        if let Some(client) = command.client() {
            self.load_client(client)?;
        }
        match command {
            Command::Release { name, owner, yields } => {
                self.load_waiters(now, name, owner, yields.is_some())?;
            }
            // Waiting readers join when a writer becomes a reader.
            Command::Adopt { name, from, owner, .. } if group(from) != group(owner) => {
                self.load_waiters(now, name, from, false)?;
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
                self.load_rivals(now, &ask.name, &ask.owner)?;
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
        let alive = kept.filter(|kept| is_alive(kept.ends_at_ms, now));
        Ok(alive.map(|kept| kept.value.session))
    }

    /// Saves what has changed. Returns the pushes to send after the commit.
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

    /// Loads the clients that the store needs for an acquire: holders that get an inquiry, and for
    /// a shared lock the waiters that are queued before the owner.
    fn load_rivals(&mut self, now: NodeTime, name: &Name, owner: &Owner) -> Result<(), Fault> {
        self.load_later_holders(name, owner);
        let key = self.store.lock_state(name).key;
        if group(owner).is_some() || key.is_some_and(|key| matches!(key.value, Value::Shared(_))) {
            self.load_waiters(now, name, owner, false)?;
        }
        Ok(())
    }

    /// Loads the clients of waiters, up to the first exclusive waiter whose client is running. The
    /// store grants the lock only to waiters whose clients are running, and skips no such waiter.
    /// An owner that yields is queued again. An owner that leaves may have been queued.
    fn load_waiters(
        &mut self,
        now: NodeTime,
        name: &Name,
        gone: &Owner,
        is_yield: bool,
    ) -> Result<(), Fault> {
        let queue = self.store.lock_state(name).queue;
        let queue = queue.filter(|queue| is_alive(queue.ends_at_ms, now));
        let mut queue = queue.map(|queue| queue.value).unwrap_or_default();
        if let Some(position) = Position::of(gone.as_bytes()).filter(|_| is_yield) {
            queue.insert((position.ticket, gone.clone()));
        }
        for (_, owner) in &queue {
            let Some(Position { client, .. }) = Position::of(owner.as_bytes()) else { continue };
            let has_session = self.session(now, client)?.is_some();
            let is_alive = has_session && self.is_listening(client);
            let may_be_passed = group(owner) == Some(Group::Readers);
            if is_alive && !may_be_passed && (is_yield || owner != gone) {
                return self.load_entries(now, &queue, owner);
            }
        }
        Ok(())
    }

    /// Loads the clients of waiting entries that get the lock together with this entry.
    fn load_entries(
        &mut self,
        now: NodeTime,
        queue: &BTreeSet<(u64, Owner)>,
        entry: &Owner,
    ) -> Result<(), Fault> {
        let others = queue.iter().filter(|(_, owner)| group(owner) == group(entry));
        for (_, owner) in others.filter(|_| group(entry).is_some()) {
            let Some(Position { client, .. }) = Position::of(owner.as_bytes()) else { continue };
            if self.session(now, client)?.is_some() {
                self.is_listening(client);
            }
        }
        Ok(())
    }

    /// Checks whether the clients of holders with a later ticket are running. These holders get an
    /// inquiry.
    fn load_later_holders(&mut self, name: &Name, owner: &Owner) {
        let holders = match self.store.lock_state(name).key.map(|key| key.value) {
            Some(Value::Text(text)) => vec![Owner::from_bytes(&text)],
            Some(Value::Shared(shares)) => shares.iter().map(|(owner, _)| owner.clone()).collect(),
            Some(Value::OtherType(_)) | None => Vec::new(),
        };
        let later = holders.iter().filter(|holder| owner < holder);
        let positions = later.filter_map(|holder| Position::of(holder.as_bytes()));
        positions.for_each(|position| _ = self.is_listening(position.client));
    }

    fn is_listening(&mut self, client: ClientId) -> bool {
        let is_listening = self.notifier.is_listening(client);
        if is_listening {
            self.store.subscribe(client);
        }
        is_listening
    }
}

/// Whether something with this end exists at `now`. The store removes expired data only when it
/// executes a command.
fn is_alive(ends_at_ms: Option<u64>, now: NodeTime) -> bool {
    ends_at_ms.is_none_or(|end| end >= now.as_millis())
}
