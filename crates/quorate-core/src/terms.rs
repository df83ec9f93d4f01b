//! The terms of a lease: ttl, vote timeout and drift allowance.
//!
//! The validity formula is defined only here. Every division rounds against the holder.

use std::{error, fmt, time::Duration};

use crate::moment::Moment;

/// The terms of one lock, independent of any clock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Terms {
    ttl_ms: u64,
    /// In nanoseconds, like the fixed part of the drift. Each lease and each call has terms.
    vote_timeout_ns: u64,
    drift_fixed_ns: u64,
    drift_ppm: u32,
}

impl Terms {
    /// Validates the terms. A ttl is rounded down to whole milliseconds, since that is the unit
    /// sent to the nodes.
    ///
    /// # Errors
    ///
    /// [`TermsError`] if the drift allowance leaves nothing of the ttl, or if the ttl is longer
    /// than [`TTL_MAX`].
    pub fn new(ttl: Duration, vote_timeout: Duration, drift: Drift) -> Result<Self, TermsError> {
        if ttl > TTL_MAX {
            return Err(TermsError::TooLong { ttl, max: TTL_MAX });
        }
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let (vote_timeout_ns, drift_fixed_ns) = (nanos(vote_timeout), nanos(drift.fixed));
        let terms = Self { ttl_ms, vote_timeout_ns, drift_fixed_ns, drift_ppm: drift.ppm };
        if terms.usable().is_zero() {
            return Err(TermsError::TooShort { ttl, allowance: drift.allowance(ttl) });
        }
        Ok(terms)
    }

    /// How long a node keeps the key, in milliseconds.
    #[must_use]
    pub const fn ttl_ms(&self) -> u64 {
        self.ttl_ms
    }

    /// How long a node keeps the key.
    #[must_use]
    pub const fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    /// How long to wait for a silent node.
    #[must_use]
    pub const fn vote_timeout(&self) -> Duration {
        Duration::from_nanos(self.vote_timeout_ns)
    }

    /// The same terms with another vote timeout. It does not affect safety.
    #[must_use]
    pub fn with_vote_timeout(mut self, vote_timeout: Duration) -> Self {
        self.vote_timeout_ns = nanos(vote_timeout);
        self
    }

    /// When a lease ends whose request was sent at `sent_at`, a moment *before* the first byte.
    #[must_use]
    pub fn valid_until(&self, sent_at: Moment) -> Moment {
        sent_at.saturating_add(self.usable())
    }

    /// When the request was sent for a lease that ends at `valid_until`.
    #[must_use]
    pub fn granted_at(&self, valid_until: Moment) -> Moment {
        let usable = Moment::ZERO.saturating_add(self.usable());
        Moment::ZERO.saturating_add(valid_until.saturating_since(usable))
    }

    /// When a silent node counts as unknown.
    #[must_use]
    pub fn give_up_at(&self, sent_at: Moment) -> Moment {
        sent_at.saturating_add(self.vote_timeout())
    }

    /// When the key has expired on every node, if it was last written before `written_by`.
    #[must_use]
    pub fn expired_everywhere_at(&self, written_by: Moment) -> Moment {
        written_by.saturating_add(self.ttl().saturating_add(self.allowance()))
    }

    fn usable(&self) -> Duration {
        self.ttl().saturating_sub(self.allowance())
    }

    fn allowance(&self) -> Duration {
        let fixed = Duration::from_nanos(self.drift_fixed_ns);
        Drift { ppm: self.drift_ppm, fixed }.allowance(self.ttl())
    }
}

/// At most 584 years. A longer allowance leaves nothing of any ttl.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How much two clocks may disagree about the length of a ttl.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Drift {
    /// The largest difference in rate between two clocks, in parts per million.
    pub ppm: u32,
    /// A fixed part, for example for the resolution of expiry on the nodes.
    pub fixed: Duration,
}

impl Drift {
    /// The allowance for a lease of `ttl`, rounded up.
    #[must_use]
    pub fn allowance(&self, ttl: Duration) -> Duration {
        // In `u128` the product cannot overflow. Saturating in `u64` would understate the drift,
        // which is unsafe.
        let product = ttl.as_nanos().saturating_mul(u128::from(self.ppm));
        let rate_ns = u64::try_from(product.div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let rate = Duration::from_nanos(rate_ns);
        mutate!(NoDriftRate => return self.fixed);
        mutate!(NoDriftFixed => return rate);
        rate.saturating_add(self.fixed)
    }
}

impl Default for Drift {
    /// One percent and two milliseconds: each clock may be off by half a percent.
    fn default() -> Self {
        Self { ppm: 10_000, fixed: Duration::from_millis(2) }
    }
}

/// The vote timeout for a ttl and a measured round trip.
///
/// A twentieth of the ttl, between [`VOTE_TIMEOUT_MIN`] and [`VOTE_TIMEOUT_MAX`]. At least three
/// round trips, so that a distant node does not count as silent. At most a quarter of the ttl, so
/// that an attempt with a silent node still leaves most of the lease.
#[must_use]
pub fn vote_timeout(ttl: Duration, round_trip: Duration) -> Duration {
    let twentieth = ttl.checked_div(20).unwrap_or(Duration::ZERO);
    let quarter = ttl.checked_div(4).unwrap_or(Duration::ZERO);
    twentieth
        .clamp(VOTE_TIMEOUT_MIN, VOTE_TIMEOUT_MAX)
        .max(round_trip.saturating_mul(3))
        .min(quarter)
}

/// Why terms are invalid.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use quorate_core::terms::{Drift, Terms, TermsError};
///
/// let short = Terms::new(Duration::from_millis(2), Duration::ZERO, Drift::default());
/// assert!(matches!(short, Err(TermsError::TooShort { .. })));
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TermsError {
    /// The drift allowance uses up the whole lease.
    TooShort {
        /// The requested ttl.
        ttl: Duration,
        /// The drift allowance.
        allowance: Duration,
    },
    /// The lease is too long to wait for after a holder crashes.
    TooLong {
        /// The requested ttl.
        ttl: Duration,
        /// The longest valid ttl.
        max: Duration,
    },
}

impl fmt::Display for TermsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { ttl, allowance } => write!(
                f,
                "invalid ttl {ttl:?}: use more than {allowance:?}, the allowance for clock drift"
            ),
            Self::TooLong { ttl, max } => {
                write!(f, "invalid ttl {ttl:?}: use at most {max:?}")
            }
        }
    }
}

impl error::Error for TermsError {}

/// The longest ttl: one year.
pub const TTL_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The shortest vote timeout, unless a quarter of the ttl is shorter.
pub const VOTE_TIMEOUT_MIN: Duration = Duration::from_millis(5);

/// The longest vote timeout that a twentieth of the ttl yields.
pub const VOTE_TIMEOUT_MAX: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn terms(ttl: Duration) -> Result<Terms, TermsError> {
        Terms::new(ttl, 5 * MS, Drift::default())
    }

    #[test]
    fn ttl_within_the_drift_allowance_is_invalid() {
        for ttl in [Duration::ZERO, Duration::from_nanos(999_999), MS, 2 * MS] {
            assert!(matches!(terms(ttl), Err(TermsError::TooShort { .. })), "{ttl:?}");
        }
        assert!(terms(3 * MS).is_ok(), "3 ms - 0.03 ms - 2 ms is 0.97 ms");
    }

    #[test]
    fn one_year_is_the_longest_ttl() {
        let year = terms(TTL_MAX).expect("one year is allowed");
        let allowance = Duration::from_secs(315_360) + 2 * MS;
        assert_eq!(year.valid_until(Moment::ZERO), at(TTL_MAX - allowance));
        for ttl in [TTL_MAX + Duration::from_nanos(1), Duration::MAX] {
            assert!(matches!(terms(ttl), Err(TermsError::TooLong { .. })), "{ttl:?}");
        }
    }

    #[test]
    fn validity_is_ttl_minus_one_percent_minus_two_milliseconds() {
        let ten = terms(Duration::from_secs(10)).expect("valid");
        assert_eq!(ten.valid_until(at(MS)), at(Duration::from_millis(9_899)));
        let end = Moment::from_nanos(u64::MAX);
        assert_eq!(ten.valid_until(end), end, "saturates at the end of time");
    }

    #[test]
    fn validity_counts_the_whole_milliseconds_that_are_sent() {
        let odd = terms(Duration::from_nanos(10_999_999)).expect("valid");
        assert_eq!(odd.ttl_ms(), 10);
        assert_eq!(odd.valid_until(Moment::ZERO), at(Duration::from_micros(7_900)));
    }

    #[test]
    fn drift_allowance_rounds_up() {
        let drift = Drift { ppm: 1, fixed: Duration::ZERO };
        assert_eq!(drift.allowance(Duration::from_nanos(1)), Duration::from_nanos(1));
        let all = Drift { ppm: u32::MAX, fixed: Duration::ZERO };
        assert_eq!(all.allowance(Duration::MAX), Duration::from_nanos(u64::MAX));
        assert!(matches!(
            Terms::new(TTL_MAX, MS, Drift { ppm: 1_000_000, fixed: Duration::ZERO }),
            Err(TermsError::TooShort { .. })
        ));
    }

    #[test]
    fn key_has_expired_everywhere_after_ttl_and_drift() {
        let ten = terms(Duration::from_secs(10)).expect("valid");
        assert_eq!(ten.expired_everywhere_at(Moment::ZERO), at(Duration::from_millis(10_102)));
    }

    #[test]
    fn vote_timeout_is_a_small_part_of_the_ttl() {
        let cases = [
            (10_000, 0, 50),
            (60_000, 0, 50),
            (200, 0, 10),
            (50, 0, 5),
            (10_000, 100, 300),
            (200, 100, 50),
            (8, 0, 2),
        ];
        for (ttl, round_trip, expected) in cases {
            let found = vote_timeout(Duration::from_millis(ttl), Duration::from_millis(round_trip));
            assert_eq!(found, Duration::from_millis(expected), "ttl {ttl}, rtt {round_trip}");
        }
    }

    fn at(since_origin: Duration) -> Moment {
        Moment::ZERO.saturating_add(since_origin)
    }
}
