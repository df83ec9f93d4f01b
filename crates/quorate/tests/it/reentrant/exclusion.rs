//! Other holders of the lock exclude entries, and entries exclude them.

use super::{assert_others_are_excluded, enter, entry, is_taken, release, waiting, won};
use crate::conformance::fixture::{Fixture, take};

in_line_on_every_engine! {
    [1, 2, 3, 5] => holder_without_an_identity_excludes_entries,
        readers_and_a_writer_exclude_entries,
        others_of_every_kind_acquire_after_the_last_entry;
}

async fn holder_without_an_identity_excludes_entries(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guard = take(alice.mutex("a")).await;
    // It is held without an identity, so not even its own client can enter.
    assert!(is_taken(entry(&alice, alice.identity())).await);
    assert!(is_taken(entry(&bob, "x")).await);
    let waiter = waiting(fixture, &bob, entry(&bob, "x"), 1).await;
    guard.verify().await.expect("it is held");
    release(guard).await;
    let held = won(waiter).await;
    assert_others_are_excluded(&alice).await;
    release(held).await;
    fixture.wait_until_empty(fixture.all());
}

async fn readers_and_a_writer_exclude_entries(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let lock = alice.rwlock("a");
    let readers = [lock.read().await.expect("free"), lock.read().await.expect("free")];
    assert!(is_taken(entry(&alice, "x")).await);
    let waiter = waiting(fixture, &bob, entry(&bob, "x"), 1).await;
    for reader in readers {
        assert!(!waiter.is_finished(), "a reader holds it");
        release(reader.into_guard()).await;
    }
    release(won(waiter).await).await;
    let writer = lock.write().await.expect("it is free");
    let waiter = waiting(fixture, &bob, entry(&bob, "x"), 1).await;
    assert!(is_taken(entry(&alice, "x")).await);
    release(writer.into_guard()).await;
    release(won(waiter).await).await;
    fixture.wait_until_empty(fixture.all());
}

async fn others_of_every_kind_acquire_after_the_last_entry(fixture: &Fixture) {
    let alice = fixture.client("alice").await;
    let lock = alice.rwlock("a");
    for kind in 0..4 {
        let guards = [enter(&alice, "x").await, enter(&alice, "x").await];
        let lock = lock.clone();
        let waiter = match kind {
            0 => waiting(fixture, &alice, alice.mutex("a"), 1).await,
            1 => waiting(fixture, &alice, entry(&alice, "y"), 1).await,
            2 => tokio::spawn(async move { lock.read().await.map(Into::into) }),
            _ => tokio::spawn(async move { lock.write().await.map(Into::into) }),
        };
        super::reported(fixture, &alice, |report| report.waiting_total == 1).await;
        for guard in guards {
            assert!(!waiter.is_finished(), "kind {kind}: an entry is there");
            guard.verify().await.expect("it is held");
            release(guard).await;
        }
        release(won(waiter).await).await;
        fixture.wait_until_empty(fixture.all());
    }
}
