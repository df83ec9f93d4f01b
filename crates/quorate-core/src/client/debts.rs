//! Releases that a node has not answered. They are repeated until their keys have expired.

use std::{collections::VecDeque, time::Duration};

use super::Debt;
use crate::moment::Moment;

/// The releases that one node has not answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Debts {
    owed: VecDeque<Debt>,
    /// When they are sent again to a node that can be reached.
    retry_at: Option<Moment>,
}

impl Debts {
    /// Adds a release, unless its key has expired.
    pub(super) fn add(&mut self, debt: Debt, now: Moment) {
        mutate!(NoDebts => return);
        if debt.until <= now {
            return;
        }
        // The key of the oldest release expires first.
        if self.owed.len() >= DEBTS_MAX {
            self.owed.pop_front();
        }
        self.owed.push_back(debt);
        self.retry_at.get_or_insert_with(|| now.saturating_add(RETRY_EVERY));
    }

    /// Takes the releases whose keys have not expired at `now`.
    pub(super) fn collect(&mut self, now: Moment) -> impl Iterator<Item = Debt> + use<> {
        self.retry_at = None;
        std::mem::take(&mut self.owed).into_iter().filter(move |debt| now < debt.until)
    }

    /// Every release that is kept, even if its key has expired in the meantime.
    pub(super) const fn owed(&self) -> &VecDeque<Debt> {
        &self.owed
    }

    /// Whether there is a release whose key has not expired at `now`.
    pub(super) fn is_owed(&self, now: Moment) -> bool {
        self.owed.iter().any(|debt| now < debt.until)
    }

    /// When they are sent again to a node that can be reached.
    pub(super) const fn retry_at(&self) -> Option<Moment> {
        self.retry_at
    }
}

/// The largest number of releases that are kept for a node that is away. Their keys expire anyway.
const DEBTS_MAX: usize = 65_536;

/// The time until a release is repeated to a node that can be reached.
const RETRY_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        command::{ClientId, Command, Owner},
        name::Name,
    };

    #[test]
    fn debts_are_bounded_and_end_with_their_keys() {
        let mut debts = Debts::default();
        for number in 1..=DEBTS_MAX as u64 + 1 {
            let name = Name::parse("a", "").unwrap();
            let owner = Owner::new(&ClientId::from_random([0; 20]), number, "me");
            let release = Command::DeleteKey { name, owner };
            debts.add(Debt { release, until: Moment::from_nanos(number) }, Moment::ZERO);
        }
        assert_eq!(debts.owed.len(), DEBTS_MAX);
        let late = Moment::from_nanos(DEBTS_MAX as u64);
        assert!(debts.is_owed(late));
        assert_eq!(debts.collect(late).count(), 1);
        assert!(debts.owed.is_empty() && debts.retry_at().is_none());
    }
}
