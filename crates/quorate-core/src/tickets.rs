//! Tickets: where a waiter stands in the queue, by the time of the nodes.

use crate::{moment::Moment, queue::TICKET_MAX, quorum::majority};

/// Draws the tickets of one client.
///
/// A ticket is the time of the nodes at which a caller came, so that all clients queue in the order
/// in which their callers came. The client's wall clock has no part in it: it may show anything.
#[derive(Clone, Debug)]
pub struct Tickets {
    /// By node, in microseconds: its time less the client's.
    offsets: Box<[Option<i64>]>,
    /// The median of them, as soon as a majority of the nodes has told its time. A single node's
    /// clock may be far off.
    median: Option<i64>,
    last: u64,
}

impl Tickets {
    /// A client whose nodes have not told their time yet.
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

    /// A ticket for a caller that came at `came_at`; `None` until a majority of the nodes has told
    /// its time.
    ///
    /// Callers that come at about the same time are served in the order of their draws. If the
    /// nodes' time turns out to be earlier than believed, tickets follow it: otherwise this client
    /// would come last until the time has caught up.
    pub fn draw(&mut self, started_at: Moment) -> Option<u64> {
        let offset = self.median;
        mutate!(TicketByOwnClock => let offset = offset.or(Some(0)));
        let time = micros(started_at).saturating_add(offset?);
        let time = u64::try_from(time).unwrap_or(0).min(TICKET_MAX);
        let ahead = self.last.saturating_sub(time);
        let is_kept = ahead <= BACK_MAX_US;
        mutate!(TicketsNeverGoBack => let is_kept = true);
        self.last = match self.last >= time && is_kept {
            true => self.last.saturating_add(1).min(TICKET_MAX),
            false => time,
        };
        Some(self.last)
    }
}

fn micros(moment: Moment) -> i64 {
    i64::try_from(moment.as_nanos() / 1_000).unwrap_or(i64::MAX)
}

/// What a client believes of the nodes' time changes by less than this with every round trip.
const BACK_MAX_US: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::from_nanos(1_000_000_000);

    #[test]
    fn no_ticket_is_drawn_before_a_majority_has_told_its_time() {
        let mut tickets = Tickets::new(3);
        assert_eq!(tickets.draw(NOW), None);
        tickets.handle_time(2, 9_000_000_000, NOW);
        assert_eq!(tickets.draw(NOW), None, "one clock may be far off");
        tickets.handle_time(0, 5_000_000, NOW);
        assert_eq!(tickets.draw(NOW), Some(5_000_000), "of two the earlier one");
        tickets.handle_time(7, 1, NOW);
        assert_eq!(tickets.draw(NOW), Some(5_000_001), "there is no such node");
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
    fn callers_that_come_at_the_same_time_keep_the_order_of_their_draws() {
        let mut tickets = Tickets::new(1);
        tickets.handle_time(0, 5_000_000, NOW);
        let drawn: Vec<_> = (0..3).map(|_| tickets.draw(NOW)).collect();
        assert_eq!(drawn, [Some(5_000_000), Some(5_000_001), Some(5_000_002)]);
        tickets.handle_time(0, 4_990_000, NOW);
        assert_eq!(tickets.draw(NOW), Some(5_000_003), "a little earlier than believed");
    }

    #[test]
    fn tickets_go_back_when_the_nodes_time_is_much_earlier_than_believed() {
        let mut tickets = Tickets::new(1);
        tickets.handle_time(0, 3_600_000_000, NOW);
        assert_eq!(tickets.draw(NOW), Some(3_600_000_000));
        tickets.handle_time(0, 5_000_000, NOW);
        assert_eq!(tickets.draw(NOW), Some(5_000_000));
    }

    #[test]
    fn a_ticket_tells_when_the_caller_came_however_late_it_is_drawn() {
        let mut tickets = Tickets::new(1);
        let later = NOW.saturating_add(std::time::Duration::from_secs(60));
        tickets.handle_time(0, 100_000_000, later);
        assert_eq!(tickets.draw(later), Some(100_000_000));
        assert_eq!(tickets.draw(NOW), Some(40_000_000), "it came a minute before");
        assert_eq!(tickets.draw(Moment::ZERO), Some(39_000_000));
        tickets.handle_time(0, u64::MAX, NOW);
        assert_eq!(tickets.draw(NOW), Some(TICKET_MAX));
    }
}
