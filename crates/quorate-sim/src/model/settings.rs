//! How large a row is, what may go wrong in it, and what the search must find.

use std::time::Duration;

use quorate_core::{
    client::owners::OwnerKind,
    mutant::Mutant,
    terms::{Drift, Terms},
};

use super::node::IDENTITY;

/// One row: its size, its clocks, and how often each kind of event may happen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// A short name for tables.
    pub name: &'static str,
    /// A description for tables.
    pub what: &'static str,
    /// How clients ask for the lock.
    pub dialect: Dialect,
    /// How many nodes there are.
    pub nodes: usize,
    /// How often each client asks for the lock; one number for each client.
    pub attempts: Vec<u8>,
    /// Which clients are readers; the others are writers. No client crashes where some are readers.
    pub sharing: Vec<usize>,
    /// Which clients acquire the lock as entries of one identity.
    pub entries: Vec<usize>,
    /// Which exclusive holders may become readers.
    pub downgrades: Vec<usize>,
    /// Which tickets the attempts have.
    pub tickets: Tickets,
    /// The fences that a node may have stored at first; zero is none.
    pub fences: Vec<u8>,
    /// How often the timer of each client may fire during one attempt.
    pub timeouts: Vec<u8>,
    /// How often each holder may renew.
    pub renewals: u8,
    /// How many renewals there may be in all.
    pub renewals_in_all: u8,
    /// How many connections may break.
    pub breaks: u8,
    /// How many keys may vanish too early: by eviction, a clock that jumps, or an operator.
    pub vanishings: u8,
    /// How often a node may forget everything.
    pub restarts: u8,
    /// How many callers may cancel while they wait.
    pub cancels: u8,
    /// How many clients may crash.
    pub deaths: u8,
    /// How many sessions may expire although their clients run.
    pub lapses: u8,
    /// True if a push may overtake a reply, and be overtaken.
    pub is_unordered: bool,
    /// How fast the clocks run, and how long a lease lasts. Without clocks, time stands still.
    pub clocks: Option<Clocks>,
    /// Where the search begins.
    pub beginning: Beginning,
    /// True if holders may release. Otherwise their leases expire.
    pub releases: bool,
    /// True if every state is checked for a way to a holder.
    pub has_progress: bool,
    /// What the search must end with.
    pub expected: Expected,
    /// A deliberate bug of the core.
    pub mutant: Option<Mutant>,
    /// True if the row is too large for every test run.
    pub is_full: bool,
    /// The search stops after this many steps, and reports that it is not exhaustive.
    pub steps_max: usize,
}

/// How clients ask for the lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Dialect {
    /// They try once, without a queue, fences or sessions.
    Classic,
    /// They wait in the queue.
    Queue,
}

/// Which tickets attempts have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Tickets {
    /// Those of each client, in the order of its attempts.
    Fixed(Vec<Vec<u8>>),
    /// Any of these, in increasing order for each client.
    Any(Vec<u8>),
}

impl Settings {
    /// A row in classic mode without faults: two clients with one attempt each, and exact clocks. A
    /// timer may fire whenever it is due.
    #[must_use]
    pub fn classic(name: &'static str, what: &'static str, nodes: usize) -> Self {
        Self {
            dialect: Dialect::Classic,
            tickets: Tickets::Fixed(vec![vec![0, 0]; 3]),
            timeouts: vec![ANY_NUMBER; 3],
            clocks: Some(Clocks::exact(2)),
            has_progress: false,
            ..Self::queue(name, what, nodes)
        }
    }

    /// A row without time or faults: two clients with one attempt each, A before B.
    #[must_use]
    pub fn queue(name: &'static str, what: &'static str, nodes: usize) -> Self {
        Self {
            name,
            what,
            dialect: Dialect::Queue,
            nodes,
            attempts: vec![1, 1],
            sharing: Vec::new(),
            entries: Vec::new(),
            downgrades: Vec::new(),
            tickets: Tickets::Fixed(vec![vec![1], vec![2], vec![3]]),
            fences: vec![0],
            timeouts: vec![0, 0, 0],
            renewals: 0,
            renewals_in_all: ANY_NUMBER,
            breaks: 0,
            vanishings: 0,
            restarts: 0,
            cancels: 0,
            deaths: 0,
            lapses: 0,
            is_unordered: false,
            clocks: None,
            beginning: Beginning::Idle,
            releases: true,
            has_progress: true,
            expected: Expected::Safe,
            mutant: None,
            is_full: false,
            steps_max: 400_000_000,
        }
    }

    /// The same with clocks that tick, and leases of two ticks.
    #[must_use]
    pub fn timed(name: &'static str, what: &'static str, nodes: usize) -> Self {
        let clocks = Some(Clocks::exact(2));
        Self { clocks, has_progress: false, ..Self::queue(name, what, nodes) }
    }

    pub(super) fn is_classic(&self) -> bool {
        self.dialect == Dialect::Classic
    }

    pub(super) fn is_shared(&self, client: usize) -> bool {
        self.sharing.contains(&client)
    }

    pub(super) fn is_entry(&self, client: usize) -> bool {
        self.entries.contains(&client)
    }

    pub(super) fn kind(&self, client: usize) -> OwnerKind {
        let identity = self.is_entry(client).then(|| IDENTITY.into());
        OwnerKind { is_shared: self.is_shared(client), identity, ..OwnerKind::default() }
    }

    /// The tickets that attempt number `attempt` of a client may have, if its last one was `last`.
    pub(super) fn tickets_of(&self, client: usize, attempt: u8, last: u8) -> Vec<u8> {
        match &self.tickets {
            Tickets::Fixed(tickets) => vec![tickets[client][usize::from(attempt) - 1]],
            Tickets::Any(tickets) => {
                tickets.iter().copied().filter(|ticket| *ticket > last).collect()
            }
        }
    }

    pub(super) fn terms(&self) -> Terms {
        let Clocks { ttl_ms, drift_ppm, .. } = self.clocks.unwrap_or(Clocks::exact(2));
        let drift = Drift { ppm: drift_ppm, fixed: Duration::ZERO };
        // A timeout may fire late, so a timeout of zero includes every longer one.
        Terms::new(Duration::from_millis(ttl_ms), Duration::ZERO, drift).expect("a long ttl")
    }
}

/// What may happen any number of times.
pub const ANY_NUMBER: u8 = u8::MAX;

/// Where a search begins. A later beginning makes the search smaller, because it leaves out
/// everything that can happen before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Beginning {
    /// No client has asked for the lock.
    Idle,
    /// The first client holds the lock on the smallest majority; the other nodes have not run its
    /// request yet.
    Held,
    /// The first client holds the lock on every node, and the second one waits on every node.
    Queued,
    /// As `Held`, and a tick later the first client has sent a renewal, which counts as one, and
    /// the second client has the key of all other nodes.
    Renewing,
}

/// How a search must end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Expected {
    /// Every promise is kept in every state.
    Safe,
    /// This claim is broken: the row goes beyond the bounds of the promises, or has a deliberate
    /// bug. A search that finds nothing here would not find anything elsewhere.
    Broken(&'static str),
}

/// The clocks of a row, and terms that fit them.
///
/// The ttl is one millisecond less than a number of ticks. A key exists through its last
/// millisecond, so it is gone exactly at the next tick. With a ttl of whole ticks every key would
/// outlast its lease by one tick, and that slack would hide mistakes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Clocks {
    /// By how much the clients' clocks advance in one tick, in milliseconds.
    pub client_ms: u64,
    /// By how much the nodes' clocks advance in one tick, in milliseconds.
    pub node_ms: u64,
    /// How long a node keeps a key, in milliseconds.
    pub ttl_ms: u64,
    /// The allowance for drift, in parts per million. It is divisible by 32, as is every duration
    /// in nanoseconds: see `Print`.
    pub drift_ppm: u32,
}

impl Clocks {
    /// All clocks run at the same rate, there is no allowance for drift, and a lease lasts exactly
    /// `ticks`.
    #[must_use]
    pub const fn exact(ticks: u64) -> Self {
        let ttl_ms = ticks * 10 - 1;
        Self { client_ms: 10, node_ms: 10, ttl_ms, drift_ppm: 0 }
    }

    /// The nodes' clocks run 1.5 times as fast as the clients', and a third of the ttl is taken off
    /// for that: a key lasts for two ticks, and a lease for two ticks from before it was sent.
    #[must_use]
    pub const fn fast_nodes() -> Self {
        Self { client_ms: 20, node_ms: 30, ttl_ms: 59, drift_ppm: 333_344 }
    }
}
