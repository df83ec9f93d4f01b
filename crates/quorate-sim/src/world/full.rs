//! Nodes that are full, and what the judge demands of them.

use quorate_core::queue::Position;

use super::{Env, World};
use crate::{check::Promise, clock::MS, trace};

/// Somebody who stood in the queue of a node when it became full.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Queued {
    /// The fault that made the node full.
    fault: usize,
    node: usize,
    lock: usize,
    client: usize,
    ticket: u64,
}

impl World {
    pub(super) fn fill(&mut self, fault: usize, nodes: u32) {
        let env = &mut self.env;
        numbers(nodes).for_each(|node| env.nodes[node].fill());
        env.note_queues(fault, nodes);
        env.look_at_memory();
    }

    pub(super) fn end_full(&mut self, fault: usize, nodes: u32) {
        let env = &mut self.env;
        numbers(nodes).for_each(|node| env.nodes[node].end_full());
        env.check_queues(fault);
        env.look_at_memory();
    }
}

impl Env {
    /// While too few nodes have memory, nobody new gets a lock. A node that has forgotten what it
    /// is cannot even be met.
    fn look_at_memory(&mut self) {
        let with_memory = self.nodes.iter().filter(|node| node.fulls == 0).count();
        let is_full = with_memory < self.nodes.len();
        let is_short = with_memory < self.quorum() || self.settings.is_forgetful;
        self.check.suspend_stalls(self.now, is_full && is_short);
    }

    /// Notes who stands in the queues, if nothing else is wrong.
    fn note_queues(&mut self, fault: usize, nodes: u32) {
        let life = self.settings.session_ms * MS;
        if !self.now.checked_sub(life).is_some_and(|at| self.check.is_healed_since(at)) {
            return;
        }
        for node in numbers(nodes) {
            for lock in 0..self.locks.len() {
                for (client, ticket) in self.waiting(node, lock) {
                    if self.net.is_calm(self.now, client) {
                        self.queued.push(Queued { fault, node, lock, client, ticket });
                    }
                }
            }
        }
    }

    /// Whoever stood in a queue then, and still waits, stands there now, or was given the lock.
    fn check_queues(&mut self, fault: usize) {
        let of_fault = |queued: &Queued| queued.fault == fault;
        for queued in self.queued.extract_if(.., |it| of_fault(it)).collect::<Vec<_>>() {
            let Queued { node, lock, client, ticket, .. } = queued;
            let who = (client, ticket);
            let does_wait = self.check.order.tickets(lock).contains(&who);
            if !does_wait || !self.net.is_calm(self.now, client) || self.is_there(node, lock, who) {
                continue;
            }
            let name = trace::client_name(client);
            let text = format!("{name} has lost its place in the queue of n{node}, which was full");
            self.check.report_owner(self.now, Promise::Memory, Some(lock), name, text);
        }
    }

    fn is_there(&mut self, node: usize, lock: usize, who: (usize, u64)) -> bool {
        let holders = self.holders(node, &self.locks[lock].clone());
        let mut holders = holders.iter().filter_map(|owner| place(owner));
        holders.any(|holder| holder == who) || self.waiting(node, lock).contains(&who)
    }

    /// Who stands in the queue of a lock on a node, by client and ticket.
    fn waiting(&mut self, node: usize, lock: usize) -> Vec<(usize, u64)> {
        let time = self.nodes[node].clock.at(self.now);
        let owners = self.nodes[node].store.details(time, &self.locks[lock]).waiting;
        owners.iter().filter_map(|owner| place(owner.as_bytes())).collect()
    }
}

fn place(owner: &[u8]) -> Option<(usize, u64)> {
    let place = Position::of(owner)?;
    Some((trace::client_of(&place), place.ticket))
}

/// The nodes that these bits stand for.
fn numbers(nodes: u32) -> impl Iterator<Item = usize> {
    (0..u32::BITS as usize).filter(move |node| nodes & (1 << node) != 0)
}
