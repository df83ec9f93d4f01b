//! rslock and redlock-rs.

use std::time::Duration;

use quorate::{
    error::LockError,
    memory::Behaviour::{Answer, Fail, Hang},
};
use tokio::time::Instant;

use crate::{
    mode::Mode,
    watchdog::fixture::{
        FAR, NAME, PausedFixture, TTL, build, is_taken, loss, pass, settings, take,
    },
};

in_both_modes! {
    paused:
    rslock_connection_errors_do_not_make_a_lock_spin_forever,
}

#[tokio::test(start_paused = true)]
async fn rslock_failed_extend_does_not_release() {
    let fixture = PausedFixture::new(3);
    let guard = take(&fixture.mutex().no_renew()).await;
    fixture.behave(&[Fail, Fail, Answer]);
    let cut = tokio::time::timeout(TTL / 4, guard.extend(TTL)).await;
    assert!(cut.is_err(), "it tries until the lease ends");
    assert_eq!(fixture.holding(), 3, "every node still has it");
    fixture.behave(&[Answer; 3]);
    guard.verify().await.unwrap();
    guard.extend(TTL).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rslock_too_late_attempt_is_undone() {
    let fixture = PausedFixture::new(3);
    let other = settings(&fixture.nodes).vote_timeout(5 * TTL);
    let client = build(other);
    fixture.behave(&[Hang; 3]);
    let mutex = client.mutex(NAME).ttl(TTL / 10);
    let call = tokio::spawn(async move { mutex.try_lock().await.map(|guard| guard.is_some()) });
    pass(TTL / 9).await;
    fixture.behave(&[Answer; 3]);
    assert!(call.await.unwrap().is_err());
    assert_eq!(fixture.holding(), 0, "the nodes had granted it");
    assert!(!is_taken(&fixture.mutex()).await);
}

#[tokio::test(start_paused = true)]
async fn rslock_short_validity_does_not_underflow() {
    let fixture = PausedFixture::new(3);
    for ms in 0..=20 {
        let mutex = fixture.client.mutex(format!("order:{ms}")).ttl(Duration::from_millis(ms));
        match mutex.lock().await {
            Ok(guard) => {
                assert!(guard.remaining() < Duration::from_millis(ms));
                fixture.behave(&[Hang; 3]);
                loss(&guard).await;
                fixture.behave(&[Answer; 3]);
            }
            Err(error) => assert!(matches!(error, LockError::InvalidTtl(_)) && ms <= 2, "{error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rslock_one_black_holed_node_does_not_stall() {
    let fixture = PausedFixture::new(3);
    fixture.nodes.set(0, Hang);
    let started = Instant::now();
    let guard = fixture.hold().await;
    guard.extend(TTL).await.unwrap();
    guard.verify().await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO, "no call waited for it");
}

async fn rslock_connection_errors_do_not_make_a_lock_spin_forever(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    fixture.behave(&[Fail; 3]);
    let mutex = fixture.mutex();
    let locked = tokio::time::timeout(FAR, mutex.lock()).await.expect("it ends");
    assert!(matches!(locked, Err(LockError::NoQuorum { .. })), "{locked:?}");
    let lines = fixture.journal.lines();
    let answers = lines.iter().filter(|line| line.contains(" answered ")).count();
    assert!(answers <= 3, "it waits for the report of a node: {answers} answers");
}

#[tokio::test(start_paused = true)]
async fn rslock_dropping_a_guard_on_a_runtime_releases() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    tokio::spawn(async move { drop(guard) }).await.unwrap();
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn redlock_rs_one_killed_node_is_tolerated() {
    for dead in 0..3 {
        let fixture = PausedFixture::new(3);
        fixture.nodes.set(dead, Fail);
        let guard = fixture.hold().await;
        assert!(is_taken(&fixture.mutex()).await);
        guard.release().await.unwrap();
        assert_eq!(fixture.holding(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn redlock_rs_failed_attempt_leaks_no_key() {
    let fixture = PausedFixture::new(5);
    fixture.behave(&[Answer, Answer, Fail, Fail, Fail]);
    assert!(fixture.mutex().try_lock().await.is_err());
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn redlock_rs_waiting_does_not_block_the_runtime() {
    let fixture = PausedFixture::new(1);
    let guard = fixture.hold().await;
    let mutex = fixture.mutex();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    // This would never run on the only thread.
    pass(TTL).await;
    assert!(!waiting.is_finished());
    drop(guard);
    waiting.await.unwrap().unwrap().release().await.unwrap();
}
