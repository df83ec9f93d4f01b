//! Delays between retries: full jitter, from randomness that the caller passes in.

use std::time::Duration;

/// Growing delays between retries, each drawn from zero to the current bound.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    bound: Duration,
}

impl Backoff {
    /// Delays of up to `first`, then up to twice that, and so on, but never above `max`.
    #[must_use]
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, bound: first }
    }

    /// The next delay.
    pub fn next(&mut self, jitter: &mut Jitter) -> Duration {
        let bound = self.bound.min(self.max);
        self.bound = bound.saturating_mul(2).min(self.max);
        jitter.up_to(bound)
    }

    /// Starts over with short delays, after a success.
    pub const fn reset(&mut self) {
        self.bound = self.first;
    }
}

/// A small generator of pseudo-random numbers (SplitMix64), for jitter only.
///
/// The caller seeds it, so that simulations are reproducible. Do not use it for secrets.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Jitter(u64);

impl Jitter {
    /// A generator seeded with `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A duration from zero to `bound`, inclusive.
    pub fn up_to(&mut self, bound: Duration) -> Duration {
        let span = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX).saturating_add(1);
        Duration::from_nanos(self.next().checked_rem(span).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn delays_grow_to_their_bound_until_reset() {
        let mut backoff = Backoff::new(10 * MS, 1_000 * MS);
        let mut jitter = Jitter::new(1);
        for bound in [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000] {
            assert_eq!(backoff.bound.min(backoff.max), bound * MS);
            assert!(backoff.next(&mut jitter) <= bound * MS);
        }
        backoff.reset();
        assert!(backoff.next(&mut jitter) <= 10 * MS);
    }

    #[test]
    fn jitter_is_uniform_and_reproducible() {
        let mut jitter = Jitter::new(7);
        let mut same = Jitter::new(7);
        let mut thirds = [0; 3];
        for _ in 0..3_000 {
            let drawn = jitter.up_to(Duration::from_nanos(2));
            assert_eq!(drawn, same.up_to(Duration::from_nanos(2)));
            thirds[usize::try_from(drawn.as_nanos()).unwrap()] += 1;
        }
        assert!(thirds.iter().all(|count| (800..1_200).contains(count)), "{thirds:?}");
        assert_eq!(jitter.up_to(Duration::ZERO), Duration::ZERO);
        assert!(jitter.up_to(Duration::MAX) <= Duration::from_nanos(u64::MAX));
    }
}
