//! Random commands of the queue, with few names, clients and owners, so that they collide.

// The tests of the local node use this file too.
#[path = "draw/batches.rs"]
mod batches;

use quorate_core::{
    backoff::Jitter,
    command::{ClientId, Command, KeyExtension, Owner, Reply, SessionTerms, Value},
    fence::{Fence, SLACK_US},
    moment::NodeTime,
    name::Name,
    queue::{AcquireRequest, Extend, Group, Position, Sender, Session, TICKET_MAX, Yield, group},
    store::{LockDetails, Store},
};

use super::super::batch::{Memory, Step, Thing};

/// Draws steps, all of which follow from one seed and from what the store would do.
pub(super) struct Draw {
    jitter: Jitter,
    memory: Memory,
    /// The locks of single commands.
    pub(super) names: Vec<Name>,
    /// Others that only batches use.
    others: Vec<Name>,
    pub(super) callers: Vec<Caller>,
    owners: Vec<Owner>,
    next: u64,
}

/// A client.
pub(super) struct Caller {
    pub(super) client: ClientId,
    session: Session,
    /// The node's time, as the client last received it.
    pub(super) answered_us: u64,
    /// When its session will be forgotten.
    pub(super) session_ends_at_ms: u64,
    /// The connection on which it listens.
    pub(super) connection: Option<u64>,
}

impl Draw {
    pub(super) fn new(jitter: Jitter, memory: Memory) -> Self {
        let name = |text: &str| Name::parse(text, "quorate:").expect("a name");
        let caller = |byte| Caller {
            client: ClientId::from_random([byte; 20]),
            session: Session::from_random(0),
            answered_us: 0,
            session_ends_at_ms: 0,
            connection: None,
        };
        Self {
            jitter,
            memory,
            names: ["a", "{größe} 鎖", "x}y: *"].map(name).into(),
            others: (0..OTHERS).map(|number| name(&format!("other {number}"))).collect(),
            callers: [1, 0xa2, 0xff].map(caller).into(),
            owners: Vec::new(),
            next: 0,
        }
    }

    /// How long to wait before the next batch. Where the clock can be set, `ends_in_ms` says when
    /// something expires; now and then the pause ends near one of these times.
    pub(super) fn pause_ms(&mut self, ends_in_ms: &[u64]) -> u64 {
        match ends_in_ms.is_empty() || self.up_to(2) > 0 {
            true => self.up_to(8),
            false => (ends_in_ms[self.index(ends_in_ms.len())] + self.up_to(2)).saturating_sub(1),
        }
    }

    /// One of two.
    pub(super) const fn is_heads(&mut self) -> bool {
        self.up_to(1) == 0
    }

    /// The steps of one batch. `store` is a copy, to see what would come.
    pub(super) fn batch(&mut self, mut store: Store, now: NodeTime) -> Vec<Step> {
        if self.owners.len() < OWNERS {
            (0..OWNERS).for_each(|_| {
                let owner = self.new_owner(now);
                self.owners.push(owner);
            });
        }
        for _ in 0..=self.up_to(2) {
            let (at, owner) = (self.index(OWNERS), self.new_owner(now));
            self.owners[at] = owner;
        }
        let mut steps = Vec::new();
        for at in 0..self.callers.len() {
            let ping = Command::Ping {
                sender: self.sender(at),
                terms: SessionTerms::without_membership(1),
            };
            let is_stale = store.clone().apply(now, &ping) == Reply::Stale;
            if is_stale && self.up_to(9) > 0 {
                steps.push(self.attach(at));
            }
        }
        steps.iter().for_each(|step| drop(step.apply(&mut store, now)));
        for _ in 0..10 + self.up_to(8) {
            let step = self.step(&mut store, now);
            step.apply(&mut store, now);
            if let Step::HangUp { client, .. } = step {
                self.callers.iter_mut().for_each(|it| {
                    it.connection = it.connection.filter(|_| it.client != client);
                });
            }
            steps.push(step);
        }
        steps
    }

    /// A client attaches, and acquires or extends a lock for a year.
    pub(super) fn extension(&mut self, fence: Option<Fence>, now: NodeTime) -> [Step; 3] {
        let (name, client) = (self.names[0].clone(), self.callers[0].client);
        if self.owners.is_empty() {
            let owner = Position { ticket: now.as_micros(), ttl_ms: YEAR_MS, client }.owner(1);
            self.owners.push(owner);
        }
        let (sender, owner) = (self.sender(0), self.owners[0].clone());
        let command = match fence {
            None => {
                let ask = AcquireRequest { name, owner, is_waiting: false, is_known: false };
                Command::Acquire { sender, request: ask }
            }
            Some(fence) => {
                let entry = Extend { name, owner, fence, ttl_ms: YEAR_MS, may_heal: false };
                Command::Extend { sender, entries: [entry].into() }
            }
        };
        let inspect = Command::Inspect { name: self.names[0].clone(), shown: 1 };
        let attach = Command::Attach { sender, terms: SessionTerms::without_membership(30_000) };
        [attach, command, inspect].map(Step::Ask)
    }

    /// A number below this one.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.index(end)
    }

    fn step(&mut self, store: &mut Store, now: NodeTime) -> Step {
        let name = self.name();
        let at = self.index(self.callers.len());
        let is_full = store.is_full();
        if self.memory.changes(is_full, |last| self.up_to(last)) {
            return Step::Fill(!is_full);
        }
        if self.up_to(8) == 0 {
            return Step::Ask(self.together(store, now, at));
        }
        let kinds = if self.memory == Memory::Scarce { 105 } else { 100 };
        Step::Ask(match self.up_to(kinds - 1) {
            0..=3 => return self.attach(at),
            4..=8 => Command::Ping { sender: self.sender_or_stale(at), terms: self.terms() },
            9..=15 => self.heartbeats(store, now, at),
            16..=18 => {
                // Classic mode on a node with quarantine.
                self.next += 1;
                let owner = Owner::new(&self.callers[at].client, self.next, "me");
                let (ttl_ms, sender) = (self.ttl_ms(), Some(self.sender_or_stale(at)));
                Command::SetKey { name, owner, ttl_ms, sender }
            }
            19..=21 => {
                let names: Vec<Name> = (0..=self.up_to(2)).map(|_| self.name()).collect();
                let extend = |name| self.key_extension(store, now, name);
                let entries = names.into_iter().map(extend).collect();
                Command::ExtendKeys { entries, sender: Some(self.sender_or_stale(at)) }
            }
            22..=46 => {
                let owner = self.asker(store, now, &name);
                self.acquire(name, owner, at)
            }
            47..=63 => {
                let owner = self.holder(store, now, &name);
                let yields = self.yields(at, store, now, (&name, &owner));
                Command::Release { name, owner, yields }
            }
            67..=82 => {
                let names: Vec<Name> = (0..=self.up_to(2)).map(|_| self.name()).collect();
                let extend = |name| self.extend(store, now, name);
                let entries = names.into_iter().map(extend).collect();
                Command::Extend { sender: self.sender_or_stale(at), entries }
            }
            83 => Command::ReadKey { name },
            84 => Command::Inspect { name, shown: [0, 1, 100][self.index(3)] },
            85 => {
                let prefix = ["", "a", "{größe", "x}y: *", "x}y: **", "?"][self.index(6)].into();
                Command::List { prefix, cursor: None, count: 500 }
            }
            97 => Command::Check { owner: self.holder(store, now, &name), name },
            86..=89 => self.adopt(store, now, name, at),
            // Another program may store nothing either.
            90..=94 if is_full => Command::ReadKey { name },
            90..=94 => {
                let ttl_ms = (self.up_to(3) > 0).then(|| self.ttl_ms());
                return Step::Plant { name, thing: self.thing(), ttl_ms };
            }
            95 | 96 => match self.callers[at] {
                Caller { client, connection: Some(connection), .. } => {
                    return Step::HangUp { client, connection };
                }
                Caller { connection: None, .. } => Command::ReadKey { name },
            },
            99 if self.memory == Memory::Scarce => Command::ReadKey { name },
            98 | 99 => return Step::Clear,
            100 => Command::Who { client: self.callers[at].client },
            _ => {
                let (client, who) = (self.callers[at].client, ["me", "größe\n"][self.index(2)]);
                Command::Introduce { client, who: who.into(), lifetime_ms: self.lifetime_ms() }
            }
        })
    }

    fn known(&mut self, store: &mut Store, now: NodeTime) -> AcquireRequest {
        let name = self.name();
        let owner = self.asker(store, now, &name);
        AcquireRequest { name, owner, is_waiting: true, is_known: true }
    }

    fn acquire(&mut self, name: Name, owner: Owner, at: usize) -> Command {
        let place = Position::of(owner.as_bytes()).expect("waiters have a place");
        let its = self.callers.iter().position(|it| it.client == place.client);
        let at = its.filter(|_| self.up_to(9) > 0).unwrap_or(at);
        let (is_waiting, is_known) = (self.up_to(3) > 0, self.is_heads());
        let ask = AcquireRequest { name, owner, is_waiting, is_known };
        Command::Acquire { sender: self.sender_or_stale(at), request: ask }
    }

    fn adopt(&mut self, store: &mut Store, now: NodeTime, name: Name, at: usize) -> Command {
        let (mut from, mut owner) = (self.holder(store, now, &name), self.new_owner(now));
        if self.up_to(4) == 0 {
            // Another owner, which may have done so before.
            (from, owner) = (self.owner(), self.holder(store, now, &name));
        }
        // Owners that share a lock seldom hold it exclusively later, and identities seldom change.
        let is_odd = self.up_to(4) == 0;
        let is_downgrade = self.is_heads();
        let is_usual = |from: &Owner, owner: &Owner| match (group(from), group(owner)) {
            (None, Some(Group::Readers)) => is_downgrade,
            (None, None) => !is_downgrade,
            (before, after) => before == after,
        };
        while from == owner || !is_usual(&from, &owner) && !is_odd {
            owner = self.new_owner(now);
        }
        let (ttl_ms, sender) = (self.ttl_ms(), Some(self.sender_or_stale(at)));
        Command::Adopt { name, from, owner, ttl_ms, sender }
    }

    /// Sometimes a yield names a grant, mostly the current one.
    fn yields(
        &mut self,
        at: usize,
        store: &mut Store,
        now: NodeTime,
        (name, owner): (&Name, &Owner),
    ) -> Option<Yield> {
        (self.up_to(2) == 0).then(|| {
            let fence = self.fence(store, now, name, owner);
            Yield { fence, sender: self.sender_or_stale(at) }
        })
    }

    /// A new session, or the same one once more.
    fn attach(&mut self, at: usize) -> Step {
        if self.up_to(3) > 0 {
            self.next += 1;
            self.callers[at].session = Session::from_random(u128::from(self.next) << 64);
        }
        Step::Ask(Command::Attach { sender: self.sender(at), terms: self.terms() })
    }

    /// Tickets may differ from the node's time up to this bound, or not at all.
    fn terms(&mut self) -> SessionTerms {
        let slack_us = [0, 1, 1_000_000, SLACK_US][self.index(4)];
        SessionTerms { slack_us, ..SessionTerms::without_membership(self.lifetime_ms()) }
    }

    pub(super) fn sender(&self, at: usize) -> Sender {
        Sender { client: self.callers[at].client, session: self.callers[at].session }
    }

    fn sender_or_stale(&mut self, at: usize) -> Sender {
        let sender = self.sender(at);
        match self.up_to(19) {
            0 => Sender { session: Session::from_random(1), ..sender },
            _ => sender,
        }
    }

    fn extend(&mut self, store: &mut Store, now: NodeTime, name: Name) -> Extend {
        let owner = self.holder(store, now, &name);
        let fence = self.fence(store, now, &name, &owner);
        Extend { name, owner, fence, ttl_ms: self.ttl_ms(), may_heal: self.is_heads() }
    }

    fn key_extension(&mut self, store: &mut Store, now: NodeTime, name: Name) -> KeyExtension {
        let owner = self.holder(store, now, &name);
        KeyExtension { name, owner, ttl_ms: self.ttl_ms() }
    }

    /// Any owner; on a full server mostly a waiter, since no other owner is granted anything.
    fn asker(&mut self, store: &mut Store, now: NodeTime, name: &Name) -> Owner {
        let waiting = store.details(now, name).waiting;
        match store.is_full() && !waiting.is_empty() && self.up_to(2) > 0 {
            true => waiting[self.index(waiting.len())].clone(),
            false => self.owner(),
        }
    }

    /// Mostly the holder of the lock, or one of its holders.
    fn holder(&mut self, store: &mut Store, now: NodeTime, name: &Name) -> Owner {
        let shares = store.details(now, name).shares;
        if !shares.is_empty() && self.up_to(3) > 0 {
            let at = self.index(shares.iter().len());
            return shares.iter().nth(at).expect("one of them").0.clone();
        }
        match store.apply(now, &Command::ReadKey { name: name.clone() }) {
            Reply::Key(Some(seen)) if self.up_to(3) > 0 => match seen.value {
                Value::Text(text) => Owner::from_bytes(&text),
                Value::Shared(_) | Value::OtherType(_) => self.owner(),
            },
            _ => self.owner(),
        }
    }

    /// Mostly the fence of the lock, or of the owner's part of it, or one that is close to it.
    fn fence(&mut self, store: &mut Store, now: NodeTime, name: &Name, owner: &Owner) -> Fence {
        let LockDetails { fence, shares, .. } = store.details(now, name);
        let share = shares.iter().find(|(it, _)| *it == owner).map(|(_, share)| share.fence);
        let fence = share.or_else(|| fence.map(|(fence, _)| fence)).map_or(0, Fence::get);
        Fence::new(match self.up_to(9) {
            0 => 0,
            1 => fence.saturating_sub(1),
            2 => fence + 1,
            3 => fence + self.up_to(99_999),
            _ => fence,
        })
    }

    fn thing(&mut self) -> Thing {
        let odd =
            format!("{}:1 2\n\u{e9}", "q1:0000000000000007:3:ff".to_owned() + &"f".repeat(38));
        match self.up_to(9) {
            0 => Thing::Hash,
            1 => Thing::List,
            2 => Thing::Set,
            3..=5 => Thing::Text(self.owner().as_bytes().into()),
            // An owner in our format: with a wrong client, a wrong ticket, or nothing wrong.
            6 => Thing::Text(odd.replace(":ff", ":f").into()),
            7 => Thing::Text(odd.replace("q1:0", "q1:").into()),
            8 => Thing::Text(odd.replace("q1:0", "q1:9").into()),
            _ => Thing::Text((0..=255).collect()),
        }
    }

    /// A new owner; some have the ticket of another, or one that the node does not trust.
    fn new_owner(&mut self, now: NodeTime) -> Owner {
        let at = self.index(self.callers.len());
        let Caller { client, answered_us, .. } = self.callers[at];
        let near = self.up_to(2);
        let known = self.owners.last().and_then(|owner| Position::of(owner.as_bytes()));
        let ticket = match (self.up_to(15), known) {
            (0, _) => TICKET_MAX,
            (1, _) => self.up_to(9),
            (2, _) => now.as_micros() + 3_600_000_000,
            (3, _) => now.as_micros() - 3_600_000_000,
            (4 | 5, _) => (answered_us + SLACK_US + near).saturating_sub(1),
            (6 | 7, _) => (answered_us + near).saturating_sub(SLACK_US + 1),
            (8..=10, Some(known)) => known.ticket,
            _ => now.as_micros() - self.up_to(3_000_000),
        };
        self.next += 1;
        let place = Position { ticket, ttl_ms: self.ttl_ms(), client };
        match self.up_to(7) {
            0..=2 => place.owner(self.next),
            3..=5 => place.shared_owner(self.next),
            _ => {
                let identity = ["job 7", "größe"][self.index(2)];
                place.reentrant_owner(self.next, identity)
            }
        }
    }

    fn owner(&mut self) -> Owner {
        let index = self.index(self.owners.len());
        self.owners[index].clone()
    }

    fn name(&mut self) -> Name {
        let index = self.index(self.names.len());
        self.names[index].clone()
    }

    /// Mostly so short that it ends within the next few batches.
    const fn ttl_ms(&mut self) -> u64 {
        match self.up_to(19) {
            0 | 1 => 60_000,
            2 => YEAR_MS,
            _ => 1 + self.up_to(14),
        }
    }

    /// Mostly so long that a session lasts for many batches.
    const fn lifetime_ms(&mut self) -> u64 {
        match self.up_to(3) {
            0 => 1 + self.up_to(11),
            _ => 30_000,
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

const OWNERS: usize = 7;
const OTHERS: usize = 37;
const YEAR_MS: u64 = 365 * 24 * 60 * 60 * 1_000;
