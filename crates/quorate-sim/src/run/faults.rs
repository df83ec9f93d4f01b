//! How each fault begins and ends.

use quorate_core::command::{Command, Owner, Reply, Value};

use super::{FOREIGN, Run};
use crate::{
    check::Claim,
    clock::{MS, Nanos},
    event::{Direction, Due, Event, Part},
    fault::{Fault, KINDS, Keeps, Way, What, When},
    trace::{Position, Scene},
};

impl Run {
    pub(super) fn plan_fault(&mut self, index: usize) {
        let Fault { at, lasts, what, .. } = self.faults[index];
        let event = |part| Event::Fault { index: index as u16, part };
        let end = self.end_of(index);
        let queue = &mut self.env.queue;
        let lag = match what {
            What::NodeCrash(Keeps::Ago(lag)) | What::Promote { lag } | What::RollBack { lag } => {
                Some(lag)
            }
            _ => None,
        };
        if let Some(before) = lag.and_then(|lag| at.checked_sub(lag)) {
            queue.add(before, event(Part::Remember));
        }
        queue.add(at, event(Part::Begin));
        if lasts > 0 {
            queue.add(end, event(Part::End));
        }
    }

    /// Faults end when faults must stop, except full nodes that begin later.
    fn end_of(&self, index: usize) -> Nanos {
        let Fault { at, lasts, .. } = self.faults[index];
        let end = at + lasts;
        match at < self.env.settings.faults_until {
            true => end.min(self.env.settings.faults_until),
            false => end,
        }
    }

    pub(super) fn handle_fault(&mut self, index: usize, part: Part) {
        let fault = self.faults[index];
        match part {
            Part::Remember => self.env.nodes[fault.node].remember(index as u16),
            Part::Begin => {
                let kind = fault.what.kind();
                self.env.count.faults[kind] += 1;
                if let Some(bound) = fault.what.breaks(self.env.settings.is_forgetful) {
                    self.env.check.break_bound(bound);
                }
                let (place, until) = (place(fault), self.end_of(index));
                self.env.trace.add(self.env.now, None, || Scene::Fault {
                    index,
                    place,
                    until,
                    text: KINDS[kind].to_owned(),
                });
                self.begin_fault(index, fault);
            }
            Part::End => self.end_fault(index, fault),
        }
    }

    fn begin_fault(&mut self, index: usize, fault: Fault) {
        let Fault { client, node, lock, lasts, what, .. } = fault;
        let end = self.end_of(index);
        let env = &mut self.env;
        match what {
            What::Break { when: When::Now, stragglers_for } => {
                self.break_link(client, node, stragglers_for);
            }
            What::Break { when, stragglers_for } => {
                env.net.link(client, node).breaks = Some((when, stragglers_for));
            }
            What::Slow { by } => env.net.link(client, node).slow_by += by,
            What::Cut(way) => self.cut(client, node, way, true),
            What::Isolate => self.isolate(node, true),
            What::Fail => env.nodes[node].failing += 1,
            What::Full { nodes } => self.fill(index, nodes),
            What::Pause => self.stop(client, end),
            What::Suspend => {
                self.stop(client, end);
                // When the machine wakes, its connections are gone.
                for node in 0..self.env.nodes.len() {
                    self.break_link(client, node, lasts);
                }
            }
            What::ClientCrash => {
                if !self.clients[client].is_dead() {
                    self.clients[client].crash(env);
                    env.queue.add(end, Event::Restart { client: client as u8 });
                }
            }
            What::NodeCrash(keeps) => {
                if env.settings.is_rolling {
                    self.clients.iter_mut().for_each(|client| client.carry(env));
                }
                env.nodes[node].crashes += 1;
                self.restart(index, node, keeps);
            }
            What::Flush => self.flush(node),
            What::Promote { lag } => self.restart(index, node, Keeps::Ago(lag)),
            What::RollBack { .. } => self.roll_back(index, node),
            What::Copy { of } => self.copy(node, of),
            What::Replace => self.restart(index, node, Keeps::Nothing),
            What::Blackout { nodes, is_kept } => self.black_out(index, nodes, is_kept),
            What::Nudge { micros } => self.nudge(node, micros),
            What::Evict => {
                env.nodes[node].store.forget(&env.locks[lock]);
            }
            What::Step { micros } => self.step(node, micros),
            What::ForeignTake { nodes, ttl_ms } => self.foreign_take(lock, nodes, ttl_ms),
            What::ForeignForever => {
                let name = env.locks[lock].clone();
                let time = env.nodes[node].clock.at(env.now);
                let check = Command::ReadKey { name: name.clone() };
                if env.nodes[node].store.apply(time, &check) == Reply::Key(None) {
                    let value = Value::Text(squatter().as_bytes().into());
                    env.nodes[node].store.plant(time, &name, value, None);
                }
            }
            What::ForeignOverwrite => {
                let time = env.nodes[node].clock.at(env.now);
                let value = Value::Text(FOREIGN.as_bytes().into());
                env.nodes[node].store.plant(time, &env.locks[lock], value, Some(50));
            }
        }
    }

    fn end_fault(&mut self, index: usize, Fault { client, node, lock, what, .. }: Fault) {
        let env = &mut self.env;
        match what {
            What::Slow { by } => env.net.link(client, node).slow_by -= by,
            What::Cut(way) => self.cut(client, node, way, false),
            What::Isolate => self.isolate(node, false),
            What::Fail => env.nodes[node].failing -= 1,
            What::Full { nodes } => self.end_full(index, nodes),
            What::NodeCrash(_) => env.nodes[node].crashes -= 1,
            What::ForeignForever => {
                let time = env.nodes[node].clock.at(env.now);
                let (name, owner) = (env.locks[lock].clone(), squatter());
                env.nodes[node].store.apply(time, &Command::DeleteKey { name, owner });
            }
            // The other faults have no end, or their own event for it.
            _ => {}
        }
    }

    fn isolate(&mut self, node: usize, is_cut: bool) {
        (0..self.clients.len()).for_each(|client| self.cut(client, node, Way::Both, is_cut));
    }

    pub(crate) fn stop(&mut self, client: usize, until: Nanos) {
        self.clients[client].stop(&mut self.env);
        self.env.queue.add(until, Event::Resume { client: client as u8 });
    }

    fn cut(&mut self, client: usize, node: usize, way: Way, is_cut: bool) {
        let env = &mut self.env;
        let mut set = |direction| {
            let ends = (client, node);
            env.net.set_cut(&mut env.queue, env.now, ends, direction, is_cut);
        };
        if way != Way::ToClient {
            set(Direction::ToNode);
        }
        if way != Way::ToNode {
            set(Direction::ToClient);
        }
    }

    pub(super) fn break_link(&mut self, client: usize, seat: usize, stragglers_for: Nanos) {
        let env = &mut self.env;
        if !env.net.link(client, seat).is_up {
            return;
        }
        env.break_link(client, seat, stragglers_for);
        let generation = env.net.link(client, seat).generation;
        let what = Due::Broken { node: seat as u8, generation };
        // An operator notices at its next request.
        let Some(restarts) = self.clients.get(client).map(|client| client.me.restarts) else {
            return;
        };
        let event = Event::Client { client: client as u8, restarts, what };
        match env.is_rough {
            // Some notice only when they miss an answer.
            true => {
                let after = env.dice.pick(&[MS, MS, env.settings.link_timeout]);
                env.queue.add(env.now + after, event);
            }
            // A paused client notices when it continues.
            false => self.handle(event),
        }
    }

    pub(super) fn break_node(&mut self, node: usize) {
        for (client, seat) in self.env.net.links_to(node) {
            self.break_link(client, seat, 0);
        }
    }

    /// A minority of the nodes stays away for good, and one client reaches less than a majority of
    /// all. The others must work without them.
    pub(super) fn cut_for_good(&mut self) {
        let nodes = self.env.nodes.len();
        let quorum = self.env.quorum();
        let cut_off = self.env.settings.seed as usize % self.clients.len();
        for node in quorum..nodes {
            self.env.nodes[node].crashes += 1;
            self.env.nodes[node].hang_up_all();
            self.break_node(node);
        }
        for node in 1..quorum {
            self.cut(cut_off, node, Way::Both, true);
        }
        self.clients[cut_off].cut_off(&mut self.env);
    }

    /// Another library acquires the lock by the same rules. If a majority grants, it is a holder
    /// too.
    fn foreign_take(&mut self, lock: usize, nodes: u32, ttl_ms: u64) {
        let env = &mut self.env;
        let owner = foreigner();
        let mut grants = 0;
        for node in 0..env.nodes.len() {
            if nodes & (1 << node) == 0 || !env.nodes[node].is_up() {
                continue;
            }
            let name = env.locks[lock].clone();
            let set = Command::SetKey { name, owner: owner.clone(), ttl_ms, sender: None };
            let now = env.now;
            grants += usize::from(env.nodes[node].run(now, &set) == Reply::Stored);
        }
        let lasts = (ttl_ms * MS / 100 * 98).saturating_sub(2 * MS);
        if grants >= env.quorum() && lasts > 0 {
            let end = env.now + lasts;
            env.begin(Claim::new(lock, None, owner, (env.now, end, end)));
        }
    }
}

fn foreigner() -> Owner {
    Owner::from_bytes(FOREIGN.as_bytes())
}

/// A program that stores keys without an expiry.
fn squatter() -> Owner {
    Owner::from_bytes(format!("{FOREIGN} squatter").as_bytes())
}

const fn place(Fault { client, node, what, .. }: Fault) -> Position {
    match what {
        What::Break { .. } | What::Slow { .. } | What::Cut(_) => Position::Link(client, node),
        What::Pause | What::Suspend | What::ClientCrash => Position::Client(client),
        What::ForeignTake { .. } | What::Blackout { .. } | What::Full { .. } => {
            Position::Everywhere
        }
        _ => Position::Node(node),
    }
}
