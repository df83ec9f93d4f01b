//! What makes two states the same: their print, which knows neither the time nor node numbers.
//!
//! Two reductions happen here, and nowhere else. The states themselves are never changed, so that
//! the machines of the core stay as they are and a path keeps its node numbers from end to end.
//!
//! *Time.* The core adds durations to points in time and compares them, and does nothing else with
//! them. A world in which everything is a tick later goes on in the same way, so a point in time is
//! printed as its distance from now. What lies further back than any duration of the terms has no
//! influence any more, and prints as one value. That is why time need not be bounded.
//!
//! *Nodes.* They are alike, start alike, and no promise names one. A world with its nodes
//! renumbered goes on in the same way. Everything about one node goes into its column, and the
//! columns are sorted. The machines keep node sets as bits of an `u32`, so an `u32` is taken apart:
//! bit `i` goes into column `i`, and what is above goes to the rest. The other numbers of that
//! width in machines are parts of the terms. These are the same in all states of a world, so that
//! taking them apart merges nothing, and zero in the low bits, so that it keeps nothing apart.
//!
//! The derived `Hash` of a type feeds every field, private ones too. A field that the core adds
//! later is a part of the print without anyone remembering it.

use std::hash::{Hash, Hasher};

/// The parts of a state, as numbers.
#[derive(Debug)]
pub(super) struct Print {
    rest: Vec<u64>,
    columns: Vec<Vec<u64>>,
}

impl Print {
    pub(super) fn new(nodes: usize) -> Self {
        Self { rest: Vec::with_capacity(96), columns: vec![Vec::with_capacity(48); nodes] }
    }

    /// Takes in what belongs to no single node, but may speak of all of them.
    pub(super) fn add<T: Hash>(&mut self, clock: Reading, part: &T) {
        part.hash(&mut Pen { words: &mut self.rest, columns: &mut self.columns, clock });
    }

    /// Takes in what belongs to one node.
    pub(super) fn add_of_node<T: Hash>(&mut self, node: usize, clock: Reading, part: &T) {
        part.hash(&mut Pen { words: &mut self.columns[node], columns: &mut [], clock });
    }

    /// Hands it over, whatever the order of the nodes was.
    pub(super) fn finish<H: Hasher>(mut self, state: &mut H) {
        self.columns.sort_unstable();
        self.rest.hash(state);
        self.columns.hash(state);
    }
}

/// How points in time are told from other numbers, and what time it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// No number that is not a point in time is as large as this.
    pub(super) origin: u64,
    pub(super) now: u64,
    /// What lies further back does not matter.
    pub(super) memory: u64,
}

struct Pen<'a> {
    words: &'a mut Vec<u64>,
    columns: &'a mut [Vec<u64>],
    clock: Reading,
}

impl Hasher for Pen<'_> {
    fn finish(&self) -> u64 {
        unreachable!("a print is read as a whole")
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.words.push(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.words.push(number.into());
    }

    fn write_u32(&mut self, set: u32) {
        for (node, column) in self.columns.iter_mut().enumerate() {
            column.push(u64::from(set >> node & 1));
        }
        self.words.push(u64::from(set >> self.columns.len()));
    }

    fn write_u64(&mut self, number: u64) {
        let Reading { origin, now, memory } = self.clock;
        let is_a_time = (origin..END_OF_TIME).contains(&number);
        self.words.push(if is_a_time {
            origin + number.max(now.saturating_sub(memory)) - now
        } else {
            number
        });
    }

    fn write_usize(&mut self, number: usize) {
        self.words.push(number as u64);
    }
}

/// Beyond this, a point in time means "never".
const END_OF_TIME: u64 = 1 << 62;

#[cfg(test)]
mod tests {
    use quorate_core::quorum::{NodeSet, Tally, Vote};

    use super::*;

    const CLOCK: Reading = Reading { origin: 1_000, now: 1_050, memory: 20 };

    fn print(of: impl Hash, clock: Reading) -> (Vec<u64>, Vec<Vec<u64>>) {
        let mut print = Print::new(3);
        print.add(clock, &of);
        print.columns.sort_unstable();
        (print.rest, print.columns)
    }

    fn tally(votes: [Vote; 3]) -> Tally {
        let mut tally = Tally::new(3);
        votes.into_iter().enumerate().for_each(|(node, vote)| tally.count(node, vote));
        tally
    }

    #[test]
    fn the_order_of_the_nodes_makes_no_difference() {
        use Vote::{Grant, Refuse, Unknown};
        let one = print(tally([Grant, Refuse, Unknown]), CLOCK);
        assert_eq!(one, print(tally([Unknown, Grant, Refuse]), CLOCK));
        assert_ne!(one, print(tally([Unknown, Grant, Grant]), CLOCK));
        let pair = |a, b| print((NodeSet::one(a), NodeSet::one(b)), CLOCK);
        assert_eq!(pair(0, 1), pair(2, 0));
        assert_ne!(pair(0, 1), pair(1, 1), "whether it is the same node does make one");
    }

    #[test]
    fn only_the_distance_from_now_counts() {
        let later = Reading { now: 1_060, ..CLOCK };
        assert_eq!(print(1_055_u64, CLOCK), print(1_065_u64, later));
        assert_ne!(print(1_055_u64, CLOCK), print(1_056_u64, CLOCK));
        assert_eq!(print(1_030_u64, CLOCK), print(1_001_u64, CLOCK), "both are long past");
        assert_ne!(print(1_030_u64, CLOCK), print(1_031_u64, CLOCK));
        assert_eq!(print(999_u64, CLOCK), print(999_u64, later), "not a time");
        assert_eq!(print(u64::MAX, CLOCK), print(u64::MAX, later), "never");
    }
}
