//! How large a world is, what may go wrong in it, and what is expected to be found.

use std::time::Duration;

use quorate_core::{
    mutant::Mutant,
    terms::{Drift, Terms},
};

/// One world to be searched: its size, its clocks, and how often each thing may happen.
///
/// Time is not bounded: any number of ticks may pass between any two steps.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// A short name for tables.
    pub name: &'static str,
    /// What this row is about.
    pub what: &'static str,
    /// How many nodes there are.
    pub nodes: usize,
    /// How often each client may try to take the lock; one number for each client.
    pub attempts: Vec<u8>,
    /// How many renewals there may be in all.
    pub renewals: u8,
    /// How often a caller may go away while it waits for the lock.
    pub abandons: u8,
    /// How many clients may crash.
    pub crashes: u8,
    /// How many connections may break.
    pub breaks: u8,
    /// How many keys may vanish before their time: by eviction, a clock that jumps, or by hand.
    pub vanishings: u8,
    /// How often a node may forget everything.
    pub restarts: u8,
    /// Where the search begins.
    pub beginning: Beginning,
    /// True if the vote timeout may strike. It may do so at any moment, so that it needs no length.
    /// If it never does, every answer is waited for.
    pub gives_up: bool,
    /// True if holders may release. If not, what they hold ends by itself.
    pub releases: bool,
    /// How fast the clocks run, and what the terms of the lock are.
    pub clocks: Clocks,
    /// What the search must end with.
    pub expected: Expected,
    /// A deliberate bug of the core.
    pub mutant: Option<Mutant>,
    /// True if the row is too large for every test run.
    pub is_full: bool,
    /// The search stops after this many steps, and says that it is not exhaustive.
    pub steps_max: usize,
}

impl Settings {
    /// A quiet world: two clients with one attempt each, exact clocks, nothing goes wrong.
    #[must_use]
    pub fn new(name: &'static str, what: &'static str, nodes: usize) -> Self {
        Self {
            name,
            what,
            nodes,
            attempts: vec![1, 1],
            renewals: 0,
            abandons: 0,
            crashes: 0,
            breaks: 0,
            vanishings: 0,
            restarts: 0,
            beginning: Beginning::Idle,
            gives_up: true,
            releases: true,
            clocks: Clocks::exact(2),
            expected: Expected::Safe,
            mutant: None,
            is_full: false,
            steps_max: 200_000_000,
        }
    }

    /// True if nodes may forget keys before their time, which classic mode has no guard against.
    #[must_use]
    pub const fn forgets(&self) -> bool {
        self.vanishings > 0 || self.restarts > 0
    }
}

/// Where a search begins. A later beginning is a smaller world: what can happen before is left out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Beginning {
    /// Nobody has done anything.
    Idle,
    /// The first client holds the lock on as few nodes as it takes; the others have not run its
    /// request yet.
    Held,
    /// As before, and a tick later the first client has sent a renewal, which counts as one, and
    /// the second client has got all the other nodes.
    Renewing,
}

/// How a search must end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Expected {
    /// Every promise is kept in every state.
    Safe,
    /// This claim is broken: the world is worse than what is promised, or its rules are. A search
    /// that finds nothing here would not find anything elsewhere.
    Broken(&'static str),
}

/// The clocks of a world, and terms that fit them.
///
/// The ttl is one millisecond less than a number of ticks: a key lives through the millisecond at
/// which it ends, so that it is gone exactly at the next tick. With a ttl of whole ticks every key
/// would live one tick longer than its lease, and that slack would hide mistakes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Clocks {
    /// What the clients' clocks count in one tick, in milliseconds.
    pub client_ms: u64,
    /// What the nodes' clocks count in one tick, in milliseconds.
    pub node_ms: u64,
    /// How long a node keeps a key, in milliseconds.
    pub ttl_ms: u64,
    /// The allowance for drift, in parts per million. It is divisible by 32, as is every duration
    /// in nanoseconds: see `Print`.
    pub drift_ppm: u32,
}

impl Clocks {
    /// All clocks run alike, no drift is allowed for, and a lease lasts exactly `ticks`.
    #[must_use]
    pub const fn exact(ticks: u64) -> Self {
        let ttl_ms = ticks * 10 - 1;
        Self { client_ms: 10, node_ms: 10, ttl_ms, drift_ppm: 0 }
    }

    /// The nodes' clocks run half as fast again as the clients', and a third of the ttl is taken
    /// off for that: a key lives for two ticks, a lease for two ticks from before it was sent.
    #[must_use]
    pub const fn fast_nodes() -> Self {
        Self { client_ms: 20, node_ms: 30, ttl_ms: 59, drift_ppm: 333_344 }
    }

    pub(super) fn terms(&self) -> Terms {
        let drift = Drift { ppm: self.drift_ppm, fixed: Duration::ZERO };
        let ttl = Duration::from_millis(self.ttl_ms);
        // The timeout may be late, so that one of zero includes whatever a longer one allows.
        Terms::new(ttl, Duration::ZERO, drift).expect("the ttl is longer than the drift")
    }
}
