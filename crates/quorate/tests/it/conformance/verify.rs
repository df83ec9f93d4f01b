//! Asking the nodes whether a lock is still there.

use quorate::error::{LostReason, ReleaseError, VerifyError};

use super::rig::{Rig, take};

on_every_engine! {
    [1, 2, 3, 4, 5] => a_held_lock_is_confirmed,
        keys_that_are_gone_from_a_minority_do_not_matter,
        keys_that_are_gone_from_a_majority_are_a_lost_lock,
        keys_that_are_anothers_on_a_majority_are_a_lost_lock;
}

async fn a_held_lock_is_confirmed(rig: &Rig) {
    let client = rig.client("alice").await;
    let guard = take(client.mutex("a")).await;
    for _ in 0..3 {
        guard.verify().await.expect("it is held");
    }
    guard.release().await.expect("and verifying has changed nothing");
}

async fn keys_that_are_gone_from_a_minority_do_not_matter(rig: &Rig) {
    let client = rig.client("alice").await;
    let guard = take(client.mutex("a")).await;
    rig.wait_until_only("a", rig.all());
    (0..rig.tolerated()).for_each(|node| rig.forget(node));
    guard.verify().await.expect("a majority has it");
    guard.check().expect("it is held");
    guard.release().await.expect("a majority had it");
    rig.wait_until_empty(rig.all());
}

async fn keys_that_are_gone_from_a_majority_are_a_lost_lock(rig: &Rig) {
    let client = rig.client("alice").await;
    let guard = take(client.mutex("a")).await;
    rig.wait_until_only("a", rig.all());
    (0..=rig.tolerated()).for_each(|node| rig.forget(node));
    guard.check().expect("nobody has told alice yet");
    let error = guard.verify().await.expect_err("too few nodes have it");
    let VerifyError::Lost(lost) = error else { panic!("{error}") };
    assert_eq!(lost.reason, LostReason::Gone);
    assert_eq!(guard.check(), Err(lost.clone()), "the guard knows from now on");
    assert!(guard.remaining().is_zero());
    assert_eq!(guard.release().await, Err(ReleaseError::Lost(lost)));
    rig.wait_until_empty(rig.all());
}

async fn keys_that_are_anothers_on_a_majority_are_a_lost_lock(rig: &Rig) {
    let client = rig.client("alice").await;
    let guard = take(client.mutex("a")).await;
    rig.wait_until_only("a", rig.all());
    (0..=rig.tolerated()).for_each(|node| rig.plant(node, "a", b"another's"));
    let error = guard.verify().await.expect_err("another has it");
    assert!(matches!(error, VerifyError::Lost(lost) if lost.reason == LostReason::Gone));
    assert!(guard.release().await.is_err());
    // What is another's stays; what was ours goes.
    rig.wait_until_empty(rig.tolerated() + 1..rig.len());
    rig.wait_until_only("a", 0..=rig.tolerated());
}
