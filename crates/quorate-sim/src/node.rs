//! A simulated node: the core's own store, with a clock and a life that faults can touch.

use quorate_core::{
    command::{Command, Owner, Reply},
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
    pub(crate) is_up: bool,
    dice: Dice,
    /// What it knew when a planned fault asked it to remember, by the fault's index.
    remembered: Vec<(u16, Store)>,
}

impl Node {
    pub(crate) const fn new(clock: NodeClock, dice: Dice) -> Self {
        Self { store: Store::new(), clock, is_up: true, dice, remembered: Vec::new() }
    }

    /// Runs one command. The clock that it looks at may have been read a little before.
    pub(crate) fn run(&mut self, now: Nanos, command: &Command) -> Reply {
        let read_at = now.saturating_sub(self.dice.below(CLOCK_LAG_MAX));
        self.store.apply(self.clock.at(read_at), command)
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
