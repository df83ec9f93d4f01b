//! How a link waits between its tries, if its node may not vote yet.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::{Context, Poll},
    time::Duration,
};

use quorate_core::{membership::NodeInfo, moment::Moment};
use tokio::time::{sleep, timeout};

use super::{CHANGED_LATELY, Seat, version::Watch};
use crate::error::NodeError;

/// The tries of one link.
pub(crate) struct Retry<'a> {
    seat: &'a Seat,
    /// Tells whenever an operator waits for nodes to tell what they are.
    orders: Option<Watch>,
    /// Tells whenever nodes must be asked soon.
    calls: Option<Watch>,
}

impl<'a> Retry<'a> {
    pub(super) fn new(seat: &'a Seat) -> Self {
        Self { seat, orders: seat.shared.as_ref().map(|it| it.orders()), calls: None }
    }

    /// The link tries now. What is called for meanwhile is not missed.
    pub(crate) fn begin(&mut self) {
        self.calls = self.seat.shared.as_ref().map(|it| it.calls());
    }

    /// Until when the node is in quarantine and why, if a try found that, and if that time runs.
    pub(crate) fn quarantine(&self, found: &NodeError, now: Moment) -> Option<(Moment, String)> {
        let NodeError::Quarantined { left, why } = found else { return None };
        let has_begun =
            why == CHANGED_LATELY
                || self.seat.shared.as_ref().is_some_and(|it| {
                    it.lock().info(self.seat.node).is_some_and(NodeInfo::is_waiting)
                });
        has_begun.then(|| (now.saturating_add(*left), why.clone()))
    }

    /// How long to wait after what a try found: in any case, and then until it is called for.
    pub(crate) fn pauses(&self, delay: Duration, found: &NodeError) -> (Duration, Duration) {
        let is_placed = || self.seat.shared.as_ref().is_some_and(|it| it.is_placed(self.seat.node));
        match found {
            NodeError::Quarantined { left, .. } if is_placed() => pauses(delay, *left),
            _ => (delay, Duration::ZERO),
        }
    }

    /// Waits for so long. Returns true if an operator waits for the node, or if it is called for in
    /// the second pause, or the quarantined node's connection closes.
    pub(crate) async fn rest(
        &mut self,
        (first, more): (Duration, Duration),
        mut is_closed: impl FnMut(&mut Context<'_>) -> bool,
    ) -> bool {
        let Some(orders) = &mut self.orders else {
            sleep(first).await;
            return false;
        };
        if timeout(first, orders.changed()).await.is_ok() {
            return true;
        }
        if let Some(calls) = self.calls.as_mut().filter(|_| !more.is_zero()) {
            let mut called = pin!(calls.changed());
            let closed_or_called = poll_fn(|cx| match is_closed(cx) {
                true => Poll::Ready(()),
                false => called.as_mut().poll(cx),
            });
            // Whatever comes first, the link tries again.
            let _ = timeout(more, closed_or_called).await;
        }
        false
    }
}

/// A quarantine that still lasts need not be asked for often; but others may end it early, and
/// nobody should be late when it ends.
fn pauses(delay: Duration, left: Duration) -> (Duration, Duration) {
    match left < QUARANTINE_NEARLY_OVER {
        true => (delay.min(left.max(DELAY_MIN)), Duration::ZERO),
        false => (delay, (left / 4).saturating_sub(delay)),
    }
}

/// A quarantine that lasts for less is asked for as often as anything else.
const QUARANTINE_NEARLY_OVER: Duration = Duration::from_secs(5);

/// No link tries again earlier.
pub(crate) const DELAY_MIN: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarantine_is_asked_for_less_often_while_it_is_long_and_never_late() {
        let (ms, zero) = (Duration::from_millis, Duration::ZERO);
        assert_eq!(pauses(ms(700), ms(68_200)), (ms(700), ms(16_350)));
        assert_eq!(pauses(ms(700), ms(4_999)), (ms(700), zero));
        assert_eq!(pauses(ms(700), ms(300)), (ms(300), zero));
        assert_eq!(pauses(ms(700), zero), (DELAY_MIN, zero));
        let (mut left, mut times) = (ms(68_200), 0);
        while left > zero {
            let (first, more) = pauses(ms(1_000), left);
            assert!(first <= ms(1_000) && first + more <= left.max(DELAY_MIN));
            left = left.saturating_sub(first + more);
            times += 1;
        }
        assert!(times < 20, "{times} times");
    }
}
