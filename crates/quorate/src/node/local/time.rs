//! The node's time, which neither goes back nor stands still, whatever is done to the wall clock.
//!
//! It is the time since the boot, suspended time included, plus a base that is chosen once per
//! boot: so that it begins no earlier than the wall clock, and no earlier than any time at which a
//! fence may have been given before. What was granted in the last boot is void, since whoever was
//! granted it is gone; and the fences go on.
//!
//! The database may lose its last transactions when the power fails. Therefore it promises, in a
//! transaction that is on the disk before it counts, that no time beyond a horizon was reached; and
//! the horizon is moved in time.

use std::path::Path;

use quorate_core::{
    fence::SLACK_US,
    moment::{Moment, NodeTime},
};

use super::fault::Fault;

/// Which boot of which machine this is, and by whose clock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Boot {
    pub(super) id: String,
    /// The namespace of the clock: in another one the time since the boot is another.
    pub(super) clock: String,
}

impl Boot {
    /// That of this process.
    pub(super) fn of_this_process() -> Result<Self, Fault> {
        let path = Path::new("/proc/sys/kernel/random/boot_id");
        let id = std::fs::read_to_string(path)
            .map_err(|error| Fault::io(path, "one boot cannot be told from another", error))?;
        // Kernels without it have one clock for all.
        let clock = std::fs::read_link("/proc/self/ns/time")
            .map(|link| link.display().to_string())
            .unwrap_or_default();
        Ok(Self { id: id.trim().to_owned(), clock })
    }
}

/// The time of one boot, as it is stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Era {
    pub(super) boot: Boot,
    /// What is added to the time since the boot.
    pub(super) base_us: i64,
    /// No time beyond it was reached.
    pub(super) horizon_us: u64,
}

impl Era {
    /// The first era of this boot, after what was there before.
    pub(super) fn begin(boot: &Boot, before: Option<&Self>, uptime: Moment, wall_ms: u64) -> Self {
        let horizon_us = before.map_or(0, |before| before.horizon_us);
        let now_us = wall_ms.saturating_mul(1_000).max(horizon_us);
        let base_us = signed(now_us).saturating_sub(signed(micros(uptime)));
        let mut era = Self { boot: boot.clone(), base_us, horizon_us: 0 };
        era.move_horizon(NodeTime::from_micros(now_us));
        era
    }

    /// The node's time so long after the boot.
    pub(super) fn time(&self, uptime: Moment) -> NodeTime {
        let time_us = signed(micros(uptime)).saturating_add(self.base_us);
        NodeTime::from_micros(u64::try_from(time_us).unwrap_or(0))
    }

    /// True if it is the same, wherever its horizon is.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.boot == other.boot && self.base_us == other.base_us
    }

    /// True if the horizon should be moved now.
    pub(super) const fn is_horizon_near(&self, now: NodeTime) -> bool {
        self.left_us(now) < AHEAD_US / 2
    }

    /// True if nothing can be granted before the horizon is moved. Fences run ahead of the time by
    /// the slack, at the most.
    pub(super) const fn is_horizon_reached(&self, now: NodeTime) -> bool {
        self.left_us(now) < SLACK_US
    }

    pub(super) const fn move_horizon(&mut self, now: NodeTime) {
        self.horizon_us = now.as_micros().saturating_add(AHEAD_US);
    }

    const fn left_us(&self, now: NodeTime) -> u64 {
        self.horizon_us.saturating_sub(now.as_micros())
    }
}

const fn micros(moment: Moment) -> u64 {
    moment.as_nanos() / 1_000
}

fn signed(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

/// How far the horizon is ahead when it is moved. After a power failure time may leap by so much.
const AHEAD_US: u64 = 60_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const WALL_MS: u64 = 1_800_000_000_000;

    fn boot(id: &str) -> Boot {
        Boot { id: id.into(), clock: "time:[1]".into() }
    }

    fn seconds(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn the_first_era_begins_at_the_wall_clock() {
        let era = Era::begin(&boot("a"), None, seconds(500), WALL_MS);
        assert_eq!(era.time(seconds(500)).as_millis(), WALL_MS);
        assert_eq!(era.time(seconds(501)).as_millis(), WALL_MS + 1_000);
    }

    #[test]
    fn the_next_one_begins_no_earlier_than_anything_before_it() {
        let first = Era::begin(&boot("a"), None, seconds(500), WALL_MS);
        for wall_ms in [0, WALL_MS - 1, WALL_MS, WALL_MS + 59_000] {
            let next = Era::begin(&boot("b"), Some(&first), seconds(3), wall_ms);
            assert_eq!(next.time(seconds(3)).as_micros(), first.horizon_us, "{wall_ms}");
        }
        let next = Era::begin(&boot("b"), Some(&first), seconds(3), WALL_MS + 90_000);
        assert_eq!(next.time(seconds(3)).as_millis(), WALL_MS + 90_000, "as a rule");
    }

    #[test]
    fn the_horizon_is_moved_long_before_a_fence_could_pass_it() {
        let mut era = Era::begin(&boot("a"), None, seconds(0), WALL_MS);
        let at = |second: u64| NodeTime::from_micros((WALL_MS + second * 1_000) * 1_000);
        assert!(!era.is_horizon_near(at(29)) && era.is_horizon_near(at(31)));
        assert!(!era.is_horizon_reached(at(49)) && era.is_horizon_reached(at(51)));
        assert!(era.is_horizon_reached(at(1_000_000)));
        era.move_horizon(at(1_000_000));
        assert!(!era.is_horizon_near(at(1_000_029)));
    }

    #[test]
    fn this_boot_has_a_name() {
        let boot = Boot::of_this_process().unwrap();
        assert_eq!(boot.id.len(), 36, "{boot:?}");
        assert_eq!(boot, Boot::of_this_process().unwrap());
    }
}
