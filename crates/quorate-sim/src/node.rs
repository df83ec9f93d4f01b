//! A simulated node: the core's own store, with a clock and a life that faults can touch.

use quorate_core::{
    command::{ClientId, Command, Owner, Reply},
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
    /// Who listens: a client, and the link and generation that it listens on.
    listeners: Vec<(ClientId, u16, u32)>,
    /// What it knew when a planned fault asked it to remember, by the fault's index.
    remembered: Vec<(u16, Store)>,
}

impl Node {
    pub(crate) fn new(clock: NodeClock, dice: Dice) -> Self {
        let (listeners, remembered) = (Vec::new(), Vec::new());
        Self { store: Store::new(), clock, is_up: true, dice, listeners, remembered }
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

    /// A connection listens for what the client is told.
    pub(crate) fn listen(&mut self, client: ClientId, link: u16, generation: u32) {
        self.listeners.push((client, link, generation));
        self.store.listen(client);
    }

    /// A connection is gone; the client may have another one.
    pub(crate) fn hang_up(&mut self, link: u16, generation: u32) {
        let is_gone =
            |listener: &(ClientId, u16, u32)| (listener.1, listener.2) == (link, generation);
        let Some(index) = self.listeners.iter().position(is_gone) else { return };
        let (client, ..) = self.listeners.swap_remove(index);
        if !self.listeners.iter().any(|(other, ..)| *other == client) {
            self.store.hang_up(client);
        }
    }

    /// The process died with all its connections.
    pub(crate) fn hang_up_all(&mut self) {
        self.listeners.clear();
        self.store.hang_up_all();
    }

    /// The client of a link that listens, if it still does.
    pub(crate) fn links_of(&self, client: ClientId) -> Vec<(u16, u32)> {
        let of = |listener: &&(ClientId, u16, u32)| listener.0 == client;
        self.listeners.iter().filter(of).map(|(_, link, life)| (*link, *life)).collect()
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
