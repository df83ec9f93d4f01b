//! How large a world is, and what may go wrong in it.

use std::time::Duration;

use quorate_core::{
    mutant::Mutant,
    terms::{Drift, Terms},
};

use crate::model::settings::Expected;

/// One world to be searched.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A short name for tables.
    pub name: &'static str,
    /// What this row is about.
    pub what: &'static str,
    /// How many nodes there are.
    pub nodes: usize,
    /// How often each client wants the lock; one number for each client.
    pub attempts: Vec<u8>,
    /// Which clients share the lock; the others want it alone. Nobody dies where somebody does.
    pub sharing: Vec<usize>,
    /// Which tickets the attempts have.
    pub tickets: Tickets,
    /// The fences that a node may have stored in the beginning; zero is none.
    pub fences: Vec<u8>,
    /// How often the timer of each client may strike while it waits, for each attempt.
    pub beats: Vec<u8>,
    /// How often each holder may renew.
    pub renewals: u8,
    /// How many connections may break.
    pub breaks: u8,
    /// How many keys may vanish before their time.
    pub vanishings: u8,
    /// How often a caller may go away while it waits.
    pub cancels: u8,
    /// How many clients may die.
    pub deaths: u8,
    /// How many sessions may lapse although their clients live.
    pub lapses: u8,
    /// True if a push may overtake a reply, and be overtaken.
    pub is_unordered: bool,
    /// For how many ticks a lease lasts. Without a number time stands still.
    pub ticks: Option<u64>,
    /// True if it is looked at in every state whether somebody gets the lock from there.
    pub has_progress: bool,
    /// What the search must end with.
    pub expected: Expected,
    /// A deliberate bug of the core.
    pub mutant: Option<Mutant>,
    /// True if the row is too large for every test run.
    pub is_full: bool,
    /// The search stops after this many steps, and says that it is not exhaustive.
    pub steps_max: usize,
}

/// Which tickets attempts have.
#[derive(Clone, Debug)]
pub enum Tickets {
    /// Those of each client, in the order of its attempts.
    Fixed(Vec<Vec<u8>>),
    /// Any of these, but never one that the client had before or a smaller one.
    Any(Vec<u8>),
}

impl Settings {
    /// A quiet world without time: two clients with one attempt each, A before B.
    #[must_use]
    pub fn new(name: &'static str, what: &'static str, nodes: usize) -> Self {
        Self {
            name,
            what,
            nodes,
            attempts: vec![1, 1],
            sharing: Vec::new(),
            tickets: Tickets::Fixed(vec![vec![1], vec![2], vec![3]]),
            fences: vec![0],
            beats: vec![0, 0, 0],
            renewals: 0,
            breaks: 0,
            vanishings: 0,
            cancels: 0,
            deaths: 0,
            lapses: 0,
            is_unordered: false,
            ticks: None,
            has_progress: true,
            expected: Expected::Safe,
            mutant: None,
            is_full: false,
            steps_max: 400_000_000,
        }
    }

    /// The same with clocks that tick, and leases of so many ticks.
    #[must_use]
    pub fn timed(name: &'static str, what: &'static str, nodes: usize, ticks: u64) -> Self {
        Self { ticks: Some(ticks), has_progress: false, ..Self::new(name, what, nodes) }
    }

    pub(super) fn is_shared(&self, client: usize) -> bool {
        self.sharing.contains(&client)
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

    /// The ttl is one millisecond less than a number of ticks, so that a key is gone exactly at the
    /// tick at which its lease is over.
    pub(super) fn terms(&self) -> Terms {
        let ttl = Duration::from_millis(self.ticks.unwrap_or(2) * TICK_MS - 1);
        let drift = Drift { ppm: 0, fixed: Duration::ZERO };
        Terms::new(ttl, Duration::ZERO, drift).expect("no drift, so everything is left")
    }
}

/// What every clock counts in one tick.
pub(super) const TICK_MS: u64 = 10;
