//! A holder that vanishes excludes others for at most its ttl.

use std::time::{Duration, Instant};

use quorate::{
    Guard, Mutex,
    error::{ExtendError, LostReason, ReleaseError, VerifyError},
};

use super::fixture::{Fixture, LONG, PATIENCE, SHORT, take, wait_for_end};

on_every_engine! {
    [1, 2, 3, 4, 5] => expired_lock_is_reported_to_its_holder_before_it_is_free,
        expired_guard_reports_its_loss,
        extended_lock_outlives_its_first_ttl;
}

async fn expired_lock_is_reported_to_its_holder_before_it_is_free(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let first = take(alice.mutex("a").ttl(SHORT).no_renew()).await;
    let second = take_as_soon_as_possible(&bob.mutex("a")).await;
    assert_eq!(first.remaining(), Duration::ZERO, "alice's lease must have ended before");
    assert!(first.check().is_err_and(|lost| lost.reason == LostReason::Expired));
    second.check().expect("it is bob's now");
    assert!(!second.remaining().is_zero());
}

async fn expired_guard_reports_its_loss(fixture: &Fixture) {
    let alice = fixture.client("alice").await;
    let guard = take(alice.mutex("a").ttl(SHORT).no_renew()).await;
    wait_for_end(&guard);
    let lost = guard.check().expect_err("it has expired");
    assert_eq!(lost.reason, LostReason::Expired);
    assert_eq!(guard.extend(LONG).await, Err(ExtendError::Lost(lost.clone())));
    assert_eq!(guard.verify().await, Err(VerifyError::Lost(lost.clone())));
    assert_eq!(guard.remaining(), Duration::ZERO, "nothing revives it");
    assert_eq!(guard.release().await, Err(ReleaseError::Lost(lost)));
    // The release is sent all the same: a node whose clock is slow may still have the key.
    fixture.wait_until_empty(fixture.all());
}

async fn extended_lock_outlives_its_first_ttl(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guard = take(alice.mutex("a").ttl(UNHURRIED).no_renew()).await;
    guard.extend(LONG).await.expect("it is alice's");
    // A lock with the same ttl that was taken later: when it has expired, so has the first.
    let gauge = take(bob.mutex("gauge").ttl(UNHURRIED).no_renew()).await;
    wait_for_end(&gauge);
    let after = take_as_soon_as_possible(&alice.mutex("gauge")).await;

    guard.check().expect("it was extended");
    guard.verify().await.expect("on the nodes as well");
    assert!(bob.mutex("a").try_lock().await.expect("every node answers").is_none());
    guard.release().await.expect("it is alice's");
    after.release().await.expect("it is alice's");
}

/// Tries without a pause, to catch a node that grants the lock too early.
async fn take_as_soon_as_possible(mutex: &Mutex) -> Guard {
    let started = Instant::now();
    loop {
        if let Some(guard) = mutex.try_lock().await.expect("every node answers") {
            return guard;
        }
        assert!(started.elapsed() < PATIENCE, "the lock is not released");
        tokio::task::yield_now().await;
    }
}

/// A ttl whose end is waited for, but which a slow machine does not miss.
const UNHURRIED: Duration = Duration::from_secs(1);
