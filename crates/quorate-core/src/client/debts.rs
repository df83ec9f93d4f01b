//! Releases that a node has not answered: they are sent again until their keys have gone.

use std::{collections::VecDeque, time::Duration};

use super::Debt;
use crate::moment::Moment;

/// What one node has not answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Debts {
    owed: VecDeque<Debt>,
    /// When it is sent again to a node that can be reached.
    retry_at: Option<Moment>,
}

impl Debts {
    /// Takes over a release, which matters until its key has expired.
    pub(super) fn add(&mut self, debt: Debt, now: Moment) {
        mutate!(NoDebts => return);
        if debt.until <= now {
            return;
        }
        // The oldest is the first to go by itself.
        if self.owed.len() >= DEBTS_MAX {
            self.owed.pop_front();
        }
        self.owed.push_back(debt);
        self.retry_at.get_or_insert_with(|| now.saturating_add(RETRY_EVERY));
    }

    /// Takes out what still matters at `now`.
    pub(super) fn collect(&mut self, now: Moment) -> impl Iterator<Item = Debt> + use<> {
        self.retry_at = None;
        std::mem::take(&mut self.owed).into_iter().filter(move |debt| now < debt.until)
    }

    /// Every release that is kept, even if its key has expired meanwhile.
    pub(super) const fn owed(&self) -> &VecDeque<Debt> {
        &self.owed
    }

    /// Whether something still matters at `now`.
    pub(super) fn is_owed(&self, now: Moment) -> bool {
        self.owed.iter().any(|debt| now < debt.until)
    }

    /// When it is sent again to a node that can be reached.
    pub(super) const fn retry_at(&self) -> Option<Moment> {
        self.retry_at
    }
}

/// The most releases that are kept for one node while it is away; their keys expire by themselves.
const DEBTS_MAX: usize = 65_536;

/// How long a node that can be reached and did not answer is left alone.
const RETRY_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        command::{ClientId, Command, Owner},
        name::Name,
    };

    #[test]
    fn debts_are_bounded_and_go_with_their_keys() {
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
