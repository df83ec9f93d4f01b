//! Asking the nodes whether a lock is still there.

use quorate::error::{LostReason, ReleaseError, VerifyError};

use super::fixture::{Fixture, take};

on_every_engine! {
    [1, 2, 3, 4, 5] => verify_confirms_a_held_lock,
        keys_deleted_from_a_minority_do_not_matter,
        keys_deleted_from_a_majority_lose_the_lock,
        keys_of_another_owner_on_a_majority_lose_the_lock;
}

async fn verify_confirms_a_held_lock(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let guard = take(client.mutex("a")).await;
    for _ in 0..3 {
        guard.verify().await.expect("it is held");
    }
    guard.release().await.expect("and verifying has changed nothing");
}

async fn keys_deleted_from_a_minority_do_not_matter(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let guard = take(client.mutex("a")).await;
    fixture.wait_until_only("a", fixture.all());
    (0..fixture.tolerated()).for_each(|node| fixture.forget(node));
    guard.verify().await.expect("a majority has it");
    guard.check().expect("it is held");
    guard.release().await.expect("a majority stored it");
    fixture.wait_until_empty(fixture.all());
}

async fn keys_deleted_from_a_majority_lose_the_lock(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let guard = take(client.mutex("a")).await;
    fixture.wait_until_only("a", fixture.all());
    (0..=fixture.tolerated()).for_each(|node| fixture.forget(node));
    guard.check().expect("alice does not know yet");
    let error = guard.verify().await.expect_err("too few nodes have it");
    let VerifyError::Lost(lost) = error else { panic!("{error}") };
    assert_eq!(lost.reason, LostReason::Gone);
    assert_eq!(guard.check(), Err(lost.clone()), "the guard knows from now on");
    assert!(guard.remaining().is_zero());
    assert_eq!(guard.release().await, Err(ReleaseError::Lost(lost)));
    fixture.wait_until_empty(fixture.all());
}

async fn keys_of_another_owner_on_a_majority_lose_the_lock(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let guard = take(client.mutex("a")).await;
    fixture.wait_until_only("a", fixture.all());
    (0..=fixture.tolerated()).for_each(|node| fixture.plant(node, "a", b"another's"));
    let error = guard.verify().await.expect_err("another has it");
    assert!(matches!(error, VerifyError::Lost(lost) if lost.reason == LostReason::Gone));
    assert!(guard.release().await.is_err());
    // The keys of the other owner stay; ours are deleted.
    fixture.wait_until_empty(fixture.tolerated() + 1..fixture.len());
    fixture.wait_until_only("a", 0..=fixture.tolerated());
}
