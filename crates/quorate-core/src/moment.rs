//! Points in time as plain numbers, with arithmetic that cannot overflow.
//!
//! The clocks of clients and nodes are independent. Two types keep them apart, and nothing converts
//! one into the other.

use std::{fmt, num::NonZeroU64, time::Duration};

/// A point on the client's own clock: nanoseconds since an arbitrary origin.
///
/// The underlying clock includes suspended time and is never stepped.
///
/// Contains one more than the nanoseconds, so that an `Option` of it needs no more room. The last
/// nanosecond of a `u64` is therefore the one before it, which makes no difference: 584 years.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Moment(NonZeroU64);

impl Moment {
    /// The origin of the clock.
    pub const ZERO: Self = Self(NonZeroU64::MIN);

    /// The moment `nanos` nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0.get().saturating_sub(1)
    }

    /// Adds a duration, saturating at the end of time.
    #[must_use]
    pub fn saturating_add(self, by: Duration) -> Self {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// The time since `earlier`, or zero if that lies in the future.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Moment").field(&self.as_nanos()).finish()
    }
}

/// A point on one node's wall clock: microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NodeTime(u64);

impl NodeTime {
    /// The time `micros` microseconds after the epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The current millisecond: servers count expiry in whole milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moment_arithmetic_saturates() {
        let last = Moment::from_nanos(u64::MAX);
        assert_eq!(last.saturating_add(Duration::from_nanos(1)), last);
        assert_eq!(Moment::ZERO.saturating_add(Duration::MAX), last);
        assert_eq!(Moment::ZERO.saturating_since(last), Duration::ZERO);
        assert_eq!(last.saturating_since(Moment::ZERO), Duration::from_nanos(u64::MAX - 1));
    }

    #[test]
    fn moment_is_its_nanoseconds_and_optional_for_free() {
        for nanos in [0, 1, 77, u64::MAX - 1] {
            assert_eq!(Moment::from_nanos(nanos).as_nanos(), nanos);
        }
        assert_eq!(Moment::from_nanos(u64::MAX), Moment::from_nanos(u64::MAX - 1));
        assert_eq!(Moment::ZERO.as_nanos(), 0);
        assert_eq!(size_of::<Option<Moment>>(), size_of::<u64>());
        assert_eq!(format!("{:?}", Moment::from_nanos(7)), "Moment(7)");
    }

    #[test]
    fn node_time_rounds_down_to_milliseconds() {
        assert_eq!(NodeTime::from_micros(1_999).as_millis(), 1);
        assert_eq!(NodeTime::from_micros(2_000).as_millis(), 2);
    }
}
