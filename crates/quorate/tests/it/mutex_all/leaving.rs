//! A waiting set that goes away leaves all of its queues, and reserves nothing.

use std::time::Duration;

use quorate::error::LockError;

use super::{pair, take_all, wait_until_only, wait_until_queued, waiting};
use crate::conformance::fixture::{Fixture, PATIENCE, take};

on_every_engine! {
    [1, 3, 5] => set_that_times_out_leaves_nothing,
        set_that_is_dropped_while_it_waits_leaves_nothing,
        set_that_leaves_lets_others_pass,
        set_of_a_client_that_is_shut_down_leaves_nothing,
        dropped_set_guard_is_released;
}

async fn set_that_times_out_leaves_nothing(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guard = take(bob.mutex("b")).await;
    for wait in [0, 1, 5, 50].map(Duration::from_millis) {
        let waited = pair(&alice).lock_timeout(wait).await;
        // On a busy machine the nodes may not even answer in this time.
        let is_reported =
            matches!(waited, Err(LockError::Timeout { .. } | LockError::NoQuorum { .. }));
        assert!(is_reported, "{waited:?}");
        wait_until_only(fixture, &["b"]);
    }
    guard.release().await.expect("it was held");
    wait_until_only(fixture, &[]);
}

async fn set_that_is_dropped_while_it_waits_leaves_nothing(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guard = take(bob.mutex("b")).await;
    for round in 0..24 {
        let set = waiting(pair(&alice));
        match round % 4 {
            0 => wait_until_queued(fixture, &bob, "b", 1).await,
            // At any moment of the call.
            steps => {
                for _ in 0..round / 4 + steps {
                    tokio::task::yield_now().await;
                    drop(bob.inspect("a").await);
                }
            }
        }
        set.abort();
        assert!(set.await.is_err_and(|error| error.is_cancelled()));
        wait_until_only(fixture, &["b"]);
    }
    guard.release().await.expect("it was held");
}

async fn set_that_leaves_lets_others_pass(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guard = take(bob.mutex("b")).await;
    let set = waiting(pair(&alice));
    wait_until_queued(fixture, &bob, "b", 1).await;
    let mutex = bob.mutex("a");
    let next = tokio::spawn(async move { mutex.lock().await.expect("its turn comes") });
    set.abort();
    let next = tokio::time::timeout(PATIENCE, next).await.expect("a is free again");
    drop((next.expect("no panic"), guard));
    wait_until_only(fixture, &[]);
}

async fn set_of_a_client_that_is_shut_down_leaves_nothing(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guard = take(bob.mutex("b")).await;
    let set = pair(&alice);
    let waiting = tokio::spawn(async move { set.lock().await });
    wait_until_queued(fixture, &bob, "b", 1).await;
    assert!(alice.clone().shutdown(PATIENCE).await.is_clean);
    let ended = waiting.await.expect("no panic");
    assert!(matches!(ended, Err(LockError::ShutDown)), "{ended:?}");
    for ended in [pair(&alice).lock().await.map(Some), pair(&alice).try_lock().await] {
        assert!(matches!(ended, Err(LockError::ShutDown)), "{ended:?}");
    }
    wait_until_only(fixture, &["b"]);
    guard.release().await.expect("it was held");
}

async fn dropped_set_guard_is_released(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let set = take_all(pair(&client)).await;
    wait_until_only(fixture, &["a", "b"]);
    drop(client);
    set.verify().await.expect("a guard keeps its client alive");
    // On a thread without a runtime: a guard can be dropped anywhere.
    std::thread::spawn(move || drop(set)).join().expect("a drop does not panic");
    wait_until_only(fixture, &[]);
}
