//! One node: the core's store, and the parts of it that claims use.

use quorate_core::{
    command::{ClientId, Command, Owner, Reply, SessionTerms, Value},
    fence::Fence,
    moment::NodeTime,
    name::Name,
    queue::{AcquireRequest, Position, Push, Sender, Session},
    store::{Kept, Store},
};

use super::print::{Print, Reading};

/// A node, with its current keys and fence.
#[derive(Clone, Debug)]
pub(super) struct Node {
    store: Store,
    /// One key for each reader or entry, or the key of the exclusive holder.
    pub(super) keys: Vec<Key>,
    pub(super) fence: Fence,
    /// A renewal in classic mode has created a key, or changed its owner.
    pub(super) is_forged: bool,
    /// The store's fingerprint, updated after every change: most steps change few nodes.
    print: u64,
}

/// The key of the lock on one node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Key {
    pub(super) client: usize,
    pub(super) owner: Owner,
    pub(super) left_ms: u64,
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.store == other.store && self.is_forged == other.is_forged
    }
}

impl Node {
    /// A node that has granted `fence` before, and knows the first session of each client.
    pub(super) fn new(fence: u8, clients: usize, name: &Name, now: NodeTime) -> Self {
        let mut node = Self {
            store: Store::new(),
            keys: Vec::new(),
            fence: Fence::ZERO,
            is_forged: false,
            print: 0,
        };
        if fence > 0 {
            node.remember(fence, name, now);
        }
        for client in 0..clients {
            let sender = sender(client, 1);
            node.store.apply(
                now,
                &Command::Attach { sender, terms: SessionTerms::without_membership(SESSION_MS) },
            );
            node.store.subscribe(sender.client);
        }
        node.refresh(name, now);
        node
    }

    /// An earlier client held the lock and released it: only its fence is left.
    fn remember(&mut self, fence: u8, name: &Name, now: NodeTime) {
        let sender = sender(LONG_GONE, 1);
        let place = Position { ticket: fence.into(), ttl_ms: 1, client: sender.client };
        let (name, owner) = (name.clone(), place.owner(0));
        let ask = AcquireRequest {
            name: name.clone(),
            owner: owner.clone(),
            is_waiting: false,
            is_known: false,
        };
        self.store.apply(
            now,
            &Command::Attach { sender, terms: SessionTerms::without_membership(SESSION_MS) },
        );
        self.store.apply(now, &Command::Acquire { sender, request: ask });
        self.store.apply(now, &Command::Release { name, owner, yields: None });
        self.lapse(LONG_GONE, 1, now);
    }

    pub(super) fn run(&mut self, name: &Name, now: NodeTime, command: &Command) -> Reply {
        let reply = self.store.apply(now, command);
        if matches!(command, Command::ExtendKeys { .. }) {
            let owners = |keys: &[Key]| keys.iter().map(|it| it.owner.clone()).collect::<Vec<_>>();
            let before = owners(&self.keys);
            self.refresh(name, now);
            self.is_forged |= !self.keys.is_empty() && owners(&self.keys) != before;
        }
        reply
    }

    pub(super) fn listen(&mut self, client: usize) {
        self.store.subscribe(client_id(client));
    }

    pub(super) fn hang_up(&mut self, client: usize) {
        self.store.unsubscribe(client_id(client));
    }

    /// The pushes since the last call, with their receivers.
    pub(super) fn take_pushes(&mut self) -> Vec<(usize, Push)> {
        let pushes = self.store.take_pushes().into_iter();
        pushes.map(|push| (client_of(push.owner.as_bytes()), push)).collect()
    }

    /// The session expires.
    pub(super) fn lapse(&mut self, client: usize, session: u8, now: NodeTime) {
        let sender = sender(client, session);
        let before = NodeTime::from_micros(now.as_micros() - 1_000);
        self.store
            .apply(before, &Command::Attach { sender, terms: SessionTerms::without_membership(0) });
    }

    pub(super) fn lose_key(&mut self, name: &Name) {
        self.store.forget(name);
    }

    /// The node loses everything.
    pub(super) fn clear(&mut self) {
        self.store.clear();
    }

    pub(super) fn waiting(&self, name: &Name, now: NodeTime) -> Vec<Owner> {
        self.store.clone().details(now, name).waiting
    }

    /// Removes what has expired, and reads the rest.
    pub(super) fn refresh(&mut self, name: &Name, now: NodeTime) {
        self.store.apply(now, &Command::ReadKey { name: name.clone() });
        let key = |owner: &[u8], ends_at_ms: Option<u64>| {
            let ends_at_ms = ends_at_ms.expect("every key of this model has an end");
            let left_ms = ends_at_ms.saturating_sub(now.as_millis());
            Key { client: client_of(owner), owner: Owner::from_bytes(owner), left_ms }
        };
        self.keys = match self.store.lock_state(name).key {
            None => Vec::new(),
            Some(Kept { value: Value::Text(text), ends_at_ms }) => vec![key(&text, ends_at_ms)],
            Some(Kept { value: Value::Shared(shares), .. }) => {
                let alive = shares.iter().filter(|(_, share)| share.is_alive(now.as_millis()));
                alive.map(|(owner, share)| key(owner.as_bytes(), Some(share.ends_at_ms))).collect()
            }
            Some(Kept { value: Value::OtherType(kind), .. }) => {
                unreachable!("no client stores a {kind}")
            }
        };
        self.fence = self.store.details(now, name).fence.map_or(Fence::ZERO, |(fence, _)| fence);
        let clock = Reading {
            origin: ORIGIN_MS,
            now: now.as_millis(),
            back: 0,
            ahead: u64::MAX,
            // Fences and sessions are not forgotten here, and times in microseconds have no effect:
            // tickets are too small for the clamp.
            horizon: ORIGIN_MS * 100,
        };
        let mut print = Print::new(0);
        print.add(clock, &(&self.store, self.is_forged));
        self.print = print.number();
    }

    pub(super) const fn print(&self) -> u64 {
        self.print
    }
}

pub(super) fn sender(client: usize, session: u8) -> Sender {
    Sender { client: client_id(client), session: Session::from_random(session.into()) }
}

pub(super) fn client_id(client: usize) -> ClientId {
    ClientId::from_random([client as u8; 20])
}

/// The owner of a client in classic mode: two letters, since they are hashed in every state.
pub(super) fn classic_owner(client: usize, number: u64) -> Owner {
    Owner::from_bytes(&[b'A' + client as u8, b'0' + number as u8])
}

/// The client of an owner.
pub(super) fn client_of(owner: &[u8]) -> usize {
    match Position::of(owner) {
        Some(place) => (0..=LONG_GONE).find(|client| client_id(*client) == place.client),
        None => owner.first().and_then(|letter| letter.checked_sub(b'A')).map(usize::from),
    }
    .expect("only owners of this model are stored")
}

/// The last digit of an owner: its number.
pub(super) fn number_of(owner: &Owner) -> u8 {
    let bytes = owner.as_bytes();
    let alone = bytes.strip_suffix(b":s").or_else(|| bytes.strip_suffix(ENTRY)).unwrap_or(bytes);
    alone.last().map_or(0, |digit| digit.wrapping_sub(b'0'))
}

/// The one identity of this model.
pub(super) const IDENTITY: &str = "x";
const ENTRY: &[u8] = b"!x:r";

/// The client that held the lock before the search.
const LONG_GONE: usize = 9;

/// Long enough that no session expires by time.
pub(super) const SESSION_MS: u64 = 3_600_000;

/// Where the nodes' clocks start: above every fence and ticket, and within the slack of the clamp,
/// so that tickets of a few units are taken as they are.
pub(super) const ORIGIN_MS: u64 = 1_000;
