//! Who holds the lock in truth.

use std::collections::BTreeMap;

use quorate_core::fence::Fence;

use crate::clock::{MS, Nanos};

#[derive(Debug, Default)]
pub(super) struct Judge {
    /// By the number of the lease: until when it is held, and by whom.
    holds: BTreeMap<u64, (Nanos, usize)>,
    last: Option<(Fence, usize)>,
    pub(super) count: u64,
    pub(super) violation: Option<String>,
}

impl Judge {
    /// A client believes to hold the lock until then. Returns true if this is news.
    pub(super) fn hold(
        &mut self,
        now: Nanos,
        number: u64,
        by: usize,
        until: Nanos,
        fence: Fence,
    ) -> bool {
        self.holds.retain(|_, (until, _)| *until > now);
        if until <= now {
            self.holds.remove(&number);
            return false;
        }
        let other = self.holds.iter().find(|(other, _)| **other != number);
        if let Some((_, (until, other))) = other {
            let until = until / MS;
            let said = format!("client {by} holds while client {other} does until {until}");
            self.violation.get_or_insert(said);
        }
        let is_new = self.holds.insert(number, (until, by)).is_none();
        if is_new {
            self.count += 1;
            if let Some((last, other)) = self.last
                && fence <= last
            {
                let said = format!("client {by} has fence {fence}, client {other} had {last}");
                self.violation.get_or_insert(said);
            }
            self.last = Some((fence, by));
        }
        is_new
    }

    pub(super) fn let_go(&mut self, number: u64) {
        self.holds.remove(&number);
    }
}
