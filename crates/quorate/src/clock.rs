//! The one place that reads a clock.

use std::{
    sync::OnceLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use quorate_core::moment::{Moment, NodeTime};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// Where the time comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Clock {
    /// The system's clock that counts suspended time and cannot be stepped.
    Boot,
    /// The clock of the tokio runtime, which tests and simulations can pause and advance, counted
    /// from this instant.
    Runtime(Instant),
}

impl Clock {
    /// The clock of the tokio runtime, with an origin that all clients of this process share.
    pub(crate) fn of_runtime() -> Self {
        Self::Runtime(*ORIGIN.get_or_init(|| {
            Instant::now().checked_sub(RUNTIME_AGE_MAX).unwrap_or_else(Instant::now)
        }))
    }

    pub(crate) fn now(self) -> Moment {
        match self {
            Self::Boot => {
                let time = clock_gettime(BOOT);
                let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
                let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
                Moment::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
            }
            Self::Runtime(origin) => {
                Moment::ZERO.saturating_add(Instant::now().saturating_duration_since(origin))
            }
        }
    }
}

impl Clock {
    /// The wall clock, in milliseconds since the epoch; where time is simulated, the time itself.
    pub(crate) fn wall_ms(self) -> u64 {
        match self {
            Self::Boot => {
                let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)
            }
            Self::Runtime(_) => self.now().as_nanos() / 1_000_000,
        }
    }
}

/// A node that lives inside this process has this process's clock.
pub(crate) const fn node_time(moment: Moment) -> NodeTime {
    NodeTime::from_micros(moment.as_nanos() / 1_000)
}

/// A paused runtime that is older than the origin would see time stand still, so the origin lies
/// far back.
const RUNTIME_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// All clients on one paused runtime must agree about the origin.
static ORIGIN: OnceLock<Instant> = OnceLock::new();

#[cfg(any(target_os = "linux", target_os = "android"))]
const BOOT: ClockId = ClockId::Boottime;

/// Elsewhere the monotonic clock is the best there is; whether it counts suspended time depends on
/// the system.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const BOOT: ClockId = ClockId::Monotonic;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_counts_suspended_time() {
        // Nobody suspends a test machine; what can be shown is that it is the right clock.
        let before = clock_gettime(ClockId::Boottime);
        let now = Clock::Boot.now();
        let after = clock_gettime(ClockId::Boottime);
        let nanos = |t: rustix::time::Timespec| t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64;
        assert!(nanos(before) <= now.as_nanos() && now.as_nanos() <= nanos(after));
    }
}
