//! The order of waiters, and how they leave.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use quorate::error::LockError;

use super::{jobs, take, wait_for_queue, wait_until_only};
use crate::{
    conformance::fixture::{Fixture, PATIENCE, on_memory, on_servers},
    watchdog::fixture::{PausedFixture, TICK, TTL, pass},
};

on_every_engine! {
    [1, 3, 5] => caller_that_timed_out_leaves_nothing,
        dropped_caller_leaves_nothing,
        caller_that_leaves_delays_no_other,
        client_that_is_shut_down_leaves_nothing;
}

#[test]
fn waiters_for_permits_are_served_in_order() {
    on_memory(&[1, 3, 5], in_order);
    on_servers(&[1, 3, 5], in_order);
}

async fn in_order(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let mut guards = take(&jobs(&alice, 3), 3).await;
    let turns = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for number in 0..8 {
        let (semaphore, turns) = (jobs(&bob, 3), turns.clone());
        waiters.push(tokio::spawn(async move {
            let guard = semaphore.acquire().await.expect("its turn comes");
            turns.lock().expect("no panic").push(number);
            guard.release().await.expect("it is held");
        }));
        wait_for_queue(fixture, &alice, 3, number).await;
    }
    // One permit passes through all waiters.
    guards.remove(0).release().await.expect("it is held");
    for waiter in waiters {
        let in_time = tokio::time::timeout(PATIENCE, waiter).await;
        in_time.expect("the queue moves").expect("no panic");
    }
    assert_eq!(*turns.lock().expect("no panic"), (0..8).collect::<Vec<_>>());
    wait_until_only(fixture, &guards);
}

/// The next waiter would move to the front, and both would be first.
#[tokio::test(start_paused = true)]
async fn first_waiter_keeps_its_position_although_its_permit_would_not_be_renewed() {
    let fixture = PausedFixture::new(3);
    let (alice, bob, carol) = (fixture.other(), fixture.other(), fixture.other());
    let held = jobs(&alice, 1).acquire().await.unwrap();
    let brief = jobs(&bob, 1).no_renew().max_hold(TTL / 2);
    let first = tokio::spawn(async move { brief.acquire().await });
    pass(TICK).await;
    let next = jobs(&carol, 1);
    let second = tokio::spawn(async move { next.acquire().await });
    pass(5 * TTL).await;
    let line = bob.inspect("jobs#queue").await.unwrap();
    assert!(line.holder.is_some_and(|holder| holder.is_this_client), "it is still the first");
    held.release().await.unwrap();
    first.await.unwrap().unwrap().release().await.unwrap();
    second.await.unwrap().unwrap().release().await.unwrap();
}

async fn caller_that_timed_out_leaves_nothing(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guards = take(&jobs(&alice, 3), 3).await;
    // The first waiter, and one behind it.
    for wait in [0, 1, 5, 50].map(Duration::from_millis) {
        let (first, second) = (jobs(&bob, 3), jobs(&alice, 3));
        let (first, second) =
            tokio::join!(first.acquire_timeout(wait), second.acquire_timeout(wait));
        for waited in [first, second] {
            // On a busy machine the nodes may not even answer in this time.
            let is_told =
                matches!(waited, Err(LockError::Timeout { .. } | LockError::NoQuorum { .. }));
            assert!(is_told, "{waited:?}");
        }
        wait_until_only(fixture, &guards);
    }
}

async fn dropped_caller_leaves_nothing(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guards = take(&jobs(&alice, 3), 3).await;
    for round in 0..40 {
        let semaphore = jobs(&bob, 3);
        let waiting = tokio::spawn(async move { semaphore.acquire().await });
        match round % 4 {
            0 => wait_for_queue(fixture, &alice, 3, 0).await,
            // At any moment of the call.
            steps => {
                for _ in 0..round / 4 + steps {
                    tokio::task::yield_now().await;
                    drop(alice.inspect("jobs#1").await);
                }
            }
        }
        waiting.abort();
        assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
        wait_until_only(fixture, &guards);
    }
}

async fn caller_that_leaves_delays_no_other(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let mut guards = take(&jobs(&alice, 2), 2).await;
    let wait = || {
        let semaphore = jobs(&bob, 2);
        tokio::spawn(async move { semaphore.acquire().await })
    };
    let first = wait();
    wait_for_queue(fixture, &alice, 2, 0).await;
    let second = wait();
    wait_for_queue(fixture, &alice, 2, 1).await;
    first.abort();
    assert!(first.await.is_err_and(|error| error.is_cancelled()));
    wait_for_queue(fixture, &alice, 2, 0).await;
    guards.remove(0).release().await.expect("it is held");
    let got = tokio::time::timeout(PATIENCE, second).await.expect("it is notified");
    guards.push(got.expect("no panic").expect("it is granted"));
    wait_until_only(fixture, &guards);
}

async fn client_that_is_shut_down_leaves_nothing(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guards = take(&jobs(&alice, 2), 2).await;
    let semaphore = jobs(&bob, 2);
    let waiting = tokio::spawn(async move { semaphore.acquire().await });
    wait_for_queue(fixture, &alice, 2, 0).await;
    assert!(bob.shutdown(PATIENCE).await.is_clean);
    let ended = waiting.await.expect("no panic");
    assert!(matches!(ended, Err(LockError::ShutDown)), "{ended:?}");
    wait_until_only(fixture, &guards);
}
