//! The results of each client: shares and waits.
//!
//! Responsible for counting. Nothing here is right or wrong; how even the shares must be is for the
//! test to decide.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::{Claim, History, Wait};

/// The results of each client.
#[derive(Clone, Debug, Default)]
pub struct Report {
    by_client: BTreeMap<String, Share>,
}

/// The results of one client.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Share {
    /// How often it held a lock.
    pub claims: usize,
    /// For how long it held locks, as far as their end is known.
    pub held: Duration,
    /// The longest time for which it waited, with or without success.
    pub longest_wait: Duration,
    /// How often a request failed.
    pub in_vain: usize,
}

impl History {
    /// The results of the clients.
    #[must_use]
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        for claim in &self.claims {
            let Claim { client, asked_at, acquired_at, ended_at, .. } = claim;
            let share = report.by_client.entry(client.clone()).or_default();
            share.claims += 1;
            share.held += ended_at.map_or(Duration::ZERO, |ended_at| ended_at.since(*acquired_at));
            share.longest_wait = share.longest_wait.max(acquired_at.since(*asked_at));
        }
        for Wait { client, asked_at, gave_up_at, .. } in &self.in_vain {
            let share = report.by_client.entry(client.clone()).or_default();
            share.in_vain += 1;
            let waited =
                gave_up_at.map_or(Duration::ZERO, |gave_up_at| gave_up_at.since(*asked_at));
            share.longest_wait = share.longest_wait.max(waited);
        }
        report
    }
}

impl Report {
    /// How often a lock was held.
    #[must_use]
    pub fn claims(&self) -> usize {
        self.by_client.values().map(|share| share.claims).sum()
    }

    /// The results of each client, by its name.
    #[must_use]
    pub const fn shares(&self) -> &BTreeMap<String, Share> {
        &self.by_client
    }

    /// The most claims of a client, divided by the fewest claims of a client. 1 is even; infinity
    /// means that a client asked and acquired nothing. Not a number if no client asked.
    #[must_use]
    pub fn unevenness(&self) -> f64 {
        let counts = || self.by_client.values().map(|share| share.claims);
        match (counts().max(), counts().min()) {
            (Some(most), Some(fewest)) => most as f64 / fewest as f64,
            (None, _) | (_, None) => f64::NAN,
        }
    }

    /// The longest wait of any client, with or without success.
    #[must_use]
    pub fn longest_wait(&self) -> Duration {
        let waits = self.by_client.values().map(|share| share.longest_wait);
        waits.max().unwrap_or_default()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (claims, wait) = (self.claims(), self.longest_wait());
        write!(
            f,
            "{claims} claims, most by fewest {:.2}, longest wait {wait:?}",
            self.unevenness()
        )?;
        for (client, share) in &self.by_client {
            let Share { claims, held, longest_wait, in_vain } = share;
            write!(f, "\n  {client}: {claims} claims, held for {held:?}, ")?;
            write!(f, "longest wait {longest_wait:?}, {in_vain} times in vain")?;
        }
        Ok(())
    }
}
