//! A set of which one lock is lost.

use std::time::Duration;

use quorate::{
    GuardAll,
    error::{Lost, LostReason, ReleaseError, VerifyError, WithError},
};
use quorate_core::quorum::majority;

use super::{pair, take_all, wait_until_only};
use crate::conformance::fixture::{Fixture, LONG, PATIENCE, take};

on_every_engine! {
    [1, 3, 5] => loss_of_one_lock_is_a_loss_of_the_set,
        extension_by_hand_reports_the_lock_that_is_lost,
        work_under_a_set_is_dropped_when_one_lock_is_lost,
        set_that_is_held_for_too_long_is_lost;
}

async fn loss_of_one_lock_is_a_loss_of_the_set(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    for robbed in ["a", "b"] {
        let set = take_all(pair(&client).ttl(TTL)).await;
        let (token, lost) = (set.loss_token(), set.lost());
        set.check().expect("both are held");
        assert!(!token.is_lost());
        rob(fixture, robbed);
        // The watchdog notices it, and every check and every waiter reports it.
        assert_gone(&in_time(lost).await);
        assert_gone(&in_time(token.lost()).await);
        assert!(token.is_lost() && set.remaining().is_zero());
        assert_gone(&set.check().expect_err("one lock is lost"));
        let verified = set.verify().await.expect_err("one lock is lost");
        assert!(matches!(verified, VerifyError::Lost(_)), "{verified:?}");
        let other = set.guards().iter().find(|guard| guard.name() != robbed);
        other.expect("there are two").verify().await.expect("the other lock is held until then");
        let released = set.release().await.expect_err("one lock was lost");
        assert!(matches!(released, ReleaseError::Lost(_)), "{released:?}");
        wait_until_only(fixture, &[robbed]);
        fixture.all().for_each(|node| fixture.forget(node));
    }
}

async fn extension_by_hand_reports_the_lock_that_is_lost(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let set = take_all(pair(&client).no_renew()).await;
    set.extend(2 * LONG).await.expect("both are held");
    assert!(set.remaining() > LONG);
    rob(fixture, "b");
    set.check().expect("the loss is not known yet");
    set.extend(2 * LONG).await.expect_err("one lock is gone");
    assert_gone(&set.check().expect_err("one lock is gone"));
    drop(set);
    wait_until_only(fixture, &["b"]);
}

async fn work_under_a_set_is_dropped_when_one_lock_is_lost(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let set = take_all(pair(&client).ttl(TTL)).await;
    assert_eq!(set.run(async { 42 }).await.expect("both are held"), 42);
    let run = async |set: &GuardAll| set.run(std::future::pending::<()>()).await;
    let (ended, ()) = tokio::join!(in_time(run(&set)), async { rob(fixture, "b") });
    assert_gone(&ended.expect_err("b is lost"));
    drop(set);
    wait_until_only(fixture, &["b"]);
    fixture.all().for_each(|node| fixture.forget(node));

    let pair = pair(&client).ttl(TTL);
    let with = pair.with(async |_| {
        rob(fixture, "a");
        std::future::pending::<()>().await;
    });
    match in_time(with).await {
        Err(WithError::Lost(lost)) => assert_gone(&lost),
        other => panic!("a is lost: {other:?}"),
    }
    wait_until_only(fixture, &["a"]);
}

async fn set_that_is_held_for_too_long_is_lost(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let set = take_all(pair(&alice).max_hold(Duration::from_millis(30))).await;
    assert_eq!(in_time(set.lost()).await.reason, LostReason::MaxHold);
    drop(set);
    let fixed = take_all(pair(&alice).ttl(Duration::from_millis(150)).no_renew()).await;
    assert_eq!(in_time(fixed.lost()).await.reason, LostReason::Expired);
    drop(fixed);
    drop((take(bob.mutex("a")).await, take(bob.mutex("b")).await));
    wait_until_only(fixture, &[]);
}

/// A majority of the nodes deletes this lock, and stores it for another program.
fn rob(fixture: &Fixture, name: &str) {
    (0..majority(fixture.len())).for_each(|node| fixture.plant(node, name, b"another"));
}

fn assert_gone(lost: &Lost) {
    assert_eq!(lost.reason, LostReason::Gone, "{lost}");
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it is notified")
}

/// The watchdog checks every third of it. Long enough that a stall is not the reason.
const TTL: Duration = Duration::from_secs(3);
