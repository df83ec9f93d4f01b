//! Which callers a loss is reported to.

use quorate::{error::LostReason, memory::Behaviour::Hang};
use tokio::task::JoinSet;

use crate::watchdog::fixture::{PausedFixture, TTL, loss, pass};

#[tokio::test(start_paused = true)]
async fn every_watcher_gets_the_loss() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    let flag = guard.loss_token();
    let mut watchers = JoinSet::new();
    for _ in 0..10 {
        // They do not borrow the guard: each of them is a task of its own.
        watchers.spawn(guard.lost());
        let flag = flag.clone();
        watchers.spawn(async move { flag.lost().await });
    }
    // A watcher that was polled and dropped does not block the others.
    let gone = tokio::time::timeout(TTL / 10, guard.lost()).await;
    assert!(gone.is_err(), "nothing is lost yet");
    fixture.behave(&[Hang; 3]);
    let told = watchers.join_all().await;
    assert!(told.iter().all(|lost| lost.reason == LostReason::Expired), "{told:?}");
    assert_eq!(told.len(), 20);
    assert!(flag.is_lost());
}

#[tokio::test(start_paused = true)]
async fn loss_is_reported_to_later_callers() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    let (early, flag) = (guard.lost(), guard.loss_token());
    fixture.behave(&[Hang; 3]);
    let (lost, _) = loss(&guard).await;
    drop(guard);
    assert_eq!(early.await, lost, "even after the guard is dropped");
    assert_eq!(flag.lost().await, lost);
}

#[tokio::test(start_paused = true)]
async fn released_lock_is_not_reported_as_lost() {
    let fixture = PausedFixture::new(3);
    let mut watchers = JoinSet::new();
    let released = fixture.hold().await;
    watchers.spawn(released.lost());
    released.release().await.unwrap();
    let dropped = fixture.hold().await;
    watchers.spawn(dropped.lost());
    drop(dropped);
    let left = fixture.hold().await;
    watchers.spawn(left.lost());
    left.leave_to_expire();

    let told = tokio::time::timeout(10 * TTL, watchers.join_next()).await;
    assert!(told.is_err(), "{told:?}");
    assert_eq!(fixture.journal.count("lost"), 0);
}

#[tokio::test(start_paused = true)]
async fn loss_of_one_lock_is_not_the_loss_of_another() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    let fixed = fixture.client.mutex("fixed").no_renew().lock().await.unwrap();
    let flag = guard.loss_token();
    loss(&fixed).await;
    pass(TTL).await;
    assert!(!flag.is_lost());
    guard.check().unwrap();
}
