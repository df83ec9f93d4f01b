//! The random numbers of a simulation: all of them follow from the seed.

use quorate_core::backoff::Jitter;

/// A stream of random numbers.
///
/// Every client, link and list of faults has its own stream, so that leaving one of them out does
/// not change what the others do. A violation can only be made small because of that.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Jitter);

impl Dice {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut mixer = Jitter::new(seed ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self(Jitter::new(mixer.next() ^ stream))
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// A number below `bound`, or zero.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0.next() % bound }
    }

    /// A number from `low` to `high`, both included.
    pub(crate) const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// One of `all`, which must not be empty.
    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// An index below `bound`, which must not be zero.
    pub(crate) fn index(&mut self, bound: usize) -> usize {
        self.below(bound as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let draw = |seed, stream| Dice::new(seed, stream).next();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut dice = Dice::new(1, 1);
        let mut seen = [0; 4];
        for _ in 0..4_000 {
            seen[dice.between(2, 5) as usize - 2] += 1;
        }
        assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
        assert_eq!(dice.below(0), 0);
    }
}
