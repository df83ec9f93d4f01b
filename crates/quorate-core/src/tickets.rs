//! Tickets: the order of waiters in the queue, by the time of the nodes.

use crate::{moment::Moment, queue::TICKET_MAX, quorum::majority};

/// Draws the tickets of one client.
///
/// A ticket is the time of the nodes at which a caller started to wait. All clients queue in the
/// order in which their callers started. The client's wall clock is not used: it may be wrong.
#[derive(Clone, Debug)]
pub struct Tickets {
    /// By node, in microseconds: the node's time minus the client's.
    offsets: Box<[Option<i64>]>,
    /// The median offset, once a majority of the nodes has reported its time. The clock of a single
    /// node may be far off.
    median: Option<i64>,
    last: u64,
}

impl Tickets {
    /// Tickets of a client whose nodes have not reported their time yet.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { offsets: vec![None; nodes].into(), median: None, last: 0 }
    }

    /// The node's clock showed `time_us` at `at`.
    pub fn handle_time(&mut self, node: usize, time_us: u64, at: Moment) {
        let time_us = i64::try_from(time_us).unwrap_or(i64::MAX);
        let nodes = self.offsets.len();
        let Some(offset) = self.offsets.get_mut(node) else { return };
        *offset = Some(time_us.saturating_sub(micros(at)));
        let mut known: Vec<i64> = self.offsets.iter().flatten().copied().collect();
        known.sort_unstable();
        let middle = known.len().saturating_sub(1).checked_div(2).unwrap_or(0);
        self.median = known.get(middle).copied().filter(|_| known.len() >= majority(nodes));
    }

    /// A ticket for a caller that started at `started_at`; `None` until a majority of the nodes has
    /// reported its time.
    ///
    /// Callers that start at about the same time are served in the order of their draws. If the
    /// nodes' time turns out to be earlier than estimated, tickets follow it. Otherwise this client
    /// would be served last until the time has caught up.
    pub fn draw(&mut self, started_at: Moment) -> Option<u64> {
        let offset = self.median;
        mutate!(TicketByOwnClock => let offset = offset.or(Some(0)));
        let time = micros(started_at).saturating_add(offset?);
        let time = u64::try_from(time).unwrap_or(0).min(TICKET_MAX);
        let ahead = self.last.saturating_sub(time);
        let is_monotonic = ahead <= BACK_MAX_US;
        mutate!(TicketsNeverGoBack => let is_monotonic = true);
        self.last = match self.last >= time && is_monotonic {
            true => self.last.saturating_add(1).min(TICKET_MAX),
            false => time,
        };
        Some(self.last)
    }
}

fn micros(moment: Moment) -> i64 {
    i64::try_from(moment.as_nanos() / 1_000).unwrap_or(i64::MAX)
}

/// A client's estimate of the nodes' time varies by less than this with each round trip.
const BACK_MAX_US: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::from_nanos(1_000_000_000);

    #[test]
    fn no_ticket_before_a_majority_has_reported_its_time() {
        let mut tickets = Tickets::new(3);
        assert_eq!(tickets.draw(NOW), None);
        tickets.handle_time(2, 9_000_000_000, NOW);
        assert_eq!(tickets.draw(NOW), None, "one clock may be far off");
        tickets.handle_time(0, 5_000_000, NOW);
        assert_eq!(tickets.draw(NOW), Some(5_000_000), "the earlier one of two");
        tickets.handle_time(7, 1, NOW);
        assert_eq!(tickets.draw(NOW), Some(5_000_001), "ignores an unknown node");
    }

    #[test]
    fn tickets_follow_the_median_of_the_nodes() {
        let mut tickets = Tickets::new(3);
        for (node, time_us) in [(0, 9_000_000_000), (1, 5_000_000), (2, 5_000_010)] {
            tickets.handle_time(node, time_us, NOW);
        }
        assert_eq!(tickets.draw(NOW), Some(5_000_010));
        let later = NOW.saturating_add(std::time::Duration::from_micros(7));
        assert_eq!(tickets.draw(later), Some(5_000_017));
    }

    #[test]
    fn simultaneous_callers_keep_the_order_of_their_draws() {
        let mut tickets = Tickets::new(1);
        tickets.handle_time(0, 5_000_000, NOW);
        let drawn: Vec<_> = (0..3).map(|_| tickets.draw(NOW)).collect();
        assert_eq!(drawn, [Some(5_000_000), Some(5_000_001), Some(5_000_002)]);
        tickets.handle_time(0, 4_990_000, NOW);
        assert_eq!(tickets.draw(NOW), Some(5_000_003), "a little earlier than estimated");
    }

    #[test]
    fn tickets_go_back_when_the_nodes_are_much_earlier_than_estimated() {
        let mut tickets = Tickets::new(1);
        tickets.handle_time(0, 3_600_000_000, NOW);
        assert_eq!(tickets.draw(NOW), Some(3_600_000_000));
        tickets.handle_time(0, 5_000_000, NOW);
        assert_eq!(tickets.draw(NOW), Some(5_000_000));
    }

    #[test]
    fn late_draw_yields_the_time_the_caller_started() {
        let mut tickets = Tickets::new(1);
        let later = NOW.saturating_add(std::time::Duration::from_secs(60));
        tickets.handle_time(0, 100_000_000, later);
        assert_eq!(tickets.draw(later), Some(100_000_000));
        assert_eq!(tickets.draw(NOW), Some(40_000_000), "started a minute earlier");
        assert_eq!(tickets.draw(Moment::ZERO), Some(39_000_000));
        tickets.handle_time(0, u64::MAX, NOW);
        assert_eq!(tickets.draw(NOW), Some(TICKET_MAX));
    }
}
