//! The node's time, which never goes back or stops, even if the wall clock is set.
//!
//! It is the time since the boot, including suspended time, plus a base that is chosen once per
//! boot. So it begins no earlier than the wall clock, and no earlier than any time at which a fence
//! may have been granted before. Grants from an earlier boot are void, because their holders have
//! ended with it. Fences continue.
//!
//! The database may lose its last transactions in a power failure. Therefore it contains a horizon
//! that the time has not passed. A transaction that moves the horizon is on the disk before it
//! counts, and the horizon is moved before the time reaches it.

use std::path::Path;

use quorate_core::{
    fence::SLACK_US,
    moment::{Moment, NodeTime},
};

use super::fault::Fault;

/// Identifies a boot of a machine, and the clock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Boot {
    pub(super) id: String,
    /// The namespace of the clock. In another namespace the time since the boot is different.
    pub(super) clock: String,
}

impl Boot {
    /// The boot of this process.
    pub(super) fn of_this_process() -> Result<Self, Fault> {
        let path = Path::new("/proc/sys/kernel/random/boot_id");
        let id = std::fs::read_to_string(path)
            .map_err(|error| Fault::io(path, "the boot id cannot be read", error))?;
        // Kernels without time namespaces have one clock.
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
    /// The offset that is added to the time since the boot.
    pub(super) base_us: i64,
    /// The node's time has not passed it.
    pub(super) horizon_us: u64,
}

impl Era {
    /// The era of this boot. `before` is the era of an earlier boot, if any.
    pub(super) fn begin(boot: &Boot, before: Option<&Self>, uptime: Moment, wall_ms: u64) -> Self {
        let horizon_us = before.map_or(0, |before| before.horizon_us);
        let now_us = wall_ms.saturating_mul(1_000).max(horizon_us);
        let base_us = signed(now_us).saturating_sub(signed(micros(uptime)));
        let mut era = Self { boot: boot.clone(), base_us, horizon_us: 0 };
        era.move_horizon(NodeTime::from_micros(now_us));
        era
    }

    /// The node's time at this time after the boot.
    pub(super) fn time(&self, uptime: Moment) -> NodeTime {
        let time_us = signed(micros(uptime)).saturating_add(self.base_us);
        NodeTime::from_micros(u64::try_from(time_us).unwrap_or(0))
    }

    /// Whether it is the same era, even with another horizon.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.boot == other.boot && self.base_us == other.base_us
    }

    /// Whether the horizon should be moved now.
    pub(super) const fn is_horizon_near(&self, now: NodeTime) -> bool {
        self.left_us(now) < AHEAD_US / 2
    }

    /// Whether the horizon must be moved before anything is granted. Fences are ahead of the time
    /// by up to the slack.
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

/// How far ahead the horizon is moved. After a power failure the time may jump by this.
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
    fn first_era_begins_at_the_wall_clock() {
        let era = Era::begin(&boot("a"), None, seconds(500), WALL_MS);
        assert_eq!(era.time(seconds(500)).as_millis(), WALL_MS);
        assert_eq!(era.time(seconds(501)).as_millis(), WALL_MS + 1_000);
    }

    #[test]
    fn era_begins_no_earlier_than_the_horizon_before_it() {
        let first = Era::begin(&boot("a"), None, seconds(500), WALL_MS);
        for wall_ms in [0, WALL_MS - 1, WALL_MS, WALL_MS + 59_000] {
            let next = Era::begin(&boot("b"), Some(&first), seconds(3), wall_ms);
            assert_eq!(next.time(seconds(3)).as_micros(), first.horizon_us, "{wall_ms}");
        }
        let next = Era::begin(&boot("b"), Some(&first), seconds(3), WALL_MS + 90_000);
        assert_eq!(
            next.time(seconds(3)).as_millis(),
            WALL_MS + 90_000,
            "a later wall clock counts"
        );
    }

    #[test]
    fn horizon_is_moved_long_before_a_fence_could_pass_it() {
        let mut era = Era::begin(&boot("a"), None, seconds(0), WALL_MS);
        let at = |second: u64| NodeTime::from_micros((WALL_MS + second * 1_000) * 1_000);
        assert!(!era.is_horizon_near(at(29)) && era.is_horizon_near(at(31)));
        assert!(!era.is_horizon_reached(at(49)) && era.is_horizon_reached(at(51)));
        assert!(era.is_horizon_reached(at(1_000_000)));
        era.move_horizon(at(1_000_000));
        assert!(!era.is_horizon_near(at(1_000_029)));
    }

    #[test]
    fn present_boot_has_an_id() {
        let boot = Boot::of_this_process().unwrap();
        assert_eq!(boot.id.len(), 36, "{boot:?}");
        assert_eq!(boot, Boot::of_this_process().unwrap());
    }
}
