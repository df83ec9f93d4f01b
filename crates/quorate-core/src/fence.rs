//! Fences: numbers that grow with every exclusive holder of a lock.

mod convert;
#[cfg(feature = "rusqlite")]
mod rusqlite;
#[cfg(feature = "serde")]
mod serde;
#[cfg(feature = "sqlx")]
mod sqlx;

use std::{fmt, ops::RangeInclusive};

/// A number that is larger than the fence of every earlier holder of the same lock.
///
/// A resource that rejects fences smaller than the largest it has seen is safe from a holder that
/// was paused and does not know that it lost the lock.
///
/// # Examples
///
/// ```
/// # use quorate_core::fence::Fence;
/// let (first, second) = (Fence::new(7), Fence::new(9));
/// assert!(first < second, "the second holder came later");
/// assert_eq!(second.to_string(), "9");
/// assert_eq!(i64::try_from(second)?, 9); // for a database
/// assert_eq!("9".parse(), Ok(second)); // from a request
/// # Ok::<(), std::num::TryFromIntError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Fence(u64);

impl Fence {
    /// Smaller than every fence that is ever granted.
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
    /// let received = "7"; // for example with a request
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

    /// The next larger fence.
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

/// The fence that a node stores for a grant: at least the ticket, and larger than the stored fence.
///
/// The ticket comes from a client, whose clock may be wrong. It is capped at the end of `allowed`,
/// so that no client can use up the numbers. If no fence is stored, the start of `allowed` is the
/// minimum, so that fences do not go back. `allowed` is the node's time at the client's last attach
/// or ping, plus and minus a slack.
#[must_use]
pub fn bump(ticket: u64, stored: Option<Fence>, allowed: RangeInclusive<u64>) -> Fence {
    let capped = ticket.min(*allowed.end());
    match stored {
        Some(stored) => Fence(capped).max(stored.next()),
        None => Fence(capped.max(*allowed.start())),
    }
}

/// The largest fence. Nodes count with 53 bits, so enough numbers remain above it. It is the time
/// in microseconds in the year 2112.
pub const FENCE_MAX: Fence = Fence(1 << 52);

/// How far a ticket may differ from the node's own time, in microseconds.
pub const SLACK_US: u64 = 10_000_000;

/// How long a node remembers a grant that is not extended.
pub const FENCE_LIFETIME_MS: u64 = 24 * 60 * 60 * 1_000;

/// An extension of a held lock renews its fence when no more than this remains.
pub const FENCE_RENEW_MS: u64 = FENCE_LIFETIME_MS / 2;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000_000;
    const ALLOWED: RangeInclusive<u64> = NOW - SLACK_US..=NOW + SLACK_US;

    #[test]
    fn fence_grows_with_every_grant() {
        assert_eq!(bump(NOW, Some(Fence(5)), ALLOWED), Fence(NOW));
        assert_eq!(bump(NOW, Some(Fence(NOW)), ALLOWED), Fence(NOW + 1));
        assert_eq!(bump(NOW - 9, Some(Fence(NOW)), ALLOWED), Fence(NOW + 1));
    }

    #[test]
    fn wrong_clock_moves_fences_by_at_most_the_slack() {
        assert_eq!(bump(u64::MAX, Some(Fence(5)), ALLOWED), Fence(NOW + SLACK_US));
        assert_eq!(bump(u64::MAX, None, ALLOWED), Fence(NOW + SLACK_US));
        assert_eq!(bump(0, None, ALLOWED), Fence(NOW - SLACK_US));
        assert_eq!(bump(0, Some(Fence(5)), ALLOWED), Fence(6), "the stored fence suffices");
    }
}
