//! All locks or none, and the guarantees of each.

use std::time::Duration;

use quorate::{Guard, error::LockError};

use super::{pair, take_all, wait_until_only, wait_until_queued, waiting};
use crate::{
    conformance::fixture::{Fixture, PATIENCE, take},
    mode::Mode,
};

on_every_engine! {
    [1, 3, 5] => try_takes_all_locks_or_none,
        held_set_excludes_mutexes_of_its_names,
        held_mutex_excludes_sets_with_its_name,
        set_waits_until_its_last_lock_is_free,
        timeout_names_a_holder_and_leaves_nothing_reserved,
        every_lock_has_a_fence_of_its_own_that_grows,
        guards_of_a_set_can_be_released_one_by_one;
}

async fn try_takes_all_locks_or_none(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    for held in ["a", "b", "c"] {
        let guard = take(bob.mutex(held)).await;
        let set = alice.mutex_all(["c", "a", "b"]);
        assert!(set.try_lock().await.expect("every node answers").is_none(), "{held} is held");
        wait_until_only(fixture, &[held]);
        guard.release().await.expect("it was held");
        let guard = set.try_lock().await.expect("every node answers").expect("all are free");
        guard.verify().await.expect("a majority has all of them");
        guard.check().expect("all are held");
        wait_until_only(fixture, &["a", "b", "c"]);
        guard.release().await.expect("all were held");
        wait_until_only(fixture, &[]);
    }
}

async fn held_set_excludes_mutexes_of_its_names(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guard = take_all(pair(&alice)).await;
    for client in [&alice, &bob] {
        for name in ["a", "b"] {
            let tried = client.mutex(name).try_lock().await.expect("every node answers");
            assert!(tried.is_none(), "{name} is held");
        }
        let tried = client.mutex_all(["b", "c"]).try_lock().await.expect("every node answers");
        assert!(tried.is_none(), "b is held");
        take(client.mutex("c")).await.release().await.expect("it was held");
    }
    let mutex = bob.mutex("b");
    let waiter = tokio::spawn(async move { mutex.lock().await.expect("its turn comes") });
    wait_until_queued(fixture, &alice, "b", 1).await;
    assert!(!waiter.is_finished(), "b is held");
    drop(guard);
    let bobs = waiter.await.expect("no panic");
    wait_until_only(fixture, &["b"]);
    bobs.release().await.expect("it was held");
}

async fn held_mutex_excludes_sets_with_its_name(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    for name in ["a", "b"] {
        let guard = take(bob.mutex(name)).await;
        let waiter = waiting(pair(&alice));
        wait_until_queued(fixture, &bob, name, 1).await;
        assert!(!waiter.is_finished(), "{name} is held");
        guard.verify().await.expect("a waiting set does not end it");
        guard.release().await.expect("it was held");
        let set = waiter.await.expect("no panic");
        set.verify().await.expect("it is held");
        set.release().await.expect("it was held");
    }
    wait_until_only(fixture, &[]);
}

async fn set_waits_until_its_last_lock_is_free(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let (a, b) = (take(bob.mutex("a")).await, take(bob.mutex("b")).await);
    let waiter = waiting(pair(&alice));
    wait_until_queued(fixture, &bob, "a", 1).await;
    wait_until_queued(fixture, &bob, "b", 1).await;
    a.release().await.expect("it was held");
    b.verify().await.expect("it is held");
    assert!(!waiter.is_finished(), "b is held");
    b.release().await.expect("it was held");
    let set = waiter.await.expect("no panic");
    set.check().expect("both are held");
    let names: Vec<&str> = set.guards().iter().map(Guard::name).collect();
    assert_eq!(names, ["a", "b"]);
    drop(set);
    wait_until_only(fixture, &[]);
}

async fn timeout_names_a_holder_and_leaves_nothing_reserved(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guard = take(bob.mutex("b")).await;
    let wait = Duration::from_millis(30);
    let error = pair(&alice).lock_timeout(wait).await.expect_err("bob holds b");
    let LockError::Timeout { waited, holder: Some(holder), .. } = error else { panic!("{error}") };
    assert!(waited >= wait, "{waited:?}");
    assert_eq!(holder.who, "bob");
    wait_until_only(fixture, &["b"]);
    guard.release().await.expect("it was held");
    take_all(pair(&bob)).await.release().await.expect("nothing is reserved");
}

async fn every_lock_has_a_fence_of_its_own_that_grows(fixture: &Fixture) {
    let clients = [fixture.client("alice").await, fixture.client("bob").await];
    let mut last = [None, None];
    for round in 0..4 {
        let client = &clients[round % 2];
        let plain = take(client.mutex("a")).await;
        let fence = plain.fence();
        plain.release().await.expect("it was held");
        let set = take_all(pair(&clients[round / 2])).await;
        assert_eq!(set.fence("c"), None, "it is not in the set");
        let fences = [set.fence("a"), set.fence("b")];
        if fixture.mode() == Mode::Classic {
            assert_eq!(fences, [None, None]);
        } else {
            assert!(fence > last[0] && fences[0] > fence && fences[1] > last[1], "{fences:?}");
        }
        last = fences;
        set.release().await.expect("both were held");
    }
    wait_until_only(fixture, &[]);
}

async fn guards_of_a_set_can_be_released_one_by_one(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let mut guards = take_all(pair(&alice)).await.into_guards();
    let b = guards.remove(1);
    b.release().await.expect("it was held");
    let bobs = bob.mutex("b").lock_timeout(PATIENCE).await.expect("b is free");
    assert!(bob.mutex("a").try_lock().await.expect("every node answers").is_none());
    guards[0].verify().await.expect("a is held");
    drop((guards, bobs));
    wait_until_only(fixture, &[]);
}
