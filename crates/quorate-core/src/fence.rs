//! Fences: numbers that grow with every holder of a lock.

use std::{fmt, ops::RangeInclusive};

/// A number that is larger than that of every earlier holder of the same lock.
///
/// A resource that refuses smaller fences than the largest it has seen cannot be harmed by a holder
/// that was paused and does not know that its lock is lost.
///
/// # Examples
///
/// ```
/// # use quorate_core::fence::Fence;
/// let (first, second) = (Fence::new(7), Fence::new(9));
/// assert!(first < second, "the second holder came later");
/// assert_eq!(second.to_string(), "9");
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Fence(u64);

impl Fence {
    /// Below every fence that was ever given.
    ///
    /// # Examples
    ///
    /// ```
    /// # use quorate_core::fence::Fence;
    /// assert!(Fence::ZERO < Fence::new(1));
    /// ```
    pub const ZERO: Self = Self(0);

    /// The fence with this number.
    ///
    /// # Examples
    ///
    /// ```
    /// # use quorate_core::fence::Fence;
    /// let received = "7"; // with a request, for example
    /// assert_eq!(Fence::new(received.parse()?), Fence::new(7));
    /// # Ok::<(), std::num::ParseIntError>(())
    /// ```
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    ///
    /// # Examples
    ///
    /// ```
    /// # use quorate_core::fence::Fence;
    /// assert_eq!(Fence::new(7).get(), 7);
    /// ```
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The next larger one.
    ///
    /// # Examples
    ///
    /// ```
    /// # use quorate_core::fence::Fence;
    /// assert_eq!(Fence::new(7).next(), Fence::new(8));
    /// ```
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// What a node stores for a grant: at least the ticket, and more than what is stored there.
///
/// The ticket comes from a client, whose clock may be broken. It counts for no more than the end of
/// `fair`, so that nobody can use up the numbers; and where nothing is stored any more, for no less
/// than its start, so that fences do not go back. That is the node's time when the client last
/// spoke to it, more or less a slack.
#[must_use]
pub fn bump(ticket: u64, stored: Option<Fence>, fair: RangeInclusive<u64>) -> Fence {
    let capped = ticket.min(*fair.end());
    match stored {
        Some(stored) => Fence(capped).max(stored.next()),
        None => Fence(capped.max(*fair.start())),
    }
}

/// What is to be left of a fence's life if its lease is extended when `left_ms` are left; `None` if
/// that is as it should be.
///
/// A fence lives for a day from its grant, and what is left of that tells how long ago the grant
/// was. When half of it is over it is given another life and a half, no more and no less, so that
/// [`age_ms`] still can tell.
#[must_use]
pub const fn prolonged_ms(left_ms: u64) -> Option<u64> {
    let lives = lives(left_ms);
    if left_ms > lives.saturating_mul(FENCE_LIFE_MS).saturating_sub(FENCE_LIFE_MS / 2) {
        return None;
    }
    let half = FENCE_LIFE_MS / 2;
    Some(left_ms.saturating_add(if lives < FENCE_LIVES_MAX { half * 3 } else { half }))
}

/// How long ago a fence was stored of which `left_ms` are left. From a hundred days on it is at
/// least so long ago.
#[must_use]
pub const fn age_ms(left_ms: u64) -> u64 {
    let prolongations = lives(left_ms).saturating_sub(1);
    let given = prolongations.saturating_mul(FENCE_LIFE_MS / 2 * 3).saturating_add(FENCE_LIFE_MS);
    given.saturating_sub(left_ms)
}

/// How many lives the fence has left, the one that has begun counted in.
const fn lives(left_ms: u64) -> u64 {
    match left_ms.div_ceil(FENCE_LIFE_MS) {
        0 => 1,
        lives => lives,
    }
}

/// No fence is larger: nodes count with 53 bits, and have more than enough left from here. It is
/// the time in microseconds in the year 2112.
pub const FENCE_MAX: Fence = Fence(1 << 52);

/// How far a ticket may lie from the node's own time at the most, in microseconds.
pub const SLACK_US: u64 = 10_000_000;

/// For how long a node remembers the fence of a grant that is not extended.
pub const FENCE_LIFE_MS: u64 = 24 * 60 * 60 * 1_000;

/// The most lives that a fence has before it: of a lock that was held for a hundred days.
const FENCE_LIVES_MAX: u64 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000_000;
    const FAIR: RangeInclusive<u64> = NOW - SLACK_US..=NOW + SLACK_US;

    #[test]
    fn every_grant_has_a_larger_fence_than_the_one_before() {
        assert_eq!(bump(NOW, Some(Fence(5)), FAIR), Fence(NOW));
        assert_eq!(bump(NOW, Some(Fence(NOW)), FAIR), Fence(NOW + 1));
        assert_eq!(bump(NOW - 9, Some(Fence(NOW)), FAIR), Fence(NOW + 1));
    }

    #[test]
    fn a_broken_clock_moves_fences_by_no_more_than_the_slack() {
        assert_eq!(bump(u64::MAX, Some(Fence(5)), FAIR), Fence(NOW + SLACK_US));
        assert_eq!(bump(u64::MAX, None, FAIR), Fence(NOW + SLACK_US));
        assert_eq!(bump(0, None, FAIR), Fence(NOW - SLACK_US));
        assert_eq!(bump(0, Some(Fence(5)), FAIR), Fence(6), "what is stored is enough");
    }

    /// Extends every hour, and looks before and after.
    #[test]
    fn what_is_left_of_a_fence_tells_its_age() {
        const HOUR: u64 = FENCE_LIFE_MS / 24;
        let mut left = FENCE_LIFE_MS;
        let mut prolonged = 0;
        for hours in 1..=100 * 24 {
            left -= HOUR;
            assert_eq!(age_ms(left), hours * HOUR, "before an extension");
            if let Some(more) = prolonged_ms(left) {
                left = more;
                prolonged += 1;
            }
            assert!(left > FENCE_LIFE_MS / 2, "it is never close to its end");
            if hours < 100 * 24 {
                assert_eq!(age_ms(left), hours * HOUR, "after it");
            }
        }
        assert_eq!(prolonged, 200, "every half of a day");
        for _ in 0..1_000 {
            left -= HOUR;
            left = prolonged_ms(left).unwrap_or(left);
            assert!((99 * FENCE_LIFE_MS..=101 * FENCE_LIFE_MS).contains(&age_ms(left)));
        }
    }

    #[test]
    fn a_fence_is_prolonged_at_half_of_its_life_and_not_before() {
        const HALF: u64 = FENCE_LIFE_MS / 2;
        assert_eq!(prolonged_ms(FENCE_LIFE_MS), None);
        assert_eq!(prolonged_ms(HALF + 1), None);
        assert_eq!(prolonged_ms(HALF), Some(4 * HALF));
        assert_eq!(prolonged_ms(1), Some(3 * HALF + 1));
        assert_eq!(prolonged_ms(0), Some(3 * HALF), "its last millisecond");
        assert_eq!((age_ms(0), age_ms(3 * HALF)), (2 * HALF, 2 * HALF));
        assert_eq!(prolonged_ms(u64::MAX), None, "no number is too large");
    }
}
