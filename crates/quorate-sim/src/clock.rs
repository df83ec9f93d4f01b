//! True time, and clocks that run faster or slower.

use quorate_core::moment::{Moment, NodeTime};

/// Nanoseconds of true time since a simulation began. Only the simulator knows it.
pub type Nanos = u64;

pub(crate) const US: Nanos = 1_000;
pub(crate) const MS: Nanos = 1_000_000;
pub(crate) const SECOND: Nanos = 1_000_000_000;

/// The end of true time; no simulation reaches it.
pub(crate) const NEVER: Nanos = u64::MAX;

/// The rate of a clock: parts per million more or less than true time.
pub type Ppm = i32;

/// The clock of a client: it counts suspended time and cannot be stepped.
#[derive(Clone, Debug)]
pub(crate) struct ClientClock {
    origin: Nanos,
    rate: u64,
    /// True time that it did not count. Not zero only for a deliberate bug.
    missed: Nanos,
}

impl ClientClock {
    pub(crate) const fn new(origin: Nanos, ppm: Ppm) -> Self {
        Self { origin, rate: rate(ppm), missed: 0 }
    }

    pub(crate) const fn at(&self, now: Nanos) -> Moment {
        Moment::from_nanos(self.origin + scale(now.saturating_sub(self.missed), self.rate))
    }

    /// The first true time at which it shows `moment`, if it counts all time until then.
    pub(crate) const fn when(&self, moment: Moment) -> Nanos {
        let shown = moment.as_nanos().saturating_sub(self.origin);
        if shown > LONGEST {
            return NEVER;
        }
        (shown * MILLION).div_ceil(self.rate) + self.missed
    }

    pub(crate) const fn miss(&mut self, time: Nanos) {
        self.missed += time;
    }
}

/// The wall clock of a node, which may be stepped.
#[derive(Clone, Debug)]
pub(crate) struct NodeClock {
    /// What it shows at first, in microseconds.
    origin: u64,
    rate: u64,
}

impl NodeClock {
    pub(crate) const fn new(origin: u64, ppm: Ppm) -> Self {
        Self { origin, rate: rate(ppm) }
    }

    pub(crate) const fn at(&self, now: Nanos) -> NodeTime {
        NodeTime::from_micros(self.origin + scale(now, self.rate) / US)
    }

    pub(crate) const fn step(&mut self, micros: i64) {
        self.origin = self.origin.saturating_add_signed(micros);
    }
}

const fn rate(ppm: Ppm) -> u64 {
    MILLION.saturating_add_signed(ppm as i64)
}

/// The product stays below 2^64 for any time that a simulation can reach.
const fn scale(time: Nanos, rate: u64) -> u64 {
    time * rate / MILLION
}

const MILLION: u64 = 1_000_000;

/// Longer than any simulation, and short enough to be multiplied by a million.
const LONGEST: Nanos = 10_000 * SECOND;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moment_comes_exactly_when_the_clock_shows_it() {
        for ppm in [-200_000, -5_000, -1, 0, 1, 5_000, 200_000] {
            let mut clock = ClientClock::new(77, ppm);
            clock.miss(10);
            for now in [1_000, 12_345_678, 9_876_543_210_u64] {
                let moment = clock.at(now);
                let when = clock.when(moment);
                assert!(clock.at(when) >= moment && when <= now, "{ppm} {now}");
                assert!(clock.at(when - 1) < moment, "{ppm} {now}: not earlier");
            }
        }
        assert_eq!(ClientClock::new(0, 0).when(Moment::from_nanos(u64::MAX)), NEVER);
    }

    #[test]
    fn fast_clock_gains_and_a_step_jumps() {
        let mut clock = NodeClock::new(1_000_000, 5_000);
        assert_eq!(clock.at(SECOND), NodeTime::from_micros(2_005_000));
        clock.step(-1_000_000);
        assert_eq!(clock.at(SECOND), NodeTime::from_micros(1_005_000));
    }
}
