//! What goes wrong in a world, drawn at random.

use super::{
    GUARD, LINK_TIMEOUT,
    env::Env,
    world::{Later, World},
};
use crate::{
    clock::{MS, Nanos},
    event::{Due, Event, Part},
    links::Linked,
};

/// What a server still knows when it comes back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Memory {
    Kept,
    Lost,
    /// As it was when the last snapshot was taken.
    Old,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Snapshot,
    Crash(Memory),
    Flush,
    /// One party and one server do not hear each other.
    Cut,
    /// One client hears only some servers.
    Lonely,
    Stop,
    /// A client begins anew, with another list.
    Anew,
    /// An operator wants one node more.
    Add,
    /// One node less.
    Remove,
    /// Another node in the place of one.
    Swap,
    /// The same, with the old one alive for some, and somebody who forgets about it.
    Attack,
    /// Two operators at once.
    Rivals,
    /// The clients with the list before are no longer let in.
    Close,
}

const ALL: &[Fault] = &[
    Fault::Snapshot,
    Fault::Snapshot,
    Fault::Crash(Memory::Kept),
    Fault::Crash(Memory::Lost),
    Fault::Crash(Memory::Old),
    Fault::Flush,
    Fault::Cut,
    Fault::Cut,
    Fault::Lonely,
    Fault::Stop,
    Fault::Anew,
    Fault::Anew,
    Fault::Add,
    Fault::Remove,
    Fault::Remove,
    Fault::Swap,
    Fault::Swap,
    Fault::Attack,
    Fault::Rivals,
    Fault::Close,
    Fault::Close,
];

const FEW: &[Fault] = &[Fault::Attack, Fault::Rivals, Fault::Remove, Fault::Close, Fault::Anew];

pub(super) fn draw(env: &mut Env) -> Vec<(Nanos, Fault)> {
    let count = env.dice.between(3, 16);
    let end = env.dice.between(8, 24) * GUARD;
    // Some worlds are about few things, so that much else does not get in their way.
    let (count, all) = match env.dice.below(4) {
        0 => (count / 4 + 1, FEW),
        _ => (count, ALL),
    };
    let mut fault = |_| (env.dice.between(3 * GUARD, end), env.dice.pick(all));
    (0..count).map(&mut fault).collect()
}

impl World {
    pub(super) fn strike(&mut self, fault: Fault) {
        let server = self.any_server();
        let client = self.env.dice.index(self.clients.len());
        let long = self.env.dice.between(GUARD / 4, 8 * GUARD);
        self.env.note(|| format!("{fault:?} (server {server}, client {client}, {} ms)", long / MS));
        match fault {
            Fault::Snapshot => {
                let it = &mut self.env.servers[server];
                it.snapshot = it.node.store.clone();
            }
            Fault::Crash(memory) => self.crash(server, memory, long / 4),
            Fault::Flush if !self.env.is_forgetful() => {
                self.env.servers[server].node.store.clear();
                self.env.servers[server].has_forgotten = true;
            }
            Fault::Flush => {}
            Fault::Cut => {
                let party = self.env.dice.index(self.env.cut.len());
                self.env.cut[party][server] = self.env.now + long;
            }
            Fault::Lonely => self.cut_some(client, long),
            Fault::Stop => self.clients[client].stopped_until = self.env.now + long,
            Fault::Anew => self.renew_client(client),
            Fault::Add => self.add(),
            Fault::Remove => self.remove(),
            Fault::Swap => self.swap(),
            Fault::Attack => self.attack(long),
            Fault::Rivals => {
                for _ in 0..2 {
                    match self.env.dice.below(4) {
                        0 => self.add(),
                        1 => self.remove(),
                        _ => self.swap(),
                    }
                }
            }
            Fault::Close => self.operate(self.latest(), usize::MAX),
        }
    }

    fn any_server(&mut self) -> usize {
        let list = self.latest();
        match self.env.dice.below(4) {
            0 => self.env.dice.index(self.env.servers.len()),
            _ => self.env.dice.pick(&list),
        }
    }

    /// No second server loses its memory before the first has its place again.
    pub(super) fn crash(&mut self, server: usize, memory: Memory, down: Nanos) {
        let is_forgetful = memory != Memory::Kept && self.env.is_forgetful();
        let it = &mut self.env.servers[server];
        if !it.node.is_up() || is_forgetful {
            return;
        }
        it.node.crashes = 1;
        match memory {
            Memory::Kept => {}
            Memory::Lost => it.node.store.clear(),
            Memory::Old => it.node.store = it.snapshot.clone(),
        }
        it.has_forgotten |= memory != Memory::Kept;
        it.node.run_anew();
        it.node.hang_up_all();
        let event = Event::Fault { index: server as u16, part: Part::End };
        self.env.plan(self.env.now + down, event);
        self.break_server(server);
    }

    /// All connections of a server break. Clients notice soon, or when they miss an answer, and
    /// operators when they speak next.
    fn break_server(&mut self, server: usize) {
        for (party, seat) in self.env.net.links_to(server) {
            self.env.break_link(party, seat);
            if let Some(client) = self.clients.get(party) {
                let generation = self.env.net.link(party, seat).generation;
                let what = Due::Broken { node: seat as u8, generation };
                let notices = self.env.dice.pick(&[MS, MS, LINK_TIMEOUT]);
                let at = self.env.now + notices;
                client.plan(&mut self.env, at, what);
            }
        }
        self.env.net.drop_stragglers(server);
    }

    /// Each server with even chances.
    fn cut_some(&mut self, party: usize, long: Nanos) {
        for server in 0..self.env.servers.len() {
            if self.env.dice.below(2) == 0 {
                self.env.cut[party][server] = self.env.now + long;
            }
        }
    }

    fn renew_client(&mut self, client: usize) {
        let list = match self.env.dice.below(8) {
            0..5 => self.latest(),
            5..7 => self.lists[self.env.dice.index(self.lists.len())].clone(),
            // Some get the list of a change that is only under way.
            _ => match self.operators.last().filter(|operator| operator.config.is_some()) {
                Some(operator) => operator.wanted.clone(),
                None => self.latest(),
            },
        };
        self.begin_anew(client, list);
    }

    fn spare(&mut self, list: &[usize]) -> Option<usize> {
        let all = 0..self.env.servers.len();
        let spares: Vec<usize> = all.filter(|server| !list.contains(server)).collect();
        let spare = (!spares.is_empty()).then(|| self.env.dice.pick(&spares))?;
        // A server that was a node is emptied before it is one again.
        if self.env.probe(spare).config.is_some() && !self.env.is_forgetful() {
            let is_used = self.lists.iter().rev().take(2).any(|list| list.contains(&spare));
            if is_used && self.env.dice.below(3) > 0 {
                return None;
            }
            self.env.note(|| format!("server {spare} is emptied"));
            self.env.servers[spare].node.store.clear();
            self.env.servers[spare].has_forgotten = is_used;
        }
        Some(spare)
    }

    fn tells(&mut self, list: &[usize]) -> usize {
        match self.env.dice.below(3) {
            0 => self.env.dice.index(list.len()) + 1,
            _ => usize::MAX,
        }
    }

    fn add(&mut self) {
        let mut list = self.latest();
        let Some(spare) = self.spare(&list).filter(|_| list.len() < 6) else { return };
        list.push(spare);
        let tells = self.tells(&list);
        self.operate(list, tells);
    }

    fn remove(&mut self) {
        let mut list = self.latest();
        if list.len() > 1 {
            list.remove(self.env.dice.index(list.len()));
            let tells = self.tells(&list);
            self.operate(list, tells);
        }
    }

    fn swap(&mut self) {
        let mut list = self.latest();
        let Some(spare) = self.spare(&list) else { return };
        let at = self.env.dice.index(list.len());
        if self.env.dice.below(2) == 0 {
            let down = self.env.dice.between(0, 6 * GUARD);
            self.crash(list[at], Memory::Kept, down);
        }
        list[at] = spare;
        let tells = self.tells(&list);
        self.operate(list, tells);
    }

    /// Clients with the old list see the old node and one more, which forgets the change; those
    /// with the new list see the others.
    fn attack(&mut self, long: Nanos) {
        let old = self.latest();
        let Some(spare) = self.spare(&old) else { return };
        let at = self.env.dice.index(old.len());
        let mut list = old.clone();
        list[at] = spare;
        let mut forgetful = vec![old[(at + 1) % old.len()]];
        if self.env.dice.below(4) == 0 {
            forgetful.push(old[(at + 2) % old.len()]);
        }
        for server in &forgetful {
            let it = &mut self.env.servers[*server];
            it.snapshot = it.node.store.clone();
        }
        let soon = self.env.now + self.env.dice.between(20 * MS, 3 * GUARD);
        let end = soon + 2 * long;
        for client in 0..self.clients.len() {
            if self.env.dice.below(2) == 0 {
                self.keep_in_the_dark(
                    client,
                    &old,
                    &[&forgetful[..], &[old[at]]].concat(),
                    soon,
                    end,
                );
            } else {
                self.env.cut[client][old[at]] = end;
                self.later.push((self.env.now + GUARD / 2, Later::Anew(client)));
                for server in &forgetful {
                    self.later.push((soon, Later::Cut(client, *server, end)));
                }
            }
        }
        let memory = self.env.dice.pick(&[Memory::Lost, Memory::Old, Memory::Kept]);
        for server in forgetful {
            self.later.push((soon, Later::Crash(server, memory)));
        }
        let tells = self.tells(&list);
        self.operate(list, tells);
    }

    /// A client hears nothing until some have forgotten, and then those and the old one alone.
    fn keep_in_the_dark(
        &mut self,
        client: usize,
        old: &[usize],
        seen: &[usize],
        soon: Nanos,
        end: Nanos,
    ) {
        let is_anew = self.env.dice.below(2) == 0;
        for server in 0..self.env.servers.len() {
            let is_seen = seen.contains(&server) || self.env.dice.below(8) == 0;
            self.env.cut[client][server] = if is_seen { soon } else { end };
        }
        if is_anew {
            self.begin_anew(client, old.to_vec());
        }
    }
}
