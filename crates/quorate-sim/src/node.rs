//! A simulated node: the core's own store, with a clock and a life that faults can touch.

use quorate_core::{
    command::{Command, Fate, Owner, Prolongation, Reply},
    moment::NodeTime,
    name::Name,
    quorum::Vote,
    store::Store,
};

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
    /// How many faults let it answer with errors.
    pub(crate) failing: u32,
    /// An extension has made a key that was not there.
    pub(crate) has_revived: bool,
    dice: Dice,
    /// What it knew when a planned fault asked it to remember, by the fault's index.
    remembered: Vec<(u16, Store)>,
}

impl Node {
    pub(crate) const fn new(clock: NodeClock, dice: Dice) -> Self {
        let store = Store::new();
        let (crashes, failing, has_revived) = (0, 0, false);
        Self { store, clock, crashes, failing, has_revived, dice, remembered: Vec::new() }
    }

    pub(crate) const fn is_up(&self) -> bool {
        self.crashes == 0
    }

    /// Runs one command. The clock that it looks at may have been read a little before.
    pub(crate) fn run(&mut self, now: Nanos, command: &Command) -> Reply {
        let read_at = now.saturating_sub(self.dice.below(CLOCK_LAG_MAX));
        let time = self.clock.at(read_at);
        let kept = self.kept(time, command);
        let reply = self.store.apply(time, command);
        self.has_revived |= self.kept(time, command) > kept;
        reply
    }

    /// How many keys of a `Prolong` are there.
    fn kept(&mut self, time: NodeTime, command: &Command) -> usize {
        let Command::Prolong { entries } = command else { return 0 };
        let checks = entries.iter().map(|Prolongation { name, owner, .. }| Command::Check {
            name: name.clone(),
            owner: owner.clone(),
        });
        checks.filter(|check| check.vote(&self.store.apply(time, check)) == Vote::Grant).count()
    }

    /// What it answers instead of doing anything: an error, which for each key of a batch is the
    /// key's own.
    pub(crate) fn fail(command: &Command) -> Option<Reply> {
        match command {
            Command::Prolong { entries } => {
                Some(Reply::Each(entries.iter().map(|_| Fate::Failed).collect()))
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

    pub(crate) fn remember(&mut self, fault: u16) {
        self.remembered.push((fault, self.store.clone()));
    }

    /// Goes back to what it kept.
    pub(crate) fn recall(&mut self, fault: u16, keeps: Keeps) {
        match keeps {
            Keeps::Everything => {}
            Keeps::Nothing => self.store.clear(),
            Keeps::Ago(_) => {
                let known = self.remembered.iter().find(|(of, _)| *of == fault);
                // A fault that came before anything could be remembered lost everything.
                self.store = known.map_or_else(Store::new, |(_, store)| store.clone());
            }
        }
    }
}
