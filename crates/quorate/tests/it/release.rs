//! Releases: what they report, and what they leave on the nodes.

use std::task::Poll;

use quorate::{
    error::{LostReason, ReleaseError},
    memory::Behaviour::{Answer, Fail, Hang},
};
use tokio::time::Instant;

use crate::watchdog::fixture::{NAME, PausedFixture, TTL, is_taken, pass, take};

#[tokio::test(start_paused = true)]
async fn release_does_not_wait_for_a_hung_node() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    fixture.nodes.set(0, Hang);
    let started = Instant::now();
    guard.release().await.unwrap();
    assert!(started.elapsed().is_zero());

    let guard = fixture.hold().await;
    fixture.behave(&[Hang, Hang, Answer]);
    let released = tokio::time::timeout(TTL / 10, guard.release()).await.expect("it ends");
    assert!(matches!(released, Err(ReleaseError::NoQuorum { .. })), "{released:?}");
}

#[tokio::test(start_paused = true)]
async fn replaced_key_is_reported_as_a_loss() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    for node in 0..3 {
        fixture.nodes.forget(node);
        fixture.nodes.plant(node, NAME, b"an app's own data");
    }
    let Err(ReleaseError::Lost(lost)) = guard.release().await else { panic!("it is another's") };
    assert_eq!(lost.reason, LostReason::Gone);
    assert_eq!(fixture.holding(), 3, "the key of another program stays");
}

#[tokio::test(start_paused = true)]
async fn cancelled_release_still_releases() {
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
async fn release_that_is_never_polled_still_releases() {
    let fixture = PausedFixture::new(3);
    drop(fixture.hold().await.release());
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn failed_release_is_sent_later() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    fixture.behave(&[Fail; 3]);
    assert!(matches!(guard.release().await, Err(ReleaseError::NoQuorum { .. })));
    fixture.behave(&[Answer; 3]);
    assert_eq!(fixture.holding(), 0, "the release is sent later");
}

#[tokio::test(start_paused = true)]
async fn late_release_leaves_the_next_holder() {
    let fixture = PausedFixture::new(3);
    let late = take(&fixture.mutex().no_renew()).await;
    pass(2 * TTL).await;
    let next = fixture.other().mutex(NAME).lock().await.unwrap();
    assert!(matches!(late.release().await, Err(ReleaseError::Lost(_))));
    next.verify().await.unwrap();
    assert!(is_taken(&fixture.mutex()).await);
}

#[tokio::test(start_paused = true)]
async fn late_release_leaves_the_lock_of_another_task() {
    let fixture = PausedFixture::new(3);
    let mutex = fixture.mutex();
    let first = take(&mutex.clone().no_renew()).await;
    pass(2 * TTL).await;
    // Another task of the same client and the same lock object, on the same thread.
    let second = tokio::spawn(async move { take(&mutex).await }).await.unwrap();
    assert!(first.release().await.is_err());
    second.verify().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn guard_that_a_task_drops_releases() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    tokio::spawn(async move { drop(guard) }).await.unwrap();
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn failed_release_does_not_hide_the_error_of_the_work() {
    let fixture = PausedFixture::new(3);
    let mutex = fixture.mutex();
    let worked = mutex.with(async |_| {
        fixture.behave(&[Fail; 3]);
        Err::<(), _>("no such order")
    });
    assert_eq!(worked.await.unwrap(), Err("no such order"), "no node received the release");
}
