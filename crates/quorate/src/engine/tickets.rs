//! Tickets: the time of the nodes as this client knows it, and never the same twice.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use quorate_core::{line::TICKET_MAX, moment::Moment};

/// Draws tickets.
///
/// All clients go by the time of the nodes, so that who came first is first in line whatever its
/// own clock shows.
#[derive(Debug)]
pub(crate) struct Tickets {
    /// By node, in microseconds: its time less ours.
    offsets: Mutex<Vec<Option<i64>>>,
    /// The middle one of them: a clock that is far off does not count.
    middle: AtomicI64,
    last: AtomicU64,
}

impl Tickets {
    /// As long as no node has told its time, it is ahead of ours by `guess_us`.
    pub(crate) fn new(nodes: usize, guess_us: i64) -> Self {
        Self {
            offsets: Mutex::new(vec![None; nodes]),
            middle: AtomicI64::new(guess_us),
            last: AtomicU64::new(0),
        }
    }

    /// The node's clock showed `time_us` at `at`.
    pub(super) fn handle_time(&self, node: usize, time_us: u64, at: Moment) {
        let mut offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        let time_us = i64::try_from(time_us).unwrap_or(i64::MAX);
        offsets[node] = Some(time_us.saturating_sub(micros(at)));
        let mut known: Vec<i64> = offsets.iter().flatten().copied().collect();
        known.sort_unstable();
        self.middle.store(known[(known.len() - 1) / 2], Ordering::Relaxed);
    }

    /// A ticket for one who comes at `now`.
    pub(super) fn next(&self, now: Moment) -> u64 {
        let time = micros(now).saturating_add(self.middle.load(Ordering::Relaxed));
        let time = u64::try_from(time).unwrap_or(0);
        let after = |last: u64| time.max(last.saturating_add(1)).min(TICKET_MAX);
        let last =
            self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(after(last)));
        after(last.unwrap_or_default())
    }
}

fn micros(moment: Moment) -> i64 {
    i64::try_from(moment.as_nanos() / 1_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn tickets_follow_the_middle_of_the_nodes_and_are_never_the_same() {
        let tickets = Tickets::new(3, 500);
        let now = Moment::from_nanos(SECOND);
        assert_eq!(tickets.next(now), 1_000_500, "the guess");
        assert_eq!(tickets.next(now), 1_000_501, "never twice");
        tickets.handle_time(0, 9_000_000_000, now);
        tickets.handle_time(1, 5_000_000, now);
        assert_eq!(tickets.next(now), 5_000_000, "of two the earlier one");
        tickets.handle_time(2, 5_000_010, now);
        assert_eq!(tickets.next(now), 5_000_010, "one that is far off does not count");
        tickets.handle_time(0, 0, now);
        assert_eq!(tickets.next(now), 5_000_011, "they never go back");
    }
}
