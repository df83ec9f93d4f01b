//! A server that is full for longer than a session and a lease last without renewal.

use std::time::Duration;

use super::fixture::{Held, Waiting, on_every_set};
use crate::{
    conformance::fixture::{PATIENCE, take},
    mode::Mode,
    watchdog::journal::Journal,
};

#[test]
fn held_locks_and_waiters_outlive_a_full_server() {
    on_every_set(TTL, async |nodes| {
        let journal = Journal::default();
        let (holder, other) = (nodes.client(&journal).await, nodes.client(&journal).await);
        let held = Held::take(&holder, nodes.mode).await;
        // In classic mode there is no queue.
        let waiting = (nodes.mode == Mode::Queue).then(|| Waiting::join(nodes, &other));

        nodes.set_full(true);
        held.outlive(&journal, TTL);
        held.verify().await;
        if let Some(waiting) = waiting {
            waiting.assert_waiting();
            waiting.wait_until_queued(nodes);
            held.release().await;
            let (next, last) = waiting.take_over().await;
            next.outlive(&journal, TTL);
            next.verify().await;
            assert!(!last.is_finished(), "the last waiter for a permit gave up");
            nodes.set_full(false);
            next.release().await;
            let permit = last.await.expect("no panic").expect("there is memory again");
            permit.release().await.expect("it is held");
        } else {
            held.release().await;
            nodes.set_full(false);
        }
        take(other.mutex("new")).await.release().await.expect("it is held");
    });
}

/// The holder ends without a release: its lease expires, and the waiter finds the lock free.
#[test]
fn lease_that_expires_on_a_full_server_is_granted_to_the_waiter() {
    on_every_set(TTL, async |nodes| {
        let journal = Journal::default();
        let (holder, other) = (nodes.client(&journal).await, nodes.client(&journal).await);
        if nodes.mode == Mode::Queue {
            let ends = take(holder.mutex("a").no_renew()).await;
            let mutex = other.mutex("a");
            let waiter = tokio::spawn(async move { mutex.lock().await });
            nodes.wait_until_queued("a", 1);
            nodes.set_full(true);
            let next = tokio::time::timeout(PATIENCE, waiter).await.expect("it looks");
            next.expect("no panic").expect("it is free").verify().await.expect("it is held");
            ends.check().expect_err("its holder knew before");
        }
    });
}

#[test]
fn lease_is_handed_over_and_adopted_on_a_full_server() {
    on_every_set(TTL, async |nodes| {
        let journal = Journal::default();
        let (holder, heir) = (nodes.client(&journal).await, nodes.client(&journal).await);
        let held = take(holder.mutex("a")).await;
        nodes.set_full(true);
        let lease = held.detach().await.expect("it is held");
        holder.renew_lease(&lease).await.expect("it is there");
        let held = heir.adopt(&lease).await.expect("it is detached");
        held.verify().await.expect("it is held");
        held.release().await.expect("it is held");
    });
}

/// Long enough that a busy machine renews in time.
const TTL: Duration = Duration::from_secs(3);
