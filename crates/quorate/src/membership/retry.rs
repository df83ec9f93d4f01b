//! How a link waits between its attempts if its node may not vote yet.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::{Context, Poll},
    time::Duration,
};

use quorate_core::{membership::NodeInfo, moment::Moment};
use tokio::time::{sleep, timeout};

use super::{CHANGED_LATELY, LinkMembership, version::Watch};
use crate::error::NodeError;

/// The attempts of one link.
pub(crate) struct Retry<'a> {
    link: &'a LinkMembership,
    /// Notifies when an operator waits for the nodes' records.
    urgent_rechecks: Option<Watch>,
    /// Notifies when the nodes must be asked again soon.
    rechecks: Option<Watch>,
}

impl<'a> Retry<'a> {
    pub(super) fn new(link: &'a LinkMembership) -> Self {
        Self {
            link,
            urgent_rechecks: link.shared.as_ref().map(|it| it.urgent_rechecks()),
            rechecks: None,
        }
    }

    /// Begins an attempt. A recheck that is requested meanwhile is not missed.
    pub(crate) fn begin(&mut self) {
        self.rechecks = self.link.shared.as_ref().map(|it| it.rechecks());
    }

    /// When the node votes, if an attempt found a quarantine that has begun.
    pub(crate) fn quarantined_until(&self, found: &NodeError, now: Moment) -> Option<Moment> {
        let NodeError::Quarantined { left, why, .. } = found else { return None };
        let has_begun =
            why == CHANGED_LATELY
                || self.link.shared.as_ref().is_some_and(|it| {
                    it.lock().info(self.link.node).is_some_and(NodeInfo::is_waiting)
                });
        has_begun.then(|| now.saturating_add(*left))
    }

    /// How long to wait after an attempt: always, and then until a recheck is requested.
    pub(crate) fn pauses(&self, delay: Duration, found: &NodeError) -> (Duration, Duration) {
        let left = || self.link.shared.as_ref()?.quarantine_left(self.link.node);
        match found {
            NodeError::Quarantined { .. } => {
                left().map_or((delay, Duration::ZERO), |left| pauses(delay, left))
            }
            _ => (delay, Duration::ZERO),
        }
    }

    /// Waits for the two pauses. Returns true if an operator waits for the node. The second pause
    /// ends early if a recheck is requested or the quarantined node's connection closes.
    pub(crate) async fn wait(
        &mut self,
        (first, more): (Duration, Duration),
        mut is_closed: impl FnMut(&mut Context<'_>) -> bool,
    ) -> bool {
        let Some(urgent_rechecks) = &mut self.urgent_rechecks else {
            sleep(first).await;
            return false;
        };
        if timeout(first, urgent_rechecks.changed()).await.is_ok() {
            return true;
        }
        if let Some(rechecks) = self.rechecks.as_mut().filter(|_| !more.is_zero()) {
            let mut requested = pin!(rechecks.changed());
            let closed_or_requested = poll_fn(|cx| match is_closed(cx) {
                true => Poll::Ready(()),
                false => requested.as_mut().poll(cx),
            });
            // The link tries again in each case.
            let _ = timeout(more, closed_or_requested).await;
        }
        false
    }
}

/// A long quarantine is checked rarely. Other clients may end it early, and the link must notice
/// its end in time.
fn pauses(delay: Duration, left: Duration) -> (Duration, Duration) {
    match left < QUARANTINE_NEARLY_OVER {
        true => (delay.min(left.max(DELAY_MIN)), Duration::ZERO),
        false => (delay, (left / 4).saturating_sub(delay)),
    }
}

/// A quarantine that lasts for less is checked as often as any other node.
const QUARANTINE_NEARLY_OVER: Duration = Duration::from_secs(5);

/// The minimum delay between two attempts of a link.
pub(crate) const DELAY_MIN: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_quarantine_is_checked_rarely_and_its_end_is_never_missed() {
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
