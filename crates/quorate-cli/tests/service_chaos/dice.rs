//! Reproducible random choices.

use std::time::Duration;

/// The generator `SplitMix64`.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A second, independent generator.
    pub(crate) const fn split(&mut self) -> Self {
        Self(self.number())
    }

    pub(crate) const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// At least `low`, less than `high`.
    pub(crate) const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.number() % (high - low)
    }

    pub(crate) const fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    pub(crate) const fn is_one_in(&mut self, count: u64) -> bool {
        self.between(0, count) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let count = u64::try_from(of.len()).expect("a slice is not that long");
        let at = usize::try_from(self.between(0, count)).expect("it is an index");
        &of[at]
    }
}
