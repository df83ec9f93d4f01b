//! A simulated node: the core's store, with a clock, and with faults.

mod memory;

use quorate_core::{
    command::{ClientId, Command, ExtendedKey, KeyExtension, Owner, Reply},
    moment::NodeTime,
    name::Name,
    queue::{Extend, Extended},
    quorum::Vote,
    store::Store,
};

pub(crate) use self::memory::{Memory, Noted};
use crate::{
    clock::{Nanos, NodeClock},
    dice::Dice,
    fault::Keeps,
    settings::CLOCK_LAG_MAX,
};

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) store: Store,
    pub(crate) clock: NodeClock,
    /// How many crashes keep it down.
    pub(crate) crashes: u32,
    /// How many faults make it answer with errors.
    pub(crate) failing: u32,
    /// How many faults make it full.
    pub(crate) fulls: u32,
    /// An extension has created a key.
    pub(crate) has_revived: bool,
    /// It has stored a new owner although it was full.
    pub(crate) has_grown: bool,
    /// A read-only command has changed it.
    pub(crate) has_changed: bool,
    pub(crate) memory: Memory,
    /// Its clock was set, and differs from the clocks of the others since.
    pub(crate) is_stepped: bool,
    /// The runs of its servers.
    runs: u64,
    dice: Dice,
    /// The listeners: a client, and the link and generation on which it listens.
    listeners: Vec<(ClientId, u16, u32)>,
    /// Its saved states for planned faults, by the fault's index.
    remembered: Vec<(u16, Store, Memory)>,
}

impl Node {
    pub(crate) fn new(number: usize, clock: NodeClock, dice: Dice) -> Self {
        let mut node = Self {
            store: Store::new(),
            clock,
            crashes: 0,
            failing: 0,
            fulls: 0,
            has_revived: false,
            has_grown: false,
            has_changed: false,
            memory: Memory::default(),
            is_stepped: false,
            runs: number as u64 * RUNS_MAX,
            dice,
            listeners: Vec::new(),
            remembered: Vec::new(),
        };
        node.run_anew();
        node
    }

    /// Another server process starts with the same data.
    pub(crate) const fn run_anew(&mut self) {
        self.runs += 1;
        self.store.membership.set_run(self.runs);
    }

    pub(crate) const fn is_up(&self) -> bool {
        self.crashes == 0
    }

    /// Runs one command. Its clock reading may be a little old.
    pub(crate) fn run(&mut self, now: Nanos, command: &Command) -> Reply {
        let read_at = now.saturating_sub(self.dice.below(CLOCK_LAG_MAX));
        let time = self.clock.at(read_at);
        let kept = self.kept(time, command);
        let most = (self.fulls > 0).then(|| self.most_owners(time, command));
        let before = command.is_read_only().then(|| {
            // Removes what has expired by now, as every command does.
            self.store.apply(time, &Command::Who { client: ClientId::from_random([0; 20]) });
            self.store.clone()
        });
        let reply = self.store.apply(time, command);
        self.has_changed |= before.is_some_and(|before| before != self.store);
        self.has_revived |= self.kept(time, command) > kept;
        self.has_grown |= most.is_some_and(|most| self.store.owners(time) > most);
        reply
    }

    /// How many owners it may have after a command if it is full: its current owners, and leases
    /// whose key it lost and whose fence it knows.
    fn most_owners(&mut self, time: NodeTime, command: &Command) -> usize {
        let owners = self.store.owners(time);
        let Command::Extend { entries, .. } = command else { return owners };
        let is_known = |(at, entry): &(usize, &Extend)| {
            let known = self.store.details(time, &entry.name).fence;
            // An entry may raise the fence that a later one of the same batch needs.
            let before = entries[..*at].iter().filter(|before| before.name == entry.name);
            let raised = before.map(|before| before.fence).max();
            known.is_some_and(|(known, _)| raised.map_or(known, |it| known.max(it)) >= entry.fence)
        };
        owners + entries.iter().enumerate().filter(is_known).count()
    }

    /// One more fault makes it full.
    pub(crate) const fn fill(&mut self) {
        self.fulls += 1;
        self.store.set_full(true);
    }

    /// One of these faults ends.
    pub(crate) const fn end_full(&mut self) {
        self.fulls -= 1;
        self.store.set_full(self.fulls > 0);
    }

    /// How many keys of an extension exist.
    fn kept(&mut self, time: NodeTime, command: &Command) -> usize {
        let Command::ExtendKeys { entries, .. } = command else { return 0 };
        let checks = entries.iter().map(|KeyExtension { name, owner, .. }| Command::Check {
            name: name.clone(),
            owner: owner.clone(),
        });
        checks.filter(|check| check.vote(&self.store.apply(time, check)) == Vote::Grant).count()
    }

    /// Whether it answers a command with an error. In a batch, some entries fail and others do not.
    pub(crate) fn fails(&mut self, is_entry: bool) -> bool {
        self.failing > 0 && !(is_entry && self.dice.below(2) == 0)
    }

    /// Its answer instead of executing the command: an error, one for each key of an extension.
    pub(crate) fn fail(command: &Command) -> Option<Reply> {
        match command {
            Command::ExtendKeys { entries, .. } => {
                Some(Reply::ExtendedKeys(entries.iter().map(|_| ExtendedKey::Failed).collect()))
            }
            Command::Extend { entries, .. } => {
                Some(Reply::ExtendedLeases(entries.iter().map(|_| Extended::Failed).collect()))
            }
            _ => None,
        }
    }

    /// Whether it holds the owner's key right now.
    pub(crate) fn holds(&mut self, now: Nanos, name: &Name, owner: &Owner) -> bool {
        let check = Command::Check { name: name.clone(), owner: owner.clone() };
        let reply = self.store.apply(self.clock.at(now), &check);
        check.vote(&reply) == Vote::Grant
    }

    /// A connection listens for the client's pushes.
    pub(crate) fn listen(&mut self, client: ClientId, link: u16, generation: u32) {
        self.listeners.push((client, link, generation));
        self.store.subscribe(client);
    }

    /// A connection is closed; the client may have another one.
    pub(crate) fn hang_up(&mut self, link: u16, generation: u32) {
        let is_gone =
            |listener: &(ClientId, u16, u32)| (listener.1, listener.2) == (link, generation);
        let Some(index) = self.listeners.iter().position(is_gone) else { return };
        let (client, ..) = self.listeners.swap_remove(index);
        if !self.listeners.iter().any(|(other, ..)| *other == client) {
            self.store.unsubscribe(client);
        }
    }

    /// The process crashed: all connections are closed.
    pub(crate) fn hang_up_all(&mut self) {
        self.listeners.clear();
        self.store.unsubscribe_all();
    }

    /// The client of a link that listens, if it still does.
    pub(crate) fn links_of(&self, client: ClientId) -> Vec<(u16, u32)> {
        let of = |listener: &&(ClientId, u16, u32)| listener.0 == client;
        self.listeners.iter().filter(of).map(|(_, link, generation)| (*link, *generation)).collect()
    }

    pub(crate) fn remember(&mut self, fault: u16) {
        self.remembered.retain(|(of, ..)| *of != fault);
        self.remembered.push((fault, self.store.clone(), self.memory));
    }

    /// Restores the data that it kept.
    pub(crate) fn recall(&mut self, now: Nanos, fault: u16, keeps: Keeps) {
        match keeps {
            Keeps::Everything => {}
            Keeps::Nothing => self.forget_all(now),
            Keeps::Ago(_) => {
                self.set_back(now, fault);
                // Another process serves it, which all clients notice.
                self.memory.forget(now);
            }
        }
    }

    pub(crate) fn forget_all(&mut self, now: Nanos) {
        self.store.clear();
        self.memory.forget(now);
    }

    /// Restores its saved state. Without a saved state it loses everything.
    pub(crate) fn set_back(&mut self, now: Nanos, fault: u16) {
        match self.remembered.iter().find(|(of, ..)| *of == fault) {
            Some((_, store, memory)) => {
                self.store = store.clone();
                self.store.set_full(self.fulls > 0);
                self.memory.set_back(now, memory.seen_ms);
            }
            None => self.forget_all(now),
        }
    }

    /// Becomes a replica of another node, and a master again.
    pub(crate) fn copy(&mut self, now: Nanos, other: &Store) {
        self.store.copy(other);
        match self.store.membership.seen_ms() {
            // The other one was a copy of this node: this node now has its old state.
            Some(seen_ms) => self.memory.set_back(now, seen_ms),
            None => self.memory.forget(now),
        }
    }
}

/// No node is restarted so often.
const RUNS_MAX: u64 = 1_000_000;
