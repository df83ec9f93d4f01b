//! Random batches: commands of one kind and of one sender, as clients compose them.

use quorate_core::{
    command::{BATCH_MAX, Command, EXTEND_MAX, KeyObservation, Owner, Reply, Value},
    moment::NodeTime,
    name::Name,
    queue::{AcquireRequest, Position, Sender, group},
    store::Store,
};

use super::Draw;

impl Draw {
    /// The locks of the entries differ, except in heartbeats.
    pub(super) fn together(&mut self, store: &mut Store, now: NodeTime, at: usize) -> Command {
        let sender = self.sender_or_stale(at);
        let entries: Vec<Command> = match self.up_to(21) {
            0 => self.crowd(now, sender),
            1 | 2 => self.first_requests(store, now, sender),
            3..=7 => self.requests(store, now, sender),
            8..=11 => self.releases(store, now),
            12..=14 => {
                let names = self.locks(store, now, Prefer::Any);
                let extend = |name| {
                    let entries = [self.extend(store, now, name)].into();
                    Command::Extend { sender, entries }
                };
                names.into_iter().map(extend).collect()
            }
            15 | 16 => {
                let names = self.locks(store, now, Prefer::Held);
                let extend = |name| {
                    let entries = [self.key_extension(store, now, name)].into();
                    Command::ExtendKeys { entries, sender: Some(sender) }
                };
                names.into_iter().map(extend).collect()
            }
            17 | 18 => self.keys(store, now, sender),
            _ => self.deletions(store, now),
        };
        Command::Batch(entries.into())
    }

    /// The locks of all commands.
    pub(crate) fn all_names(&self) -> Vec<Name> {
        [self.names.clone(), self.others.clone()].concat()
    }

    /// Heartbeats of any locks.
    pub(super) fn heartbeats(&mut self, store: &mut Store, now: NodeTime, at: usize) -> Command {
        let requests: Vec<AcquireRequest> =
            (0..=self.up_to(3)).map(|_| self.known(store, now)).collect();
        let sender = self.sender_or_stale(at);
        let entry = |request| Command::Acquire { sender, request };
        Command::Batch(requests.into_iter().map(entry).collect())
    }

    /// More heartbeats for one lock than other batches have entries, mostly of readers.
    fn crowd(&mut self, now: NodeTime, sender: Sender) -> Vec<Command> {
        let (name, ttl_ms) = (self.name(), self.ttl_ms());
        let count = BATCH_MAX + 1 + self.index(EXTEND_MAX - BATCH_MAX);
        let heartbeat = |_| {
            let place = self.position(now, ttl_ms, sender);
            self.next += 1;
            let owner = match self.up_to(9) {
                0 => place.owner(self.next),
                _ => place.shared_owner(self.next),
            };
            acquire(sender, name.clone(), owner, (true, true))
        };
        (0..count).map(heartbeat).collect()
    }

    /// New exclusive owners of locks that are mostly free, all with the same ttl. One may wait
    /// already.
    fn first_requests(&mut self, store: &mut Store, now: NodeTime, sender: Sender) -> Vec<Command> {
        let (ttl_ms, is_waiting, is_known) = (self.ttl_ms(), self.is_heads(), self.up_to(3) == 0);
        let names = self.locks(store, now, Prefer::Free);
        let request = |(at, name)| {
            self.next += 1;
            let owner = self.position(now, ttl_ms, sender).owner(self.next);
            acquire(sender, name, owner, (is_waiting, is_known && at == 0))
        };
        names.into_iter().enumerate().map(request).collect()
    }

    fn requests(&mut self, store: &mut Store, now: NodeTime, sender: Sender) -> Vec<Command> {
        let names = self.locks(store, now, Prefer::Any);
        let request = |name| {
            let owner = match self.up_to(4) {
                0 => self.new_owner(now),
                1 => self.holder(store, now, &name),
                _ => self.asker(store, now, &name),
            };
            // The holder may be another library's.
            let is_ours = Position::of(owner.as_bytes()).is_some();
            let owner = if is_ours { owner } else { self.new_owner(now) };
            let flags = (self.up_to(3) > 0, self.is_heads());
            acquire(sender, name, owner, flags)
        };
        names.into_iter().map(request).collect()
    }

    fn releases(&mut self, store: &mut Store, now: NodeTime) -> Vec<Command> {
        let prefer = self.held_or_any();
        let names = self.locks(store, now, prefer);
        let release = |name| {
            let waiting = store.details(now, &name).waiting;
            let owner = match waiting.is_empty() || self.up_to(4) > 0 {
                true => self.holder(store, now, &name),
                false => waiting[self.index(waiting.len())].clone(),
            };
            Command::Release { name, owner, yields: None }
        };
        names.into_iter().map(release).collect()
    }

    /// Half of them are all by the owners that hold the locks, as far as there are some.
    fn deletions(&mut self, store: &mut Store, now: NodeTime) -> Vec<Command> {
        let are_held = self.is_heads();
        let names = self.locks(store, now, if are_held { Prefer::Held } else { Prefer::Any });
        let mut held_by =
            |name: &Name| match store.apply(now, &Command::ReadKey { name: name.clone() }) {
                Reply::Key(Some(KeyObservation { value: Value::Text(text), .. })) => {
                    Some(Owner::from_bytes(&text)).filter(|owner| group(owner).is_none())
                }
                _ => None,
            };
        let holders: Vec<_> = names.iter().map(&mut held_by).collect();
        let count = holders.iter().flatten().count();
        let is_all = are_held && count > 1;
        let mut entries = Vec::new();
        for (name, holder) in names.into_iter().zip(holders) {
            match (is_all, holder) {
                (true, None) => {}
                (true, Some(owner)) => entries.push(Command::DeleteKey { name, owner }),
                (false, _) => {
                    let owner = self.holder(store, now, &name);
                    entries.push(Command::DeleteKey { name, owner });
                }
            }
        }
        entries
    }

    fn keys(&mut self, store: &mut Store, now: NodeTime, sender: Sender) -> Vec<Command> {
        let prefer = if self.is_heads() { Prefer::Free } else { Prefer::Any };
        let (common, is_common) = (self.ttl_ms(), self.is_heads());
        let names = self.locks(store, now, prefer);
        let set = |name| {
            self.next += 1;
            let owner = Owner::new(&sender.client, self.next, "me");
            let ttl_ms = if is_common { common } else { self.ttl_ms() };
            Command::SetKey { name, owner, ttl_ms, sender: Some(sender) }
        };
        names.into_iter().map(set).collect()
    }

    /// The locks of a batch, in any order: mostly few of those that single commands use too.
    fn locks(&mut self, store: &mut Store, now: NodeTime, prefer: Prefer) -> Vec<Name> {
        let count = match self.up_to(9) {
            0 => BATCH_MAX,
            1 => 2 + self.index(BATCH_MAX - 1),
            _ => 2 + self.index(4),
        };
        let held = store.names(now);
        let mut names = self.all_names();
        self.shuffle(&mut names);
        let is_preferred = |name: &Name| match prefer {
            Prefer::Any => true,
            Prefer::Held => held.contains(name),
            Prefer::Free => !held.contains(name),
        };
        let usual = &self.names;
        names.sort_by_key(|name| (!is_preferred(name), !usual.contains(name)));
        names.truncate(count);
        self.shuffle(&mut names);
        names
    }

    fn shuffle(&mut self, names: &mut [Name]) {
        for at in 1..names.len() {
            names.swap(at, self.index(at + 1));
        }
    }

    fn held_or_any(&mut self) -> Prefer {
        if self.is_heads() { Prefer::Held } else { Prefer::Any }
    }

    fn position(&mut self, now: NodeTime, ttl_ms: u64, sender: Sender) -> Position {
        let ticket = now.as_micros() - self.up_to(9_999);
        Position { ticket, ttl_ms, client: sender.client }
    }
}

/// Which locks come first.
#[derive(Clone, Copy)]
enum Prefer {
    Any,
    Held,
    Free,
}

fn acquire(
    sender: Sender,
    name: Name,
    owner: Owner,
    (is_waiting, is_known): (bool, bool),
) -> Command {
    Command::Acquire { sender, request: AcquireRequest { name, owner, is_waiting, is_known } }
}
