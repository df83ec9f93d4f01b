//! Only the owner of a lock can release or extend it.

use quorate::error::{ExtendError, Lost, LostReason, ReleaseError, VerifyError};

use super::fixture::{Fixture, LONG, SHORT, holder, take, wait_for_end};

on_every_engine! {
    [1, 2, 3, 4, 5] => former_owner_cannot_touch_the_lock_of_the_next,
        owner_with_overwritten_keys_cannot_extend_the_lock_of_the_next,
        owner_with_overwritten_keys_cannot_release_the_lock_of_the_next,
        failed_attempts_do_not_disturb_the_holder;
}

async fn former_owner_cannot_touch_the_lock_of_the_next(fixture: &Fixture) {
    let (alice, bob, carol) =
        (fixture.client("alice").await, fixture.client("bob").await, fixture.client("carol").await);
    let late = take(alice.mutex("a").ttl(SHORT).no_renew()).await;
    let dropped = take(alice.mutex("b").ttl(SHORT).no_renew()).await;
    wait_for_end(&late);
    wait_for_end(&dropped);
    let next = take(bob.mutex("a")).await;
    let another = take(bob.mutex("b")).await;

    assert!(matches!(late.extend(2 * LONG).await, Err(ExtendError::Lost(lost)) if expired(&lost)));
    assert!(matches!(late.verify().await, Err(VerifyError::Lost(lost)) if expired(&lost)));
    assert!(matches!(late.release().await, Err(ReleaseError::Lost(lost)) if expired(&lost)));
    drop(dropped);
    // Requests of one client reach a node in their order: behind this, the release has run.
    assert_eq!(holder(&alice, "b").await.who, "bob");

    for (guard, name) in [(&next, "a"), (&another, "b")] {
        guard.verify().await.expect("bob has it on a majority");
        let seen = holder(&carol, name).await;
        assert_eq!(seen.who, "bob");
        assert!(seen.expires_in.is_some_and(|left| left <= LONG), "{seen:?}");
    }
    next.release().await.expect("it is bob's");
    another.release().await.expect("it is bob's");
}

async fn owner_with_overwritten_keys_cannot_extend_the_lock_of_the_next(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let robbed = take(alice.mutex("a")).await;
    fixture.wait_until_only("a", fixture.all());
    fixture.all().for_each(|node| fixture.forget(node));
    let next = take(bob.mutex("a")).await;

    robbed.check().expect("alice cannot know yet");
    assert!(matches!(robbed.extend(2 * LONG).await, Err(ExtendError::Lost(lost)) if gone(&lost)));
    assert!(robbed.remaining().is_zero());
    assert!(robbed.check().is_err_and(|lost| gone(&lost)));

    let seen = holder(&alice, "a").await;
    assert_eq!(seen.who, "bob");
    assert!(seen.expires_in.is_some_and(|left| left <= LONG), "not extended: {seen:?}");
    next.verify().await.expect("bob has it");
    next.release().await.expect("it is bob's");
}

async fn owner_with_overwritten_keys_cannot_release_the_lock_of_the_next(fixture: &Fixture) {
    let alice = fixture.client("alice").await;
    let robbed = take(alice.mutex("a")).await;
    fixture.wait_until_only("a", fixture.all());
    fixture.all().for_each(|node| fixture.forget(node));
    // The sessions were deleted with the keys, so an older client might miss a node.
    let bob = fixture.client("bob").await;
    let next = take(bob.mutex("a")).await;
    fixture.wait_until_only("a", fixture.all());

    assert!(matches!(robbed.release().await, Err(ReleaseError::Lost(lost)) if gone(&lost)));
    assert_eq!(holder(&alice, "a").await.who, "bob");
    next.verify().await.expect("bob has it");
    fixture.all().for_each(|node| assert_eq!(fixture.names(node), ["a"], "node {node}"));
    next.release().await.expect("it is bob's");
}

async fn failed_attempts_do_not_disturb_the_holder(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guard = take(alice.mutex("a")).await;
    fixture.wait_until_only("a", fixture.all());
    for _ in 0..20 {
        let tried = bob.mutex("a").ttl(2 * LONG).try_lock().await.expect("every node answers");
        assert!(tried.is_none(), "alice has it");
        // Nor does alice herself get it twice: the owner is the guard, not the client.
        let tried = alice.mutex("a").try_lock().await.expect("every node answers");
        assert!(tried.is_none(), "alice's other task has it");
    }
    guard.verify().await.expect("alice has it on a majority");
    let seen = holder(&bob, "a").await;
    assert_eq!(seen.who, "alice");
    assert!(seen.expires_in.is_some_and(|left| left <= LONG), "{seen:?}");
    fixture.all().for_each(|node| assert_eq!(fixture.names(node), ["a"], "node {node}"));
    guard.release().await.expect("it is alice's");
}

fn expired(lost: &Lost) -> bool {
    lost.reason == LostReason::Expired
}

fn gone(lost: &Lost) -> bool {
    lost.reason == LostReason::Gone
}
