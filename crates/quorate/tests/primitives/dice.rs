//! Choices that follow from a seed.

use quorate_core::backoff::Jitter;

pub(crate) struct Dice(Jitter);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(Jitter::new(seed))
    }

    /// Other choices for each name.
    pub(crate) fn of(seed: u64, name: &str) -> Self {
        let mixed =
            name.bytes().fold(seed, |mixed, byte| Jitter::new(mixed ^ u64::from(byte)).next());
        Self::new(mixed)
    }

    /// Less than `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).expect("a small number");
        usize::try_from(self.0.next() % limit).expect("a small number")
    }

    pub(crate) fn is_one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, all: &mut [T]) {
        for end in (1..all.len()).rev() {
            all.swap(end, self.below(end + 1));
        }
    }
}
