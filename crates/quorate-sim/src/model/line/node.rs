//! One node: the core's store, and what a look into it shows.

use quorate_core::{
    command::{ClientId, Command, Reply, Stay, Value},
    fence::Fence,
    line::{Ask, Place, Push, Session, Speaker},
    moment::NodeTime,
    name::Name,
    store::{Kept, Store},
};

use super::link::{Heard, Mark};
use crate::model::print::{Print, Reading};

/// A node, with what it shows now.
#[derive(Clone, Debug)]
pub(super) struct Node {
    store: Store,
    /// Those of all who share the lock, or of the one who has it alone.
    pub(super) keys: Vec<Key>,
    pub(super) fence: Fence,
    /// The store's print, taken after every change: most steps leave most nodes as they are.
    print: u64,
}

/// The key of the lock on one node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Key {
    pub(super) client: usize,
    pub(super) mark: Mark,
    pub(super) left_ms: u64,
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.store == other.store
    }
}

impl Node {
    /// A node that has given `fence` to somebody before, and knows the first session of each
    /// client.
    pub(super) fn new(fence: u8, clients: usize, name: &Name, now: NodeTime) -> Self {
        let mut store = Store::new();
        if fence > 0 {
            let mut past = Self { store, keys: Vec::new(), fence: Fence::ZERO, print: 0 };
            past.remember(fence, name, now);
            store = past.store;
        }
        for client in 0..clients {
            let speaker = speaker(client, 1);
            store.apply(now, &Command::Attach { speaker, stay: Stay::unguarded(SESSION_MS) });
            store.listen(speaker.client);
        }
        let mut node = Self { store, keys: Vec::new(), fence: Fence::ZERO, print: 0 };
        node.look(name, now);
        node
    }

    /// Somebody had the lock once and left nothing but its fence.
    fn remember(&mut self, fence: u8, name: &Name, now: NodeTime) {
        let speaker = speaker(LONG_GONE, 1);
        let place = Place { ticket: fence.into(), ttl_ms: 1, client: speaker.client };
        let (name, owner) = (name.clone(), place.owner(0));
        let ask =
            Ask { name: name.clone(), owner: owner.clone(), is_waiting: false, is_known: false };
        self.store.apply(now, &Command::Attach { speaker, stay: Stay::unguarded(SESSION_MS) });
        self.store.apply(now, &Command::Acquire { speaker, ask });
        self.store.apply(now, &Command::Release { name, owner, yields: None });
        self.lapse(LONG_GONE, 1, now);
    }

    pub(super) fn run(&mut self, now: NodeTime, command: &Command) -> Reply {
        self.store.apply(now, command)
    }

    pub(super) fn listen(&mut self, client: usize) {
        self.store.listen(client_id(client));
    }

    pub(super) fn hang_up(&mut self, client: usize) {
        self.store.hang_up(client_id(client));
    }

    /// What it has to tell, and whom.
    pub(super) fn take_pushes(&mut self) -> Vec<(usize, Heard)> {
        let heard = |push: Push| {
            let (client, mark) =
                read(push.owner.as_bytes()).expect("only owners of this model wait");
            (client, Heard::Push { mark, fence: push.fence, news: push.news })
        };
        self.store.take_pushes().into_iter().map(heard).collect()
    }

    /// The session ends as if it had not been heard of for its whole life.
    pub(super) fn lapse(&mut self, client: usize, session: u8, now: NodeTime) {
        let speaker = speaker(client, session);
        let before = NodeTime::from_micros(now.as_micros() - 1_000);
        self.store.apply(before, &Command::Attach { speaker, stay: Stay::unguarded(0) });
    }

    pub(super) fn lose_key(&mut self, name: &Name) {
        self.store.forget(name);
    }

    pub(super) fn waiting(&self, name: &Name, now: NodeTime) -> Vec<(usize, Mark)> {
        let waiting = self.store.clone().aside(now, name).waiting;
        waiting.iter().filter_map(|owner| read(owner.as_bytes())).collect()
    }

    /// Lets go what has expired, and reads what is left.
    pub(super) fn look(&mut self, name: &Name, now: NodeTime) {
        self.store.apply(now, &Command::Look { name: name.clone() });
        let key = |owner: &[u8], ends_at_ms: Option<u64>| {
            let (client, mark) = read(owner).expect("only owners of this model are stored");
            let ends_at_ms = ends_at_ms.expect("every key of this model has an end");
            Key { client, mark, left_ms: ends_at_ms.saturating_sub(now.as_millis()) }
        };
        self.keys = match self.store.lock_state(name).key {
            None => Vec::new(),
            Some(Kept { value: Value::Text(text), ends_at_ms }) => vec![key(&text, ends_at_ms)],
            Some(Kept { value: Value::Shared(shares), .. }) => {
                let alive = shares.iter().filter(|(_, share)| share.is_alive(now.as_millis()));
                alive.map(|(owner, share)| key(owner.as_bytes(), Some(share.ends_at_ms))).collect()
            }
            Some(Kept { value: Value::OtherType(kind), .. }) => {
                unreachable!("nobody stores a {kind}")
            }
        };
        self.fence = self.store.aside(now, name).fence.map_or(Fence::ZERO, |(fence, _)| fence);
        let clock = Reading {
            origin: ORIGIN_MS,
            now: now.as_millis(),
            back: 0,
            ahead: u64::MAX,
            // Fences and sessions are not forgotten here, and times in microseconds are of no use
            // to anybody: tickets are too small for the clamp.
            horizon: ORIGIN_MS * 100,
        };
        let mut print = Print::new(0);
        print.add(clock, &self.store);
        self.print = print.number();
    }

    pub(super) const fn print(&self) -> u64 {
        self.print
    }
}

pub(super) fn speaker(client: usize, session: u8) -> Speaker {
    Speaker { client: client_id(client), session: Session::from_random(session.into()) }
}

fn client_id(client: usize) -> ClientId {
    ClientId::from_random([client as u8; 20])
}

/// The client and the mark that an owner of this model says.
pub(super) fn read(owner: &[u8]) -> Option<(usize, Mark)> {
    let place = Place::of(owner)?;
    let alone = owner.strip_suffix(b":s").unwrap_or(owner);
    let number = alone.last()?.checked_sub(b'0')?;
    let client = (0..=LONG_GONE).find(|client| client_id(*client) == place.client)?;
    let (attempt, life) = (number / LIVES, number % LIVES);
    Some((client, Mark { ticket: u8::try_from(place.ticket).ok()?, attempt, life }))
}

/// The number of an owner's request: one digit, so that it is quickly read.
pub(super) fn number(mark: Mark) -> u64 {
    u64::from(mark.attempt * LIVES + mark.life)
}

/// More lives than any attempt of this model has; two attempts have room in one digit.
pub(super) const LIVES: u8 = 3;

/// The client who had the lock before the search begins.
const LONG_GONE: usize = 9;

/// Long enough that no session ends by itself.
pub(super) const SESSION_MS: u64 = 3_600_000;

/// Where the nodes' clocks start: above every fence and ticket, and within the slack of the clamp,
/// so that tickets of a few units are taken as they are.
pub(super) const ORIGIN_MS: u64 = 1_000;
