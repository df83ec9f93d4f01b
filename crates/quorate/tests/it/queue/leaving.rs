//! A waiter that leaves gives its positions up.

use std::time::Duration;

use quorate::error::LockError;

use super::fixture::{NAME, Queue};
use crate::conformance::fixture::{Fixture, PATIENCE, on_servers, take};

in_default_mode! {
    [1, 3, 5] => dropped_waiter_leaves_the_queue,
        waiter_that_timed_out_leaves_the_queue,
        waiter_that_leaves_delays_no_other,
        waiter_that_leaves_when_granted_hands_the_lock_off,
        shut_down_client_leaves_the_queue;
}

async fn dropped_waiter_leaves_the_queue(fixture: &Fixture) {
    let queue = Queue::new(fixture);
    let client = queue.client("alice").await;
    let guard = take(client.mutex(NAME)).await;
    let waiting = queue.join_to_keep(&client);
    waiting.abort();
    assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
    queue.wait_until_queued(0);
    fixture.wait_until_only(NAME, fixture.all());
    guard.release().await.expect("it is held");
    fixture.wait_until_empty(fixture.all());
}

async fn waiter_that_timed_out_leaves_the_queue(fixture: &Fixture) {
    let queue = Queue::new(fixture);
    let client = queue.client("alice").await;
    let guard = take(client.mutex(NAME)).await;
    for wait in [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(50)] {
        let waited = client.mutex(NAME).lock_timeout(wait).await;
        // On a busy machine the nodes may not even answer in this time.
        let is_told = matches!(waited, Err(LockError::Timeout { .. } | LockError::NoQuorum { .. }));
        assert!(is_told, "{waited:?}");
        queue.wait_until_queued(0);
        fixture.wait_until_only(NAME, fixture.all());
    }
    guard.verify().await.expect("it is held");
}

async fn waiter_that_leaves_delays_no_other(fixture: &Fixture) {
    let queue = Queue::new(fixture);
    let client = queue.client("alice").await;
    let guard = take(client.mutex(NAME)).await;
    let waiters: Vec<_> = (0..5).map(|number| queue.join(&client, number)).collect();
    for left in [0, 2, 4] {
        waiters[left].abort();
    }
    queue.wait_until_queued(2);
    guard.release().await.expect("it is held");
    for (number, waiter) in waiters.into_iter().enumerate() {
        assert_eq!(waiter.await.is_ok(), number % 2 == 1, "waiter {number}");
    }
    assert_eq!(queue.turns(), [1, 3]);
    fixture.wait_until_empty(fixture.all());
}

/// The hand-off and the drop race with each other, and the lock must not stay with the dropped
/// waiter.
async fn waiter_that_leaves_when_granted_hands_the_lock_off(fixture: &Fixture) {
    let queue = Queue::new(fixture);
    let (alice, bob) = (queue.client("alice").await, queue.client("bob").await);
    for _ in 0..20 {
        let guard = take(alice.mutex(NAME)).await;
        queue.wait_until_queued(0);
        let first = queue.join_to_keep(&bob);
        let second = queue.join_to_keep(&alice);
        drop(guard);
        first.abort();
        // Whether it was too late or not: a grant that it got is handed off.
        drop(first.await);
        let had = tokio::time::timeout(PATIENCE, second).await.expect("its turn comes");
        had.expect("no panic").expect("its turn comes").release().await.expect("it is held");
    }
    fixture.wait_until_empty(fixture.all());
}

async fn shut_down_client_leaves_the_queue(fixture: &Fixture) {
    let queue = Queue::new(fixture);
    let (alice, bob) = (queue.client("alice").await, queue.client("bob").await);
    let guard = take(alice.mutex(NAME)).await;
    let waiters = [queue.join_to_keep(&bob), queue.join_to_keep(&bob)];
    assert!(bob.shutdown(PATIENCE).await.is_clean);
    for waiter in waiters {
        let ended = waiter.await.expect("no panic");
        assert!(matches!(ended, Err(LockError::ShutDown)), "{ended:?}");
    }
    fixture.wait_until_only(NAME, fixture.all());
    guard.release().await.expect("it is held");
    fixture.wait_until_empty(fixture.all());
}

#[test]
fn try_never_joins_the_queue() {
    on_servers(&[1, 3], async |fixture| {
        let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
        let guard = take(alice.mutex(NAME)).await;
        fixture.wait_until_only(NAME, fixture.all());
        let calls = |command: &str| -> u64 {
            fixture.servers().iter().map(|server| server.command_calls(command)).sum()
        };
        let places = calls("zadd");
        for _ in 0..20 {
            let tried = bob.mutex(NAME).try_lock().await.expect("every node answers");
            assert!(tried.is_none(), "alice has it");
        }
        assert_eq!(calls("zadd"), places);
        fixture.wait_until_only(NAME, fixture.all());
        guard.release().await.expect("it is held");
        fixture.wait_until_empty(fixture.all());
    });
}
