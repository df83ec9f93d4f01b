//! Full nodes, and what the checker requires of them.

use quorate_core::{command::Owner, queue::Position};
use std::collections::BTreeSet;

use super::{Env, Run};
use crate::{check::Promise, client::Client, clock::MS, trace};

/// A waiter that was in the queue of a node when the node became full.
#[derive(Debug)]
pub(crate) struct Queued {
    /// The fault that made the node full.
    fault: usize,
    node: usize,
    lock: usize,
    client: usize,
    owner: Owner,
}

impl Run {
    pub(super) fn fill(&mut self, fault: usize, nodes: u32) {
        let env = &mut self.env;
        numbers(nodes).for_each(|node| env.nodes[node].fill());
        env.note_queues(fault, nodes);
        env.update_stalls();
    }

    pub(super) fn end_full(&mut self, fault: usize, nodes: u32) {
        let env = &mut self.env;
        numbers(nodes).for_each(|node| env.nodes[node].end_full());
        let waiting = self.clients.iter().flat_map(Client::waiting_owners).collect();
        env.check_queues(fault, &waiting);
        env.update_stalls();
    }
}

impl Env {
    /// While too few nodes have free memory, no waiter gets a lock. A full node that has lost its
    /// membership record does not even answer handshakes.
    fn update_stalls(&mut self) {
        let with_memory = self.nodes.iter().filter(|node| node.fulls == 0).count();
        let is_full = with_memory < self.nodes.len();
        let is_short = with_memory < self.quorum() || self.settings.is_forgetful;
        self.check.suspend_stalls(self.now, is_full && is_short);
    }

    /// Notes which waiters are in the queues, if nothing else is wrong.
    fn note_queues(&mut self, fault: usize, nodes: u32) {
        let session = self.settings.session_ms * MS;
        if !self.now.checked_sub(session).is_some_and(|at| self.check.is_healed_since(at)) {
            return;
        }
        for node in numbers(nodes) {
            for lock in 0..self.locks.len() {
                for owner in self.waiting(node, lock) {
                    if let Some(client) = client_of(&owner)
                        && self.net.is_calm(self.now, client)
                    {
                        self.queued.push(Queued { fault, node, lock, client, owner });
                    }
                }
            }
        }
    }

    /// A waiter that was queued when the node became full and still waits as the same owner is
    /// queued now, or holds the lock. One that withdrew on its own comes back as a new owner, which
    /// a full node rejects.
    fn check_queues(&mut self, fault: usize, still_waiting: &BTreeSet<&Owner>) {
        let of_fault = |queued: &Queued| queued.fault == fault;
        for queued in self.queued.extract_if(.., |it| of_fault(it)).collect::<Vec<_>>() {
            let Queued { node, lock, client, owner, .. } = queued;
            let is_excused = !still_waiting.contains(&owner) || !self.net.is_calm(self.now, client);
            if is_excused || self.is_there(node, lock, &owner) {
                continue;
            }
            let name = trace::owner_name(&owner);
            let text = format!("{name} lost its position in the queue of n{node}, which was full");
            self.check.report_owner(self.now, Promise::Memory, Some(lock), name, text);
        }
    }

    fn is_there(&mut self, node: usize, lock: usize, owner: &Owner) -> bool {
        let holders = self.holders(node, &self.locks[lock].clone());
        holders.iter().any(|holder| **holder == *owner.as_bytes())
            || self.waiting(node, lock).contains(owner)
    }

    /// The owners in the queue of a lock on a node.
    fn waiting(&mut self, node: usize, lock: usize) -> Vec<Owner> {
        let time = self.nodes[node].clock.at(self.now);
        self.nodes[node].store.details(time, &self.locks[lock]).waiting
    }
}

fn client_of(owner: &Owner) -> Option<usize> {
    Some(trace::client_of(&Position::of(owner.as_bytes())?))
}

/// The nodes that these bits stand for.
fn numbers(nodes: u32) -> impl Iterator<Item = usize> {
    (0..u32::BITS as usize).filter(move |node| nodes & (1 << node) != 0)
}
