//! What goes wrong in a run, drawn at random.

use super::{QUARANTINE_TIME, run::Later};
use crate::{
    clock::{MS, Nanos},
    dice::Dice,
    event::{Event, Part},
    fault::Keeps,
    run::Run,
};

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Snapshot,
    Crash(Keeps),
    Flush,
    /// Messages between one party and one server are delayed.
    Cut,
    /// One client reaches only some servers.
    Lonely,
    Stop,
    /// A client restarts with another list.
    Anew,
    /// An operator adds a node.
    Add,
    /// An operator removes a node.
    Remove,
    /// An operator replaces a node.
    Swap,
    /// The same, but some clients still reach the old node, and a node forgets the change.
    Attack,
    /// Two operators at once.
    Rivals,
    /// An operator completes the last change: clients with the list before it are rejected.
    Close,
}

const ALL: &[Fault] = &[
    Fault::Snapshot,
    Fault::Snapshot,
    Fault::Crash(Keeps::Everything),
    Fault::Crash(Keeps::Nothing),
    Fault::Crash(OLD),
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

/// The data of the last snapshot.
const OLD: Keeps = Keeps::Ago(0);

/// The number of that snapshot.
const SNAPSHOT: u16 = 0;

pub(super) fn draw(dice: &mut Dice) -> Vec<(Nanos, Fault)> {
    let count = dice.between(3, 16);
    let end = dice.between(8, 24) * QUARANTINE_TIME;
    // Some runs have few kinds of faults, so that others do not interfere.
    let (count, all) = match dice.below(4) {
        0 => (count / 4 + 1, FEW),
        _ => (count, ALL),
    };
    let mut fault = |_| (dice.between(3 * QUARANTINE_TIME, end), dice.pick(all));
    (0..count).map(&mut fault).collect()
}

impl Run {
    pub(super) fn strike(&mut self, fault: Fault) {
        let server = self.any_server();
        let client = self.env.dice.index(self.clients.len());
        let long = self.env.dice.between(QUARANTINE_TIME / 4, 8 * QUARANTINE_TIME);
        self.env.note_change(|| {
            format!("{fault:?} (server {server}, client {client}, {} ms)", long / MS)
        });
        match fault {
            Fault::Snapshot => self.env.nodes[server].remember(SNAPSHOT),
            Fault::Crash(keeps) => self.crash(server, keeps, long / 4),
            Fault::Flush if !self.is_forgetful() => {
                self.flush(server);
                self.changes.forgetful.push(server);
            }
            Fault::Flush => {}
            Fault::Cut => {
                let party = self.env.dice.index(self.env.apart.len());
                self.env.apart[party][server] = self.env.now + long;
            }
            Fault::Lonely => self.cut_some(client, long),
            Fault::Stop => self.stop(client, self.env.now + long),
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
            0 => self.env.dice.index(self.env.nodes.len()),
            _ => self.env.dice.pick(&list),
        }
    }

    /// Whether a server has lost its data and is not enrolled again.
    fn is_forgetful(&mut self) -> bool {
        let env = &mut self.env;
        self.changes.forgetful.retain(|server| {
            let info = env.probe(*server);
            info.quarantine.is_some() && !info.is_enrolled
        });
        !self.changes.forgetful.is_empty()
    }

    /// No second server loses its data before the first one is enrolled again.
    pub(super) fn crash(&mut self, server: usize, keeps: Keeps, down: Nanos) {
        let is_kept = keeps == Keeps::Everything;
        let is_too_much = !is_kept && self.is_forgetful();
        if !self.env.nodes[server].is_up() || is_too_much {
            return;
        }
        self.env.nodes[server].crashes = 1;
        if !is_kept {
            self.changes.forgetful.push(server);
        }
        self.restart(SNAPSHOT.into(), server, keeps);
        self.env.net.drop_stragglers(server);
        let event = Event::Fault { index: server as u16, part: Part::End };
        self.env.queue.add(self.env.now + down, event);
    }

    /// Each server with even chances.
    fn cut_some(&mut self, party: usize, long: Nanos) {
        for server in 0..self.env.nodes.len() {
            if self.env.dice.below(2) == 0 {
                self.env.apart[party][server] = self.env.now + long;
            }
        }
    }

    fn renew_client(&mut self, client: usize) {
        let list = match self.env.dice.below(8) {
            0..5 => self.latest(),
            5..7 => self.changes.lists[self.env.dice.index(self.changes.lists.len())].clone(),
            // Some get the list of a change that is only under way.
            _ => match self.changes.operators.last().filter(|operator| operator.config.is_some()) {
                Some(operator) => operator.wanted.clone(),
                None => self.latest(),
            },
        };
        self.begin_anew(client, list);
    }

    fn spare(&mut self, list: &[usize]) -> Option<usize> {
        let all = 0..self.env.nodes.len();
        let spares: Vec<usize> = all.filter(|server| !list.contains(server)).collect();
        let spare = (!spares.is_empty()).then(|| self.env.dice.pick(&spares))?;
        // A server that was a node is emptied before it is one again.
        if self.env.probe(spare).config.is_some() && !self.is_forgetful() {
            let is_used = self.changes.lists.iter().rev().take(2).any(|list| list.contains(&spare));
            if is_used && self.env.dice.below(3) > 0 {
                return None;
            }
            self.env.note_change(|| format!("server {spare} is emptied"));
            self.env.nodes[spare].forget_all(self.env.now);
            if is_used {
                self.changes.forgetful.push(spare);
            }
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
            let down = self.env.dice.between(0, 6 * QUARANTINE_TIME);
            self.crash(list[at], Keeps::Everything, down);
        }
        list[at] = spare;
        let tells = self.tells(&list);
        self.operate(list, tells);
    }

    /// Clients with the old list reach the old node and one more, which forgets the change; clients
    /// with the new list reach the others.
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
        forgetful.iter().for_each(|server| self.env.nodes[*server].remember(SNAPSHOT));
        let soon = self.env.now + self.env.dice.between(20 * MS, 3 * QUARANTINE_TIME);
        let end = soon + 2 * long;
        for client in 0..self.clients.len() {
            if self.env.dice.below(2) == 0 {
                self.isolate_until_forgotten(
                    client,
                    &old,
                    &[&forgetful[..], &[old[at]]].concat(),
                    soon,
                    end,
                );
            } else {
                self.env.apart[client][old[at]] = end;
                self.changes.later.push((self.env.now + QUARANTINE_TIME / 2, Later::Anew(client)));
                for server in &forgetful {
                    self.changes.later.push((soon, Later::Cut(client, *server, end)));
                }
            }
        }
        let keeps = self.env.dice.pick(&[Keeps::Nothing, OLD, Keeps::Everything]);
        for server in forgetful {
            self.changes.later.push((soon, Later::Crash(server, keeps)));
        }
        let tells = self.tells(&list);
        self.operate(list, tells);
    }

    /// A client reaches no server until some have forgotten the change, and then only those and the
    /// old one.
    fn isolate_until_forgotten(
        &mut self,
        client: usize,
        old: &[usize],
        seen: &[usize],
        soon: Nanos,
        end: Nanos,
    ) {
        let is_anew = self.env.dice.below(2) == 0;
        for server in 0..self.env.nodes.len() {
            let is_seen = seen.contains(&server) || self.env.dice.below(8) == 0;
            self.env.apart[client][server] = if is_seen { soon } else { end };
        }
        if is_anew {
            self.begin_anew(client, old.to_vec());
        }
    }
}
