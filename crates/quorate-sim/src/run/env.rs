//! The environment of clients: commands on nodes, claims, and the checker's audits.

use quorate_core::{
    command::{Command, ExtendedKey, KeyObservation, Owner, Reply, Value},
    name::Name,
    queue,
    queue::Extended,
};

use super::{Env, FOREIGN};
use crate::{
    check::{Claim, Promise, Queued, majority},
    clock::{MS, NEVER, Nanos},
    event::Event,
    net::Flying,
    node::Node,
    trace::{self, Group, Key, Scene},
};

impl Env {
    /// Lets a node answer a command; `None` is an error. In a batch some entries may fail.
    pub(super) fn answer(
        &mut self,
        client: usize,
        node: usize,
        request: &Flying<Command>,
    ) -> Option<Reply> {
        let is_batch = matches!(request.what, Command::Batch(_));
        let mut answer = |entry: &Command| match self.nodes[node].fails(is_batch) {
            true => Node::fail(entry),
            false => Some(self.run(client, node, request.sent_at, entry)),
        };
        let Command::Batch(entries) = &request.what else {
            // A full node's answer is an error like any other.
            return answer(&request.what).filter(|reply| *reply != Reply::Full);
        };
        let each: Box<[Option<Reply>]> = entries.iter().map(answer).collect();
        self.count.batches += 1;
        self.count.split_batches +=
            u64::from(each.contains(&None) && each.iter().any(Option::is_some));
        Some(Reply::Batch(each))
    }

    /// Runs a command on a node and records the result.
    fn run(&mut self, client: usize, node: usize, sent_at: Nanos, command: &Command) -> Reply {
        let reply = self.nodes[node].run(self.now, command);
        self.note_memory(node, command, &reply);
        let overtakes = self.settings.do_pushes_overtake;
        self.net.push_all(&mut self.queue, self.now, &mut self.nodes[node], overtakes);
        if self.trace.is_on() {
            self.note_run(client, node, sent_at, command, &reply);
        }
        if self.nodes[node].has_grown {
            let text = format!("n{node} is full and stored a new owner");
            let name = trace::client_name(client);
            self.check.report_owner(self.now, Promise::Memory, None, name, text);
        }
        if self.nodes[node].has_changed {
            let text = format!("a read-only command changed n{node}");
            let name = trace::client_name(client);
            self.check.report_owner(self.now, Promise::Reads, None, name, text);
        }
        if self.nodes[node].has_revived
            && let Command::ExtendKeys { entries, .. } = command
        {
            let text = format!("an extension created a key on n{node}");
            let lock = self.locks.iter().position(|known| *known == entries[0].name);
            let owner = trace::owner_name(&entries[0].owner);
            self.check.report_owner(self.now, Promise::Loss, lock, owner, text);
        }
        reply
    }

    fn note_run(
        &mut self,
        client: usize,
        node: usize,
        sent_at: Nanos,
        command: &Command,
        reply: &Reply,
    ) {
        let key = match (command, reply) {
            (
                Command::SetKey { name, owner, .. } | Command::Adopt { name, owner, .. },
                Reply::Stored,
            ) => self.key(node, name, owner),
            (Command::DeleteKey { .. }, Reply::Deleted)
            | (Command::Release { .. }, Reply::Released { is_ours: true }) => Key::Gone,
            (Command::Acquire { request: ask, .. }, Reply::Granted { .. }) => {
                self.key(node, &ask.name, &ask.owner)
            }
            (Command::Extend { entries, .. }, Reply::ExtendedLeases(fates)) => {
                match (entries.first(), fates.first()) {
                    (Some(entry), Some(Extended::Renewed(_))) => {
                        self.key(node, &entry.name, &entry.owner)
                    }
                    _ => Key::Same,
                }
            }
            (Command::ExtendKeys { entries, .. }, Reply::ExtendedKeys(fates)) => {
                let first =
                    entries.first().filter(|_| fates.first() == Some(&ExtendedKey::Renewed));
                first.map_or(Key::Same, |entry| self.key(node, &entry.name, &entry.owner))
            }
            _ => Key::Same,
        };
        let lock = self.lock_of(command);
        self.trace.add(self.now, lock, || Scene::Ran {
            client,
            node,
            sent_at,
            ask: trace::ask(command),
            answer: trace::answer(reply),
            key,
        });
    }

    /// An owner's key as the node has it now.
    fn key(&self, node: usize, name: &Name, owner: &Owner) -> Key {
        let node = &self.nodes[node];
        let check = Command::Check { name: name.clone(), owner: owner.clone() };
        // Recording must not change the run.
        let until = match node.store.clone().apply(node.clock.at(self.now), &check) {
            Reply::Key(Some(KeyObservation { expires_in_ms: Some(left), .. })) => {
                self.now + left * MS
            }
            Reply::Key(Some(_)) => NEVER,
            _ => self.now,
        };
        Key::Is(trace::owner_name(owner), until)
    }

    /// Which lock a command is about; of a batch the first one.
    pub(crate) fn lock_of(&self, command: &Command) -> Option<usize> {
        if !self.trace.is_on() {
            return None;
        }
        let name = *command.names().first()?;
        self.locks.iter().position(|known| known == name)
    }

    /// Checks that no waiter that is queued on a majority of the nodes was overtaken.
    fn check_order(&mut self, number: u32) {
        let lock = self.check.claim(number).lock;
        let queued = self.check.order.tickets(lock);
        if queued.is_empty() {
            return;
        }
        let mut seen = Vec::new();
        for node in &mut self.nodes {
            let time = node.clock.at(self.now);
            let owners = node.store.details(time, &self.locks[lock]).waiting;
            seen.extend(owners.iter().filter_map(|owner| {
                let place = queue::Position::of(owner.as_bytes())?;
                Some((trace::client_of(&place), place.ticket))
            }));
        }
        let (nodes, quorum) = (self.nodes.len(), self.quorum());
        let queued = queued.into_iter().filter_map(|known| {
            let count = seen.iter().filter(|it| **it == known).count();
            let (client, ticket) = known;
            let is_everywhere = count == nodes;
            (count >= quorum).then_some(Queued { client, ticket, is_everywhere })
        });
        self.check.check_order(self.now, number, &queued.collect::<Vec<_>>());
    }

    /// A client was notified that it holds a lock.
    pub(crate) fn begin(&mut self, claim: Claim) -> u32 {
        let end = claim.end;
        let (is_foreign, group, lock) = (claim.client.is_none(), claim.group, claim.lock);
        let is_shared = group == Some(Group::Readers);
        let number = self.check.begin(self.now, claim, self.running);
        let is_together = self.check.is_together(self.now, number);
        let is_wanted = self.check.is_wanted_together(lock);
        self.count.shared += u64::from(is_shared);
        self.count.joined += u64::from(is_together && is_shared);
        self.count.nested += u64::from(is_together && !is_shared);
        self.count.writers_first += u64::from(is_wanted && !is_shared && !is_foreign);
        if !is_foreign {
            self.audit(number);
            self.check_order(number);
        }
        if end != NEVER {
            self.queue.add(end - 1, Event::Audit { claim: number });
        }
        number
    }

    /// Checks that a majority backs a claim.
    pub(crate) fn audit(&mut self, number: u32) {
        let claim = self.check.claim(number);
        let is_checked = self.check.is_within_bounds() && !self.settings.is_changing();
        if !claim.is_backed(self.now) || !is_checked {
            return;
        }
        let name = &self.locks[claim.lock];
        let carried_for = self.carried_for();
        let mut holders = 0;
        for node in &mut self.nodes {
            // A node that forgot the key counts as well, because it must not vote for others.
            let is_carried = node.memory.is_carried(self.now, carried_for);
            let owners = std::iter::once(&claim.owner).chain(&claim.reader);
            let is_held = owners.into_iter().any(|owner| node.holds(self.now, name, owner));
            holders += usize::from(is_carried || is_held);
        }
        self.check.back(self.now, number, holders);
    }

    /// True if there are no more faults for this client: its sessions were renewed since the last
    /// fault, and no message is late.
    pub(crate) fn is_calm(&self, client: usize) -> bool {
        let session = if self.settings.has_sessions() { self.settings.session_ms * MS } else { 0 };
        let is_healed =
            self.now.checked_sub(session).is_some_and(|at| self.check.is_healed_since(at));
        let is_well = is_healed && self.check.is_remembered();
        is_well && self.net.is_calm(self.now, client)
    }

    /// Until when messages between a client or operator and a node are delayed.
    pub(crate) fn apart_until(&self, party: usize, node: usize) -> Option<Nanos> {
        let until = self.apart.get(party).map_or(0, |apart| apart[node]);
        (until > self.now).then_some(until)
    }

    /// How late messages may be, where they may be very late.
    pub(crate) fn late_max(&self) -> Nanos {
        self.settings.quarantine.map_or(0, |quarantine| 2 * quarantine.quarantine_ms * MS)
    }

    /// Breaks a connection. Its client does not know yet.
    pub(crate) fn break_link(&mut self, client: usize, node: usize, late: Nanos) {
        self.net.break_link(&mut self.queue, self.now, (client, node), late);
    }

    /// No node may have a key that a client had to release, or that must have expired.
    pub(super) fn check_leaks(&mut self, are_some_excused: bool) {
        if !self.check.is_within_bounds() {
            return;
        }
        for node in 0..self.nodes.len() {
            // A node that is away for good releases nothing, and one whose clock was set back keeps
            // keys for too long.
            if !self.nodes[node].is_up() || self.nodes[node].is_stepped {
                continue;
            }
            let time = self.nodes[node].clock.at(self.now);
            for name in self.nodes[node].store.names(time) {
                let lock = self.locks.iter().position(|known| *known == name);
                for holder in self.holders(node, &name) {
                    if are_some_excused && self.is_excused(&holder) {
                        continue;
                    }
                    let owner = trace::bytes_name(&holder);
                    let text = format!("n{node} still has the key of {owner}");
                    self.check.report_owner(self.now, Promise::Leak, lock, owner, text);
                }
            }
            self.check_queue_entries(node, are_some_excused);
        }
    }

    /// The owners of a key on a node. An empty shared key is reported as `nobody`.
    pub(super) fn holders(&self, node: usize, name: &Name) -> Vec<Box<[u8]>> {
        match self.nodes[node].store.lock_state(name).key.map(|key| key.value) {
            Some(Value::Text(text)) => vec![text],
            Some(Value::Shared(shares)) if shares.is_empty() => vec![Box::from(*b"nobody")],
            Some(Value::Shared(shares)) => {
                shares.iter().map(|(owner, _)| owner.as_bytes().into()).collect()
            }
            Some(Value::OtherType(_)) | None => Vec::new(),
        }
    }

    /// No node may have a queue entry of a client that has left.
    fn check_queue_entries(&mut self, node: usize, are_some_excused: bool) {
        let time = self.nodes[node].clock.at(self.now);
        for lock in 0..self.locks.len() {
            for owner in self.nodes[node].store.details(time, &self.locks[lock]).waiting {
                if are_some_excused && self.is_excused(owner.as_bytes()) {
                    continue;
                }
                let owner = trace::owner_name(&owner);
                let text = format!("{owner} is still in the queue of n{node}");
                self.check.report_owner(self.now, Promise::Leak, Some(lock), owner, text);
            }
        }
    }

    fn is_excused(&self, value: &[u8]) -> bool {
        self.excused.iter().any(|owner| owner.as_bytes() == value)
            || self.dead.iter().any(|id| value.windows(id.len()).any(|part| part == id.as_bytes()))
            || value.starts_with(FOREIGN.as_bytes())
    }

    pub(crate) const fn quorum(&self) -> usize {
        majority(self.nodes.len())
    }
}
