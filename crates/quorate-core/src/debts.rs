//! Releases that a node has not answered: they are sent again until their keys have gone.

use std::collections::VecDeque;

use crate::{
    command::Command,
    moment::Moment,
    mutant::{self, Mutant},
};

/// Releases that a node has not answered.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Debts {
    owed: VecDeque<(Command, Moment)>,
}

impl Debts {
    /// Takes over `free`, which matters until `until`.
    pub fn add(&mut self, free: Command, until: Moment) {
        if mutant::is_on(Mutant::NoDebts) {
            return;
        }
        // The oldest is the first to go by itself.
        if self.owed.len() >= DEBTS_MAX {
            self.owed.pop_front();
        }
        self.owed.push_back((free, until));
    }

    /// Takes out what still matters at `now`.
    pub fn collect(&mut self, now: Moment) -> Vec<(Command, Moment)> {
        self.owed.drain(..).filter(|(_, until)| now < *until).collect()
    }

    /// Drops what does not matter any more at `now`.
    pub fn forget_expired(&mut self, now: Moment) {
        self.owed.retain(|(_, until)| now < *until);
    }

    /// True if nothing is owed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }
}

/// The most releases that are kept for one node while it is away; their keys expire by themselves.
const DEBTS_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        command::{ClientId, Owner},
        name::Name,
    };

    #[test]
    fn debts_are_bounded_and_go_with_their_keys() {
        let mut debts = Debts::default();
        for number in 0..=DEBTS_MAX as u64 {
            let name = Name::parse("a", "").unwrap();
            let owner = Owner::new(&ClientId::from_random([0; 20]), number, "me");
            debts.add(Command::Free { name, owner }, Moment::from_nanos(number));
        }
        assert_eq!(debts.owed.len(), DEBTS_MAX);
        assert_eq!(debts.collect(Moment::from_nanos(DEBTS_MAX as u64 - 1)).len(), 1);
        assert!(debts.is_empty());
    }
}
