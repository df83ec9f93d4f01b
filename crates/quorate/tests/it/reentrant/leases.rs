//! Each entry has a lease of its own: the others stay when one ends.

use std::time::{Duration, Instant};

use quorate::{
    Guard,
    error::{LostReason, VerifyError},
};
use quorate_core::quorum::majority;

use super::{enter, entry, is_taken, release, waiting, won};
use crate::conformance::fixture::{Fixture, LONG, PATIENCE, SHORT, take, wait_for_end};

in_line_on_every_engine! {
    [1, 2, 3, 5] => expired_entry_does_not_affect_other_entries,
        entry_that_reaches_max_hold_does_not_affect_other_entries,
        all_entries_are_lost_with_the_majority,
        last_entry_of_a_killed_client_delays_others_for_at_most_its_ttl,
        entry_of_an_ended_client_keeps_the_lock_for_its_ttl,
        entries_of_a_client_that_shuts_down_are_released;
    [1, 3] => each_entry_is_renewed_separately;
}

async fn expired_entry_does_not_affect_other_entries(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    for is_outer in [true, false] {
        let short = entry(&bob, "x").ttl(SHORT).no_renew();
        let (dead, living) = if is_outer {
            let dead = take(short).await;
            (dead, enter(&alice, "x").await)
        } else {
            let living = enter(&alice, "x").await;
            (take(short).await, living)
        };
        assert_eq!(lost(&dead).await, LostReason::Expired);
        living.check().expect("it has a lease of its own");
        living.verify().await.expect("it has a lease of its own");
        assert!(is_taken(bob.mutex("a")).await);
        assert!(matches!(dead.verify().await, Err(VerifyError::Lost(_))));
        assert!(dead.release().await.is_err(), "it has ended");
        living.verify().await.expect("that was another entry");
        release(living).await;
        fixture.wait_until_empty(fixture.all());
    }
}

async fn entry_that_reaches_max_hold_does_not_affect_other_entries(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let living = enter(&client, "x").await;
    let brief = take(entry(&client, "x").max_hold(Duration::from_millis(30))).await;
    assert_eq!(lost(&brief).await, LostReason::MaxHold);
    living.verify().await.expect("it is held");
    assert!(brief.release().await.is_err());
    assert!(is_taken(entry(&client, "y")).await);
    release(living).await;
    fixture.wait_until_empty(fixture.all());
}

async fn each_entry_is_renewed_separately(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let ttl = SHORT * 16;
    let outer = take(entry(&alice, "x").ttl(ttl)).await;
    let inner = take(entry(&bob, "x").ttl(ttl)).await;
    let started = Instant::now();
    while started.elapsed() < ttl * 3 / 2 {
        release(enter(&bob, "x").await).await;
    }
    for guard in [&outer, &inner] {
        guard.check().expect("it is renewed");
        guard.extend(LONG).await.expect("a majority has it");
        assert!(guard.remaining() > LONG / 2);
    }
    release(outer).await;
    assert!(is_taken(alice.mutex("a")).await);
    release(inner).await;
    fixture.wait_until_empty(fixture.all());
}

async fn all_entries_are_lost_with_the_majority(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let ttl = Duration::from_secs(3);
    let guards = [
        take(entry(&alice, "x").ttl(ttl)).await,
        take(entry(&bob, "x").ttl(ttl)).await,
        take(entry(&alice, "x").ttl(ttl)).await,
    ];
    (0..majority(fixture.len())).for_each(|node| fixture.plant(node, "a", b"another"));
    for guard in &guards {
        assert_eq!(lost(guard).await, LostReason::Gone);
        assert!(guard.check().is_err() && guard.remaining().is_zero());
    }
    assert!(is_taken(entry(&alice, "x")).await, "another program has it");
    for guard in guards {
        assert!(guard.release().await.is_err(), "it was lost");
    }
    fixture.wait_until_only("a", 0..majority(fixture.len()));
    fixture.wait_until_empty(majority(fixture.len())..fixture.len());
}

async fn last_entry_of_a_killed_client_delays_others_for_at_most_its_ttl(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let living = enter(&alice, "x").await;
    let dead = take(entry(&alice, "x").ttl(SHORT).no_renew()).await;
    let waiter = waiting(fixture, &bob, bob.mutex("a"), 1).await;
    wait_for_end(&dead);
    assert!(!waiter.is_finished(), "one of them is held");
    release(living).await;
    release(won(waiter).await).await;
    drop(dead);
    fixture.wait_until_empty(fixture.all());
}

/// Its client sends neither a release nor a renewal.
async fn entry_of_an_ended_client_keeps_the_lock_for_its_ttl(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let carol = fixture.client("carol").await;
    let ttl = Duration::from_millis(600);
    let living = enter(&alice, "x").await;
    let dead = take(entry(&bob, "x").ttl(ttl)).await;
    let (left, since) = (dead.remaining(), Instant::now());
    dead.leave_to_expire();
    drop(bob);
    living.verify().await.expect("it is held");
    assert!(is_taken(carol.mutex("a")).await);
    let waiter = waiting(fixture, &carol, carol.mutex("a"), 1).await;
    release(living).await;
    let next = won(waiter).await;
    let waited = since.elapsed();
    assert!(waited + Duration::from_millis(1) >= left, "{waited:?} of {left:?}");
    next.verify().await.expect("it is free");
    release(next).await;
    fixture.wait_until_empty(fixture.all());
}

async fn entries_of_a_client_that_shuts_down_are_released(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let (outer, other) = (enter(&alice, "x").await, enter(&bob, "x").await);
    let inner = enter(&alice, "x").await;
    assert!(alice.shutdown(PATIENCE).await.is_clean);
    for guard in [&outer, &inner] {
        assert!(guard.check().is_err(), "its client is shut down");
    }
    super::wait_until_entered(fixture, &bob, 1).await;
    other.verify().await.expect("it belongs to another client");
    assert!(is_taken(bob.mutex("a")).await);
    release(other).await;
    fixture.wait_until_empty(fixture.all());
    drop(take(bob.mutex("a")).await);
}

async fn lost(guard: &Guard) -> LostReason {
    tokio::time::timeout(PATIENCE, guard.lost()).await.expect("it is notified").reason
}
