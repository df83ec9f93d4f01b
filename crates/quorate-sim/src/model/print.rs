//! Fingerprints: two states are the same if their fingerprints are equal. A fingerprint depends
//! neither on the time nor on node numbers.
//!
//! Two reductions happen here. The states themselves are never changed, so that the machines of the
//! core stay as they are and a path keeps its node numbers throughout. `Client::observe` in the
//! core decides which parts of a client have an effect; `ProductModel::settle` and `Request` decide
//! it for the network.
//!
//! *Time.* The core adds durations to points in time and compares them, and does nothing else with
//! them. A state in which everything is a tick later continues in the same way, so the fingerprint
//! contains the distance of a point in time from now. A point further back than any duration of the
//! terms has no effect, so all such points count as one. That is why time need not be bounded.
//!
//! *Nodes.* They are alike, start alike, and no claim names one. A state with its nodes renumbered
//! continues in the same way. Everything about one node goes into its column, and the
//! columns are sorted. The machines keep node sets as bits of an `u32`, so an `u32` is taken apart:
//! bit `i` goes into column `i`, and what is above goes to the rest. The other numbers of that
//! width in machines are parts of the terms. These are the same in all states of a model, so that
//! taking them apart merges nothing, and zero in the low bits, so that it keeps nothing apart.
//!
//! A derived `Hash` feeds every field, private ones too. Where a part is left out, the type is
//! destructured field by field, so that a new field does not compile before it is decided upon.

use std::hash::{Hash, Hasher};

/// A fingerprint: one number for the whole and one for each node.
#[derive(Clone, Debug)]
pub(super) struct Print {
    rest: Lane,
    columns: [Lane; NODES_MAX],
    nodes: usize,
}

impl Print {
    pub(super) fn new(nodes: usize) -> Self {
        Self { rest: Lane(0), columns: [Lane(0); NODES_MAX], nodes }
    }

    /// Adds a part that belongs to no single node, but may contain sets of nodes.
    pub(super) fn add<T: Hash>(&mut self, clock: Reading, part: &T) {
        let columns = &mut self.columns[..self.nodes];
        part.hash(&mut Pen { lane: &mut self.rest, columns, clock });
    }

    /// Adds a part that belongs to one node.
    pub(super) fn add_of_node<T: Hash>(&mut self, node: usize, clock: Reading, part: &T) {
        part.hash(&mut Pen { lane: &mut self.columns[node], columns: &mut [], clock });
    }

    /// The numbers of the whole and of each node, in the order of the nodes.
    pub(super) fn split(self) -> (u64, Vec<u64>) {
        let columns = &self.columns[..self.nodes];
        (self.rest.0, columns.iter().map(|column| column.0).collect())
    }

    /// All of it as one number, whatever the order of the nodes is.
    pub(super) fn number(mut self) -> u64 {
        let columns = &mut self.columns[..self.nodes];
        columns.sort_unstable();
        columns.iter().for_each(|column| self.rest.take_in(column.0));
        self.rest.0
    }
}

/// Numbers, folded into one.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Lane(u64);

impl Lane {
    fn take_in(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number ^ FOLD) * u128::from(SPREAD);
        let (low, high) = (product as u64, (product >> 64) as u64);
        self.0 = (low ^ high).rotate_left(29).wrapping_add(SPREAD);
    }
}

/// A number that is not a point in time, however large.
pub(super) struct Plain(pub(super) u64);

impl Hash for Plain {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0.to_le_bytes());
    }
}

/// The fingerprint of a part that contains no time.
pub(super) fn plain<T: Hash>(part: &T) -> u64 {
    let mut print = Print::new(0);
    print.add(Reading::EXACT, part);
    print.number()
}

/// How to distinguish points in time from other numbers, and the current time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Reading {
    /// No number that is not a point in time is as large as this.
    pub(super) origin: u64,
    pub(super) now: u64,
    /// Points further back have no effect.
    pub(super) back: u64,
    /// Nor have points further ahead.
    pub(super) ahead: u64,
    /// Larger numbers are never reached.
    pub(super) horizon: u64,
}

impl Reading {
    /// Every number stays as it is.
    pub(super) const EXACT: Self =
        Self { origin: u64::MAX, now: 0, back: 0, ahead: 0, horizon: u64::MAX };
}

struct Pen<'a> {
    lane: &'a mut Lane,
    columns: &'a mut [Lane],
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
            self.lane.take_in(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.lane.take_in(number.into());
    }

    fn write_u32(&mut self, set: u32) {
        for (node, column) in self.columns.iter_mut().enumerate() {
            column.take_in(u64::from(set >> node & 1));
        }
        self.lane.take_in(u64::from(set >> self.columns.len()));
    }

    fn write_u64(&mut self, number: u64) {
        let Reading { origin, now, back, ahead, horizon } = self.clock;
        self.lane.take_in(if number >= horizon {
            u64::MAX
        } else if number >= origin {
            let near = number.clamp(now.saturating_sub(back), now.saturating_add(ahead));
            origin + near - now
        } else {
            number
        });
    }

    fn write_usize(&mut self, number: usize) {
        self.lane.take_in(number as u64);
    }
}

/// A later point in time means "never".
pub(super) const END_OF_TIME: u64 = 1 << 62;

/// The most nodes of a model.
const NODES_MAX: usize = 5;

/// Odd numbers without a pattern.
const FOLD: u64 = 0xD1B5_4A32_D192_ED03;
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use quorate_core::quorum::{NodeSet, Tally, Vote};

    use super::*;

    const CLOCK: Reading =
        Reading { origin: 1_000, now: 1_050, back: 20, ahead: u64::MAX, horizon: 5_000 };

    fn print(of: impl Hash, clock: Reading) -> u64 {
        let mut print = Print::new(3);
        print.add(clock, &of);
        print.number()
    }

    fn tally(votes: [Vote; 3]) -> Tally {
        let mut tally = Tally::new(3);
        votes.into_iter().enumerate().for_each(|(node, vote)| tally.count(node, vote));
        tally
    }

    #[test]
    fn order_of_the_nodes_makes_no_difference() {
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
        let still = Reading { back: 0, ahead: 0, ..CLOCK };
        assert_eq!(print(1_049_u64, still), print(1_099_u64, still), "one time is like another");
    }
}
