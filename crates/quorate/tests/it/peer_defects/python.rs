//! redis-py, aredis and python-redis-lock.

use std::{task::Poll, time::Duration};

use quorate::{
    Client,
    error::ReleaseError,
    memory::Behaviour::{Answer, Fail, Hang},
};
use quorate_testkit::{Server, eventually};

use crate::{
    faults::cluster::PATIENCE,
    links::executor::block_on,
    watchdog::{
        fixture::{NAME, PausedFixture, TTL, pass, take},
        journal::Journal,
    },
};

#[tokio::test(start_paused = true)]
async fn redis_py_cancelled_release_still_releases() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    fixture.behave(&[Hang; 3]);
    let mut release = Box::pin(guard.release());
    let polled = std::future::poll_fn(|cx| Poll::Ready(release.as_mut().poll(cx))).await;
    assert!(polled.is_pending());
    drop(release);
    fixture.behave(&[Answer; 3]);
    assert_eq!(fixture.holding(), 0);
    drop(fixture.hold().await);
}

#[tokio::test(start_paused = true)]
async fn redis_py_release_that_is_never_polled_still_releases() {
    let fixture = PausedFixture::new(3);
    drop(fixture.hold().await.release());
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn redis_py_connection_error_on_release_does_not_leave_the_key_forever() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    fixture.behave(&[Fail; 3]);
    assert!(matches!(guard.release().await, Err(ReleaseError::NoQuorum { .. })));
    fixture.behave(&[Answer; 3]);
    assert_eq!(fixture.holding(), 0, "the release is sent later");
}

#[tokio::test(start_paused = true)]
async fn redis_py_tasks_do_not_share_an_owner() {
    let fixture = PausedFixture::new(3);
    let mutex = fixture.mutex();
    let first = take(&mutex.clone().no_renew()).await;
    pass(2 * TTL).await;
    // Another task of the same client and the same lock object, on the same thread.
    let second = tokio::spawn(async move { take(&mutex).await }).await.unwrap();
    assert!(first.release().await.is_err());
    second.verify().await.unwrap();
}

#[test]
fn python_redis_lock_ttl_never_becomes_infinite() {
    let server = Server::start();
    let journal = Journal::default();
    let settings =
        Client::builder().quarantine(false).nodes([server.url()]).observer(journal.clone());
    let client = block_on(settings.connect()).unwrap();
    let guard = block_on(client.mutex(NAME).ttl(SHORT).lock()).unwrap();
    let is_finite = |ttl: Duration| {
        let left = server.pttl(NAME);
        assert!((1..=ttl.as_millis() as i64).contains(&left), "{left} ms of {ttl:?}");
    };
    is_finite(SHORT);
    eventually("it is renewed", PATIENCE, || {
        is_finite(SHORT);
        journal.count("renewed orders:42 done") > 3
    });
    for ttl in [3 * SHORT, SHORT] {
        block_on(guard.extend(ttl)).unwrap();
        is_finite(3 * SHORT);
    }
}

#[test]
fn python_redis_lock_ttl_below_a_second_is_kept() {
    let server = Server::start();
    let client = block_on(Client::connect([server.url()])).unwrap();
    let mutex = client.mutex(NAME).ttl(Duration::from_millis(123)).no_renew();
    let guard = block_on(mutex.lock()).unwrap();
    assert!((-2..=123).contains(&server.pttl(NAME)));
    eventually("it expires", PATIENCE, || server.lock_keys().is_empty());
    assert!(guard.check().is_err(), "its holder knew before");
}

#[tokio::test(start_paused = true)]
async fn python_redis_lock_renewal_survives_an_error() {
    let fixture = PausedFixture::new(1);
    let guard = fixture.hold().await;
    for _ in 0..10 {
        fixture.behave(&[Fail]);
        pass(TTL / 2).await;
        fixture.behave(&[Answer]);
        pass(TTL / 2).await;
        guard.check().unwrap();
    }
}

const SHORT: Duration = Duration::from_millis(800);
