//! The terms of a lease: ttl, vote timeout and drift allowance, and what follows from them.
//!
//! The validity formula stands here and nowhere else. Every division rounds against the holder.

use std::{error, fmt, time::Duration};

use crate::moment::Moment;

/// What was agreed for one lock before any clock is looked at.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Terms {
    ttl_ms: u64,
    vote_timeout: Duration,
    drift: Drift,
}

impl Terms {
    /// Checks and fixes the terms. A ttl is kept in whole milliseconds, rounded down, since that is
    /// what is sent to the nodes.
    ///
    /// # Errors
    ///
    /// [`TermsError`] if nothing of the ttl would be left after the drift allowance, or if the ttl
    /// is longer than [`TTL_MAX`].
    pub fn new(ttl: Duration, vote_timeout: Duration, drift: Drift) -> Result<Self, TermsError> {
        if ttl > TTL_MAX {
            return Err(TermsError::TooLong { ttl, max: TTL_MAX });
        }
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let terms = Self { ttl_ms, vote_timeout, drift };
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

    /// How long a silent node is waited for.
    #[must_use]
    pub const fn vote_timeout(&self) -> Duration {
        self.vote_timeout
    }

    /// The same terms with another vote timeout, which says nothing about safety.
    #[must_use]
    pub const fn with_vote_timeout(mut self, vote_timeout: Duration) -> Self {
        self.vote_timeout = vote_timeout;
        self
    }

    /// When the right ends that was asked for at `sent_at`, which must lie *before* the first byte.
    #[must_use]
    pub fn valid_until(&self, sent_at: Moment) -> Moment {
        sent_at.saturating_add(self.usable())
    }

    /// When the right was asked for that ends at `valid_until`.
    #[must_use]
    pub fn granted_at(&self, valid_until: Moment) -> Moment {
        let usable = Moment::ZERO.saturating_add(self.usable());
        Moment::ZERO.saturating_add(valid_until.saturating_since(usable))
    }

    /// When a silent node counts as unknown.
    #[must_use]
    pub fn give_up_at(&self, sent_at: Moment) -> Moment {
        sent_at.saturating_add(self.vote_timeout)
    }

    /// When no node can carry the key any more, if it was last written before `written_by`.
    #[must_use]
    pub fn forgotten_at(&self, written_by: Moment) -> Moment {
        let ttl = self.ttl();
        written_by.saturating_add(ttl.saturating_add(self.drift.allowance(ttl)))
    }

    fn usable(&self) -> Duration {
        self.ttl().saturating_sub(self.drift.allowance(self.ttl()))
    }
}

/// How far two clocks may disagree about the length of a ttl.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Drift {
    /// The worst difference of rate between two clocks, in parts per million.
    pub ppm: u32,
    /// A fixed part: the resolution of expiry on the nodes and the like.
    pub fixed: Duration,
}

impl Drift {
    /// The allowance for a lease of `ttl`, rounded up.
    #[must_use]
    pub fn allowance(&self, ttl: Duration) -> Duration {
        // In `u128` the product cannot overflow. Saturating in `u64` would understate the drift,
        // which is the unsafe direction.
        let product = ttl.as_nanos().saturating_mul(u128::from(self.ppm));
        let rate_ns = u64::try_from(product.div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let rate = Duration::from_nanos(rate_ns);
        mutate!(NoDriftRate => return self.fixed);
        mutate!(NoDriftFixed => return rate);
        rate.saturating_add(self.fixed)
    }
}

impl Default for Drift {
    /// One per cent and two milliseconds: both clocks may be off by half a per cent.
    fn default() -> Self {
        Self { ppm: 10_000, fixed: Duration::from_millis(2) }
    }
}

/// The vote timeout that fits a ttl and a measured round trip.
///
/// A twentieth of the ttl, between [`VOTE_TIMEOUT_MIN`] and [`VOTE_TIMEOUT_MAX`]; at least three
/// round trips, so that a far node is not called silent; at most a quarter of the ttl, so that an
/// attempt in which a node is silent still leaves most of the lease.
#[must_use]
pub fn vote_timeout(ttl: Duration, round_trip: Duration) -> Duration {
    let twentieth = ttl.checked_div(20).unwrap_or(Duration::ZERO);
    let quarter = ttl.checked_div(4).unwrap_or(Duration::ZERO);
    twentieth
        .clamp(VOTE_TIMEOUT_MIN, VOTE_TIMEOUT_MAX)
        .max(round_trip.saturating_mul(3))
        .min(quarter)
}

/// Why terms were refused.
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
    /// The drift allowance eats the whole lease.
    TooShort {
        /// What was asked for.
        ttl: Duration,
        /// What the clocks may be off by.
        allowance: Duration,
    },
    /// The lease is longer than anyone should have to wait for a crashed holder.
    TooLong {
        /// What was asked for.
        ttl: Duration,
        /// The most that is accepted.
        max: Duration,
    },
}

impl fmt::Display for TermsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { ttl, allowance } => write!(
                f,
                "a ttl of {ttl:?} leaves no time to work: {allowance:?} are for clock drift"
            ),
            Self::TooLong { ttl, max } => {
                write!(f, "a ttl of {ttl:?} is longer than the limit of {max:?}")
            }
        }
    }
}

impl error::Error for TermsError {}

/// The longest ttl there can be: one year.
pub const TTL_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The least time a node is given for its vote, whatever the ttl.
pub const VOTE_TIMEOUT_MIN: Duration = Duration::from_millis(5);

/// The most that a twentieth of the ttl gives a node for its vote.
pub const VOTE_TIMEOUT_MAX: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn terms(ttl: Duration) -> Result<Terms, TermsError> {
        Terms::new(ttl, 5 * MS, Drift::default())
    }

    #[test]
    fn a_ttl_that_drift_would_eat_is_refused() {
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
    fn validity_is_ttl_minus_one_per_cent_minus_two_milliseconds() {
        let ten = terms(Duration::from_secs(10)).expect("valid");
        assert_eq!(ten.valid_until(at(MS)), at(Duration::from_millis(9_899)));
        let end = Moment::from_nanos(u64::MAX);
        assert_eq!(ten.valid_until(end), end, "the end of time does not wrap around");
    }

    #[test]
    fn what_is_promised_is_counted_from_the_whole_milliseconds_that_are_sent() {
        let odd = terms(Duration::from_nanos(10_999_999)).expect("valid");
        assert_eq!(odd.ttl_ms(), 10);
        assert_eq!(odd.valid_until(Moment::ZERO), at(Duration::from_micros(7_900)));
    }

    #[test]
    fn drift_rounds_up_and_never_understates() {
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
    fn a_key_is_forgotten_only_after_ttl_and_drift() {
        let ten = terms(Duration::from_secs(10)).expect("valid");
        assert_eq!(ten.forgotten_at(Moment::ZERO), at(Duration::from_millis(10_102)));
    }

    #[test]
    fn the_vote_timeout_is_small_against_the_ttl() {
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
