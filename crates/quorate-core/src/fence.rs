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

/// No fence is larger: nodes count with 53 bits, and have more than enough left from here. It is
/// the time in microseconds in the year 2112.
pub const FENCE_MAX: Fence = Fence(1 << 52);

/// How far a ticket may lie from the node's own time at the most, in microseconds.
pub const SLACK_US: u64 = 10_000_000;

/// For how long a node remembers a grant that is not extended.
pub const FENCE_LIFE_MS: u64 = 24 * 60 * 60 * 1_000;

/// An extension of a held lock gives its fence another life where no more than this is left.
pub const FENCE_LEFT_MIN_MS: u64 = FENCE_LIFE_MS / 2;

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
}
