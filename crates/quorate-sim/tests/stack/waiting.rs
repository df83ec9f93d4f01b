//! Waiting for an event with a bound, in simulated time.

use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};

use quorate::{Client, error::NodeAnswer};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::{fixture::TICK, trace::now};

/// Waits until `is_so`, checking at every tick. Panics after `bound`.
pub(crate) async fn eventually(bound: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let until = now() + bound;
    while !is_so() {
        assert!(now() < until, "not within {bound:?}: {what}");
        sleep(TICK).await;
    }
}

/// Waits until every server is attached.
pub(crate) async fn all_attached(client: &Client) {
    eventually(ATTACH_MAX, "all servers are attached", || {
        client.node_status().iter().all(|node| matches!(node.answer, NodeAnswer::Attached))
    })
    .await;
}

/// Polls `future` whenever it is woken and at every tick, and drops it right after its poll number
/// `polls`, unless it is ready by then.
pub(crate) async fn polled<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut left = polls;
    poll_fn(|cx| {
        if let Poll::Ready(value) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(value));
        }
        left -= 1;
        if left == 0 {
            return Poll::Ready(None);
        }
        while ticks.poll_tick(cx).is_ready() {}
        Poll::Pending
    })
    .await
}

/// A broken link is noticed after a second, and reconnects within another one or two.
const ATTACH_MAX: Duration = Duration::from_secs(10);
