//! Trying, waiting and timing out, and what a release leaves behind.

use std::time::Duration;

use quorate::error::LockError;

use super::fixture::{Fixture, LONG, PATIENCE, take};

on_every_engine! {
    [1, 2, 3, 4, 5] => try_lock_returns_none_while_the_lock_is_held,
        timeout_names_the_holder_and_when_its_lock_expires,
        waiting_ends_when_the_lock_is_released,
        lock_timeout_returns_when_the_lock_is_released,
        release_reaches_every_node,
        dropped_guard_is_released,
        dropped_client_leaves_no_key;
}

async fn try_lock_returns_none_while_the_lock_is_held(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guard = take(alice.mutex("a")).await;
    assert_eq!(guard.name(), "a");
    assert!(bob.mutex("a").try_lock().await.expect("every node answers").is_none());
    let other = bob.mutex("b").try_lock().await.expect("every node answers");
    assert!(other.is_some(), "another name is another lock");
    guard.release().await.expect("it was held");
    let tried = bob.mutex("a").try_lock().await.expect("every node answers");
    assert!(tried.is_some(), "it is free");
}

async fn timeout_names_the_holder_and_when_its_lock_expires(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("billing/db1/4711").await, fixture.client("bob").await);
    let guard = take(alice.mutex("a")).await;
    let wait = Duration::from_millis(30);
    let error = bob.mutex("a").lock_timeout(wait).await.expect_err("alice has it");
    let text = error.to_string();
    let LockError::Timeout { waited, holder: Some(holder), .. } = error else { panic!("{error}") };
    assert!(waited >= wait, "{waited:?}");
    assert_eq!(holder.who, "billing/db1/4711");
    assert!(holder.expires_in.is_some_and(|left| left > LONG / 2 && left <= LONG), "{holder:?}");
    assert!(text.contains("billing/db1/4711, expires in 2"), "{text}");
    guard.release().await.expect("it was held");
}

async fn waiting_ends_when_the_lock_is_released(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guard = take(alice.mutex("a")).await;
    let mutex = bob.mutex("a");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    // A caller that times out shows that time has passed.
    let gave_up = alice.mutex("a").lock_timeout(Duration::from_millis(60)).await;
    assert!(matches!(gave_up, Err(LockError::Timeout { .. })), "{gave_up:?}");
    assert!(!waiting.is_finished(), "bob waits");
    guard.release().await.expect("it was held");
    let bobs = waiting.await.expect("no panic").expect("the lock is free");
    bobs.verify().await.expect("bob has it");
}

async fn lock_timeout_returns_when_the_lock_is_released(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guard = take(alice.mutex("a")).await;
    let mutex = bob.mutex("a");
    let waiting = tokio::spawn(async move { mutex.lock_timeout(PATIENCE).await });
    tokio::task::yield_now().await;
    drop(guard);
    let bobs = waiting.await.expect("no panic").expect("the lock is free");
    bobs.verify().await.expect("bob has it");
}

async fn release_reaches_every_node(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let guard = take(client.mutex("a")).await;
    fixture.wait_until_only("a", fixture.all());
    guard.release().await.expect("it was held");
    fixture.wait_until_empty(fixture.all());
}

async fn dropped_guard_is_released(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let guard = take(client.mutex("a")).await;
    fixture.wait_until_only("a", fixture.all());
    // On a thread without a runtime: a guard can be dropped anywhere.
    std::thread::spawn(move || drop(guard)).join().expect("a drop does not panic");
    fixture.wait_until_empty(fixture.all());
}

async fn dropped_client_leaves_no_key(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let guard = take(client.mutex("a")).await;
    fixture.wait_until_only("a", fixture.all());
    drop(client);
    guard.verify().await.expect("a guard keeps its client alive");
    drop(guard);
    fixture.wait_until_empty(fixture.all());
}
