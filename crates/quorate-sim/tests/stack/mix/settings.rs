//! What a seed of the mix decides at the start.

use std::time::Duration;

use quorate_core::membership::quarantine_ms;

use crate::dice::Dice;

/// The settings of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) nodes: usize,
    pub(super) programs: usize,
    pub(super) ttl: Duration,
    pub(super) max_ttl: Duration,
    pub(super) latency_max: Duration,
    pub(super) chaos_until: Duration,
    /// The longest pause between two faults of links and programs.
    pub(super) pause_max: Duration,
    pub(super) forgetting: Forgetting,
    /// A majority of the servers may forget. Then an operator must vouch for them at the end.
    pub(super) is_reckless: bool,
    /// The operator admits the new servers; otherwise they wait for the end of their quarantine.
    pub(super) is_admitted: bool,
    /// Clients count on servers that write everything to disk at once.
    pub(super) is_durable: bool,
    /// A program whose wall clock is wrong by an hour, and by how many milliseconds.
    pub(super) wild: Option<(usize, i64)>,
}

/// How servers forget.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Forgetting {
    /// They lose their data, or serve other data.
    Data,
    /// Their clocks step forward.
    Clocks,
    /// Both. Fences need not grow then: a server that lost them continues from its clock.
    Both,
    /// They restart one after the other, each when all vote.
    Rolling,
}

impl Settings {
    pub(super) fn draw(seed: u64) -> Self {
        let mut dice = Dice::new(seed, "mix");
        let max_ttl = dice.ms(400..=1_500);
        let shortest = u64::try_from(max_ttl.as_millis()).expect("short") / 2;
        let programs = 3;
        let forgetting = match dice.below(10) {
            0..=3 => Forgetting::Data,
            4..=5 => Forgetting::Clocks,
            6 => Forgetting::Both,
            _ => Forgetting::Rolling,
        };
        let is_wild = dice.chance(25);
        let wild = (dice.below(programs), if dice.chance(50) { HOUR_MS } else { -HOUR_MS });
        Self {
            nodes: if dice.chance(60) { 3 } else { 5 },
            programs,
            ttl: dice.ms(shortest..=2 * shortest),
            max_ttl,
            latency_max: dice.ms(TICK_MS..=30),
            chaos_until: dice.ms(15_000..=40_000),
            pause_max: dice.ms(300..=4_000),
            forgetting,
            is_reckless: dice.chance(25) && forgetting != Forgetting::Rolling,
            is_admitted: dice.chance(70),
            is_durable: dice.chance(15),
            // The quarantine depends on the clocks of clients if the clock of a server steps.
            wild: (is_wild && !forgetting.sets_clocks()).then_some(wild),
        }
    }

    /// For how long a server that may have forgotten locks does not vote.
    pub(super) fn quarantine(&self) -> Duration {
        let max_ttl_ms = u64::try_from(self.max_ttl.as_millis()).expect("short");
        Duration::from_millis(quarantine_ms(max_ttl_ms))
    }

    /// How far the wall clock of a program is ahead.
    pub(super) fn wall_ahead_ms(&self, seed: u64, program: usize) -> i64 {
        let mut dice = Dice::new(seed, &format!("wall clock {program}"));
        let off = i64::try_from(dice.below(WALL_SPREAD_MS + 1)).expect("small");
        let off = off - i64::try_from(WALL_SPREAD_MS / 2).expect("small");
        self.wild.filter(|(wild, _)| *wild == program).map_or(off, |(_, wild)| wild)
    }
}

impl Forgetting {
    pub(super) const fn sets_clocks(self) -> bool {
        matches!(self, Self::Clocks | Self::Both)
    }
}

/// How long a host runs before the next one does. It is long, since a run takes minutes.
pub(super) const TICK_MS: u64 = 5;

/// The largest difference of wall clocks of clients: less than the quarantine tolerates.
const WALL_SPREAD_MS: usize = 4_000;

const HOUR_MS: i64 = 3_600_000;
