//! Random commands, with few names and few owners, so that they collide.

use quorate_core::{
    backoff::Jitter,
    command::{ClientId, Command, KeyExtension, Owner, Reply, Value},
    moment::NodeTime,
    name::Name,
    store::Store,
};

/// One thing that is done to both sides.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// One of our own commands.
    Ask(Command),
    /// Another program stores something, whatever was there.
    Plant { name: Name, thing: Thing, ttl_ms: Option<u64> },
    /// Every key is deleted.
    Clear,
    /// The server has no memory left from now on, or has some again.
    Fill(bool),
    /// The connection on which a client listens is cut; this is the server's number for it.
    HangUp { client: ClientId, connection: u64 },
}

/// What another program may store under the name of a lock.
#[derive(Clone, Debug)]
pub(super) enum Thing {
    Text(Vec<u8>),
    Hash,
    List,
    Set,
}

impl Step {
    /// Does it to the store. Only our own commands have a reply.
    pub(super) fn apply(&self, store: &mut Store, now: NodeTime) -> Option<Reply> {
        match self {
            Self::Ask(command) => return Some(store.apply(now, command)),
            Self::Plant { name, thing, ttl_ms } => {
                let value = match thing {
                    Thing::Text(text) => Value::Text(text.as_slice().into()),
                    Thing::Hash => Value::OtherType("hash".into()),
                    Thing::List => Value::OtherType("list".into()),
                    Thing::Set => Value::OtherType("set".into()),
                };
                store.plant(now, name, value, *ttl_ms);
            }
            Self::Clear => store.clear(),
            Self::Fill(is_full) => store.set_full(*is_full),
            Self::HangUp { client, .. } => store.unsubscribe(*client),
        }
        None
    }

    /// The key of the command.
    pub(super) fn name(&self) -> Option<&Name> {
        match self {
            Self::Ask(Command::ExtendKeys { entries, .. }) => {
                entries.first().map(|entry| &entry.name)
            }
            Self::Ask(
                Command::SetKey { name, .. }
                | Command::Adopt { name, .. }
                | Command::DeleteKey { name, .. }
                | Command::Check { name, .. }
                | Command::ReadKey { name },
            )
            | Self::Plant { name, .. } => Some(name),
            Self::Ask(Command::Batch(entries)) => entries.first().and_then(Command::entry_name),
            Self::Ask(other) => panic!("which lock is {other:?} about?"),
            Self::Clear | Self::Fill(_) | Self::HangUp { .. } => None,
        }
    }
}

/// Draws steps, all of which follow from one seed.
pub(super) struct Draw {
    jitter: Jitter,
    pub(super) names: Vec<Name>,
    owners: Vec<Owner>,
    memory: Memory,
    is_full: bool,
}

/// Whether the server has memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Memory {
    /// Always.
    Enough,
    /// It is full now and then.
    Scarce,
}

impl Memory {
    /// How many of a hundred steps make a server full, or give it memory again.
    const fn change_percent(self, is_full: bool) -> u64 {
        match (self, is_full) {
            (Self::Enough, _) => 0,
            (Self::Scarce, true) => 4,
            (Self::Scarce, false) => 6,
        }
    }

    /// Whether that is the next step; draws numbers only if it may be.
    pub(super) fn changes(self, is_full: bool, up_to: impl FnOnce(u64) -> u64) -> bool {
        self == Self::Scarce && up_to(99) < self.change_percent(is_full)
    }
}

impl Draw {
    pub(super) fn new(jitter: Jitter, memory: Memory) -> Self {
        let name = |text: &str| Name::parse(text, "quorate:").expect("a name");
        let client = |byte| ClientId::from_random([byte; 20]);
        // Each differs from another in one part only, and some have special bytes.
        let owners = [
            Owner::new(&client(1), 1, "me"),
            Owner::new(&client(1), 11, "me"),
            Owner::new(&client(2), 1, "me"),
            Owner::new(&client(1), 1, "m\0é\r\n"),
        ];
        let names = ["a", "{größe} 鎖", "*"].map(name);
        Self { jitter, names: names.into(), owners: owners.into(), memory, is_full: false }
    }

    /// Both sides begin anew, with memory.
    pub(super) const fn clear(&mut self) {
        self.is_full = false;
    }

    /// How long to wait before the next batch. Where the clock can be set, `ends_in_ms` says when
    /// something expires; now and then the pause ends near one of these times.
    pub(super) fn pause_ms(&mut self, ends_in_ms: &[u64]) -> u64 {
        match ends_in_ms.is_empty() || self.up_to(3) > 0 {
            true => self.up_to(8),
            false => (ends_in_ms[self.index(ends_in_ms.len())] + self.up_to(2)).saturating_sub(1),
        }
    }

    /// The steps of one batch.
    pub(super) fn batch(&mut self) -> Vec<Step> {
        let len = 10 + self.up_to(14);
        (0..len).map(|_| self.step()).collect()
    }

    fn step(&mut self) -> Step {
        let name = self.name();
        if self.memory.changes(self.is_full, |last| self.up_to(last)) {
            self.is_full = !self.is_full;
            return Step::Fill(self.is_full);
        }
        match self.up_to(99) {
            0..=34 => {
                let (owner, ttl_ms, sender) = (self.owner(), self.ttl_ms(), None);
                Step::Ask(Command::SetKey { name, owner, ttl_ms, sender })
            }
            35..=41 => Step::Ask(Command::DeleteKey { name, owner: self.owner() }),
            42..=44 => {
                let names = self.different_names().into_iter();
                let delete = |name| Command::DeleteKey { name, owner: self.owner() };
                Step::Ask(Command::Batch(names.map(delete).collect()))
            }
            45..=49 => {
                let (from, owner) = (self.owner(), self.owner());
                let (ttl_ms, sender) = (self.ttl_ms(), None);
                Step::Ask(Command::Adopt { name, from, owner, ttl_ms, sender })
            }
            50..=64 => {
                let names: Vec<Name> = (0..=self.up_to(2)).map(|_| self.name()).collect();
                let entries = names.into_iter().map(|name| self.key_extension(name)).collect();
                Step::Ask(Command::ExtendKeys { entries, sender: None })
            }
            65..=69 => {
                let names = self.different_names().into_iter();
                let extend = |name| {
                    let entries = [self.key_extension(name)].into();
                    Command::ExtendKeys { entries, sender: None }
                };
                Step::Ask(Command::Batch(names.map(extend).collect()))
            }
            70..=79 => Step::Ask(Command::Check { name, owner: self.owner() }),
            80..=92 => Step::Ask(Command::ReadKey { name }),
            // Another program may store nothing either.
            93..=98 if self.is_full => Step::Ask(Command::ReadKey { name }),
            93..=98 => {
                let ttl_ms = (self.up_to(3) > 0).then(|| self.ttl_ms());
                Step::Plant { name, thing: self.thing(), ttl_ms }
            }
            _ => Step::Clear,
        }
    }

    fn key_extension(&mut self, name: Name) -> KeyExtension {
        KeyExtension { name, owner: self.owner(), ttl_ms: self.ttl_ms() }
    }

    /// All of them or two, beginning with any.
    fn different_names(&mut self) -> Vec<Name> {
        let mut names = self.names.clone();
        let first = self.index(names.len());
        names.rotate_left(first);
        names.truncate(2 + self.index(2));
        names
    }

    fn thing(&mut self) -> Thing {
        match self.up_to(6) {
            0 => Thing::Hash,
            1 => Thing::List,
            2 => Thing::Set,
            // One of our owners, stored by another program: it counts as ours.
            3 => Thing::Text(self.owner().as_bytes().into()),
            4 => Thing::Text(Vec::new()),
            _ => Thing::Text((0..=255).collect()),
        }
    }

    fn name(&mut self) -> Name {
        let index = self.index(self.names.len());
        self.names[index].clone()
    }

    fn owner(&mut self) -> Owner {
        let index = self.index(self.owners.len());
        self.owners[index].clone()
    }

    /// Mostly so short that it ends within the next few batches.
    const fn ttl_ms(&mut self) -> u64 {
        match self.up_to(19) {
            0 => 60_000,
            1 => 365 * 24 * 60 * 60 * 1_000,
            _ => 1 + self.up_to(11),
        }
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.up_to(len as u64 - 1)).expect("a small number")
    }

    /// A number from zero to `last`, both included.
    const fn up_to(&mut self, last: u64) -> u64 {
        self.jitter.next() % (last + 1)
    }
}
