//! How a share of a lock ends, is renewed, is handed over and is restored.

use std::time::{Duration, Instant};

use quorate::{DetachedLease, error::LeaseError};

use super::together::{Wants, lock, read, reported, wait_until_gone, waiting, won};
use crate::conformance::fixture::{Fixture, LONG, PATIENCE, SHORT, wait_for_end};

in_line_on_every_engine! {
    [1, 3, 5] => killed_reader_delays_others_for_at_most_its_ttl,
        reader_is_renewed_while_others_come_and_go,
        dropped_readers_and_waiters_leave_nothing,
        share_is_handed_over_to_another_process,
        node_that_lost_its_data_gets_every_share_again;
}

async fn killed_reader_delays_others_for_at_most_its_ttl(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let dead = lock(&alice).ttl(SHORT).no_renew().read().await;
    let dead = dead.expect("nobody writes").into_guard();
    let living = read(&alice).await;
    let writer = waiting(fixture, &bob, Wants::Write, 1).await;
    wait_for_end(&dead);
    assert!(!writer.is_finished(), "one of them is held");
    living.release().await.expect("it was held");
    let _writer = won(writer).await;
    assert!(dead.release().await.is_err(), "it has ended");
}

async fn reader_is_renewed_while_others_come_and_go(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let ttl = SHORT * 2;
    let reader = lock(&alice).ttl(ttl).read().await.expect("nobody writes");
    let started = Instant::now();
    while started.elapsed() < ttl * 3 {
        read(&bob).await.release().await.expect("it was held");
    }
    reader.check().expect("it is renewed");
    reader.verify().await.expect("it is renewed");
    reader.extend(LONG).await.expect("a majority has it");
    assert!(reader.remaining() > LONG / 2);
    assert!(lock(&bob).try_write().await.expect("every node answers").is_none());
}

async fn dropped_readers_and_waiters_leave_nothing(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let writer = lock(&alice).write().await.expect("it is free");
    let waiter = waiting(fixture, &bob, Wants::Read, 1).await;
    waiter.abort();
    reported(fixture, &alice, |report| report.waiting_total == 0).await;
    drop(writer);
    drop(read(&bob).await);
    wait_until_gone(fixture);
    let gave_up = {
        let _writer = lock(&alice).write().await.expect("it is free");
        lock(&bob).read_timeout(Duration::from_millis(20)).await
    };
    assert!(gave_up.is_err());
    wait_until_gone(fixture);
}

async fn share_is_handed_over_to_another_process(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let _other = read(&alice).await;
    let lease = read(&alice).await.detach().await.unwrap();
    assert_eq!(lease.fence(), None);
    let lease: DetachedLease = lease.expose_secret().parse().expect("it is one");
    assert!(bob.renew_lease(&lease).await.expect("it is there") > LONG / 2);
    let guard = bob.adopt(&lease).await.expect("it is there");
    let twice = bob.adopt(&lease).await;
    assert!(matches!(twice, Err(LeaseError::Lost(_))), "{twice:?}");
    assert_eq!(guard.fence(), None);
    guard.extend(LONG).await.expect("a majority has it");
    guard.verify().await.expect("bob has it");
    assert!(lock(&bob).try_write().await.expect("every node answers").is_none());
    let report = reported(fixture, &alice, |report| report.shared_with.len() == 1).await;
    let holder = report.holder.expect("a holder");
    let mut whos = [&*holder.who, &*report.shared_with[0].who];
    whos.sort_unstable();
    assert_eq!(whos, ["alice", "bob"]);
    let lease = guard.detach().await.unwrap();
    alice.release_lease(&lease).await.expect("it is there");
    assert!(alice.renew_lease(&lease).await.is_err(), "it has ended");
    reported(fixture, &alice, |report| report.shared_with.is_empty()).await;
}

/// Unlike an exclusive holder, whose fence must be the newest: other readers come all the time.
async fn node_that_lost_its_data_gets_every_share_again(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    if fixture.tolerated() == 0 {
        return;
    }
    let reader = read(&alice).await;
    reported(fixture, &bob, |report| report.votes == fixture.len()).await;
    fixture.forget(0);
    let late = read(&bob).await;
    let started = Instant::now();
    loop {
        reader.extend(LONG).await.expect("a majority has it");
        late.extend(LONG).await.expect("a majority has it");
        let report = bob.inspect("a").await.expect("every node answers");
        if report.votes == fixture.len() && report.shared_with.len() == 1 {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{report:?}");
    }
}
