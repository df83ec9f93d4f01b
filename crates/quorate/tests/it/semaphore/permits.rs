//! All permits can be used, each has one holder, and each returns after a release or a crash.

use quorate::error::LockError;
use std::time::Duration;

use super::{jobs, names, take, wait_for_queue, wait_until_only};
use crate::{
    conformance::fixture::{Fixture, LONG, PATIENCE, SHORT},
    mode::Mode,
};

on_every_engine! {
    [1, 3, 5] => all_permits_can_be_acquired_and_no_more,
        waiter_acquires_the_released_permit,
        waiter_keeps_one_of_several_released_permits,
        permit_of_a_killed_holder_expires,
        killed_first_waiter_delays_others_for_at_most_its_ttl,
        fences_of_a_permit_grow,
        callers_with_different_sizes_share_the_first_permits;
}

async fn all_permits_can_be_acquired_and_no_more(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("billing/db1/4711").await, fixture.client("bob").await);
    let mut guards = take(&jobs(&alice, 4), 4).await;
    assert_eq!(names(&guards), ["jobs#1", "jobs#2", "jobs#3", "jobs#4"]);
    assert!(jobs(&bob, 4).try_acquire().await.expect("all answer").is_none());
    let wait = Duration::from_millis(30);
    let error = jobs(&bob, 4).acquire_timeout(wait).await.expect_err("alice has all");
    let LockError::Timeout { waited, holder: Some(holder), .. } = error else { panic!("{error}") };
    assert!(waited >= wait, "{waited:?}");
    assert_eq!(holder.who, "billing/db1/4711");
    wait_until_only(fixture, &guards);

    let freed = guards.remove(2);
    let name = freed.name().to_owned();
    freed.release().await.expect("it is held");
    let got = jobs(&bob, 4).try_acquire().await.expect("all answer").expect("one is free");
    assert_eq!(got.name(), name);
    assert!(jobs(&alice, 4).try_acquire().await.expect("all answer").is_none());
    guards.push(got);
    wait_until_only(fixture, &guards);
    drop(guards);
    wait_until_only(fixture, &[]);
}

async fn waiter_acquires_the_released_permit(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let mut guards = take(&jobs(&alice, 3), 3).await;
    guards.sort_by_key(|guard| guard.name().to_owned());
    // Each of them in turn: a waiter waits for all of them.
    for number in 0..3 {
        let semaphore = jobs(&bob, 3);
        let waiting = tokio::spawn(async move { semaphore.acquire().await });
        wait_for_queue(fixture, &alice, 3, 0).await;
        assert!(!waiting.is_finished(), "all are taken");
        let freed = guards.remove(number);
        let name = freed.name().to_owned();
        freed.release().await.expect("it is held");
        // It would ask again after ten seconds, but it is notified. In classic mode it polls.
        let got = tokio::time::timeout(LONG / 6, waiting).await.expect("it is notified");
        let got = got.expect("no panic").expect("one is free");
        assert_eq!(got.name(), name);
        guards.insert(number, got);
        wait_until_only(fixture, &guards);
    }
}

async fn waiter_keeps_one_of_several_released_permits(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    for _ in 0..5 {
        let guards = take(&jobs(&alice, 4), 4).await;
        let semaphore = jobs(&bob, 4);
        let waiting = tokio::spawn(async move { semaphore.acquire().await });
        wait_for_queue(fixture, &alice, 4, 0).await;
        drop(guards);
        let got = tokio::time::timeout(LONG / 6, waiting).await.expect("it is notified");
        let mut got = vec![got.expect("no panic").expect("some are free")];
        wait_until_only(fixture, &got);
        got.extend(take(&jobs(&alice, 4), 3).await);
        wait_until_only(fixture, &got);
        drop(got);
        wait_until_only(fixture, &[]);
    }
}

async fn permit_of_a_killed_holder_expires(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let kept = take(&jobs(&alice, 2), 1).await;
    // It is neither renewed nor released, as after a crash.
    let dies = take(&jobs(&alice, 2).ttl(SHORT).no_renew(), 1).await.remove(0);
    let name = dies.name().to_owned();
    dies.leave_to_expire();
    let got = jobs(&bob, 2).acquire_timeout(PATIENCE).await.expect("the first has expired");
    assert_eq!(got.name(), name);
    drop((kept, got));
    wait_until_only(fixture, &[]);
}

async fn killed_first_waiter_delays_others_for_at_most_its_ttl(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guards = take(&jobs(&alice, 2), 2).await;
    let dead = alice.mutex("jobs#queue").ttl(4 * SHORT).no_renew().lock().await.expect("free");
    dead.leave_to_expire();
    let semaphore = jobs(&bob, 2);
    let waiting = tokio::spawn(async move { semaphore.acquire().await });
    // Only bob can become the first waiter, and it does.
    if fixture.mode() == Mode::Queue {
        wait_for_queue(fixture, &alice, 2, 0).await;
    }
    drop(guards);
    let got = tokio::time::timeout(LONG / 2, waiting).await.expect("it becomes the first waiter");
    let got = got.expect("no panic").expect("both are free");
    wait_until_only(fixture, &[got]);
}

async fn fences_of_a_permit_grow(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let mut last = None;
    for client in [&alice, &bob, &alice] {
        let mut guards = take(&jobs(client, 2), 2).await;
        guards.sort_by_key(|guard| guard.name().to_owned());
        let fences: Vec<_> = guards.iter().map(|permit| permit.fence()).collect();
        assert_eq!(fences.iter().all(Option::is_some), fixture.mode() == Mode::Queue);
        if let Some(last) = last.replace(fences.clone())
            && fixture.mode() == Mode::Queue
        {
            let pairs = fences.iter().zip(&last);
            assert!(pairs.into_iter().all(|(now, before)| now > before), "{fences:?} {last:?}");
        }
        drop(guards);
        wait_until_only(fixture, &[]);
    }
}

async fn callers_with_different_sizes_share_the_first_permits(fixture: &Fixture) {
    let (few, many) = (fixture.client("few").await, fixture.client("many").await);
    let mut guards = take(&jobs(&few, 2), 2).await;
    assert_eq!(names(&guards), ["jobs#1", "jobs#2"]);
    assert!(jobs(&few, 2).try_acquire().await.expect("all answer").is_none());
    guards.extend(take(&jobs(&many, 4), 2).await);
    assert_eq!(names(&guards), ["jobs#1", "jobs#2", "jobs#3", "jobs#4"]);
    assert!(jobs(&many, 4).try_acquire().await.expect("all answer").is_none());
}
