//! The only module that reads a clock.

use std::{
    sync::OnceLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use quorate_core::moment::{Moment, NodeTime};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// A source of time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Clock {
    /// The system's clock that counts suspended time and cannot be set.
    Boot,
    /// The clock of the tokio runtime, which tests and simulations can pause and advance.
    Runtime {
        /// The zero of the moments.
        origin: Instant,
        /// How far the wall clock is ahead of it. Only simulations set it.
        wall_ahead_ms: i64,
    },
}

impl Clock {
    /// The clock of the tokio runtime, with an origin that all clients of this process share.
    pub(crate) fn of_runtime() -> Self {
        let origin = *ORIGIN.get_or_init(|| {
            Instant::now().checked_sub(RUNTIME_AGE_MAX).unwrap_or_else(Instant::now)
        });
        Self::Runtime { origin, wall_ahead_ms: 0 }
    }

    pub(crate) fn now(self) -> Moment {
        match self {
            Self::Boot => {
                let time = clock_gettime(BOOT);
                let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
                let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
                Moment::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
            }
            Self::Runtime { origin, .. } => {
                let passed = Instant::now().saturating_duration_since(origin);
                #[cfg(test)]
                let passed = passed + altered::suspended();
                Moment::ZERO.saturating_add(passed)
            }
        }
    }
}

impl Clock {
    /// The wall clock, in milliseconds since the epoch. If time is simulated, it is the simulated
    /// time plus the offset of the simulation.
    pub(crate) fn wall_ms(self) -> u64 {
        match self {
            Self::Boot => {
                let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)
            }
            Self::Runtime { wall_ahead_ms, .. } => {
                let wall_ms = self.now().as_nanos() / 1_000_000;
                #[cfg(test)]
                let wall_ms = wall_ms.saturating_add_signed(altered::stepped_ms());
                wall_ms.saturating_add_signed(wall_ahead_ms)
            }
        }
    }
}

/// A node in this process uses this process's clock.
pub(crate) const fn node_time(moment: Moment) -> NodeTime {
    NodeTime::from_micros(moment.as_nanos() / 1_000)
}

/// A paused runtime that is older than the origin would see time stand still, so the origin is far
/// in the past.
const RUNTIME_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// All clients on one paused runtime must have the same origin.
static ORIGIN: OnceLock<Instant> = OnceLock::new();

#[cfg(any(target_os = "linux", target_os = "android"))]
const BOOT: ClockId = ClockId::Boottime;

/// Other systems use the monotonic clock. Whether it counts suspended time depends on the system.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const BOOT: ClockId = ClockId::Monotonic;

/// Changes to the runtime's clock for the tests of one thread.
#[cfg(test)]
pub(crate) mod altered {
    use std::{cell::Cell, time::Duration};

    thread_local! {
        static SUSPENDED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
        static STEPPED_MS: Cell<i64> = const { Cell::new(0) };
    }

    /// Suspends the machine: both clocks continue, but the timers of the runtime stop.
    pub(crate) fn suspend(time: Duration) {
        SUSPENDED.set(SUSPENDED.get() + time);
    }

    /// Steps the wall clock.
    pub(crate) fn step_wall(ms: i64) {
        STEPPED_MS.set(STEPPED_MS.get() + ms);
    }

    pub(super) fn suspended() -> Duration {
        SUSPENDED.get()
    }

    pub(super) fn stepped_ms() -> i64 {
        STEPPED_MS.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_clock_counts_suspended_time() {
        // The test cannot suspend the machine, but it can show that the right clock is used.
        let before = clock_gettime(ClockId::Boottime);
        let now = Clock::Boot.now();
        let after = clock_gettime(ClockId::Boottime);
        let nanos = |t: rustix::time::Timespec| t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64;
        assert!(nanos(before) <= now.as_nanos() && now.as_nanos() <= nanos(after));
    }
}
