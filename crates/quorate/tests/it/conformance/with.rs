//! Work that is done under a lock.

use std::{num::ParseIntError, time::Duration};

use quorate::error::{LockError, LostReason, NameError, WithError};

use super::fixture::{Fixture, SHORT, take, wait_for_end};

on_every_engine! {
    [1, 2, 3, 4, 5] => work_runs_under_the_lock_and_its_value_comes_back,
        work_that_returns_early_releases_the_lock,
        work_that_panics_releases_the_lock,
        work_that_outlives_the_lease_is_reported,
        work_does_not_start_without_the_lock;
}

async fn work_runs_under_the_lock_and_its_value_comes_back(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let value = alice
        .mutex("a")
        .with(async |guard| {
            guard.verify().await.expect("it is held");
            assert!(bob.mutex("a").try_lock().await.expect("every node answers").is_none());
            guard.name().to_owned()
        })
        .await;
    assert_eq!(value, Ok("a".to_owned()));
    fixture.wait_until_empty(fixture.all());
    assert!(bob.mutex("a").try_lock().await.expect("every node answers").is_some());
}

async fn work_that_returns_early_releases_the_lock(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let work = async |_: &_| -> Result<u32, ParseIntError> { Ok("three".parse::<u32>()? + 1) };
    let value = client.mutex("a").with(work).await.expect("it was held to the end");
    assert!(value.is_err());
    fixture.wait_until_empty(fixture.all());
}

async fn work_that_panics_releases_the_lock(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let mutex = client.mutex("a");
    let work = tokio::spawn(async move {
        let work = async |_: &_| panic!("the work has failed, as this test wants it");
        mutex.with(work).await
    });
    assert!(work.await.is_err_and(|error| error.is_panic()));
    fixture.wait_until_empty(fixture.all());
    let again = client.mutex("a").try_lock().await.expect("every node answers");
    assert!(again.is_some(), "it is free");
}

async fn work_that_outlives_the_lease_is_reported(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let done =
        client.mutex("a").ttl(SHORT).no_renew().with(async |guard| wait_for_end(guard)).await;
    assert!(matches!(done, Err(WithError::Lost(lost)) if lost.reason == LostReason::Expired));
}

async fn work_does_not_start_without_the_lock(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let done = client.mutex("").with(async |_| panic!("no lock, no work")).await;
    assert_eq!(done, Err::<(), _>(WithError::Lock(LockError::InvalidName(NameError::Empty))));

    // A caller who gives up waiting drops the work before it starts.
    let guard = take(client.mutex("a")).await;
    let mutex = client.mutex("a");
    let work = mutex.with(async |_| panic!("no lock, no work"));
    let given_up = tokio::time::timeout(Duration::from_millis(20), work).await;
    assert!(given_up.is_err());
    guard.verify().await.expect("it is still held");
    guard.release().await.expect("it was held");
    fixture.wait_until_empty(fixture.all());
}
