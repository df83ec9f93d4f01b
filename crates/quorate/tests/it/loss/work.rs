//! Work under a lock, and what happens to it when the lock is lost.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use quorate::{
    error::{LostReason, WithError},
    memory::Behaviour::{Answer, Hang},
};
use tokio::time::Instant;

use crate::watchdog::fixture::{NAME, PausedFixture, TICK, TTL, is_taken, pass, promised_until};

#[tokio::test(start_paused = true)]
async fn work_that_is_done_in_time_returns_its_value() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    let worked = guard.run(async {
        pass(5 * TTL).await;
        42
    });
    assert_eq!(worked.await, Ok(42), "it is still renewed");
    let other = fixture.client.mutex("other");
    let worked = other.with(async |guard| {
        pass(5 * TTL).await;
        guard.check().map(|()| 43)
    });
    assert_eq!(worked.await.unwrap(), Ok(43));
}

#[tokio::test(start_paused = true)]
async fn work_is_dropped_when_its_lock_is_lost() {
    let fixture = PausedFixture::new(3);
    let asked = Instant::now();
    let guard = fixture.hold().await;
    fixture.behave(&[Hang; 3]);
    let steps = Steps::default();
    let lost = guard.run(steps.work()).await.unwrap_err();
    assert_eq!(lost.reason, LostReason::Expired);
    let late = Instant::now() - promised_until(asked, TTL);
    assert!(late <= TICK, "{late:?}");
    steps.are_over().await;
}

#[tokio::test(start_paused = true)]
async fn work_inside_of_with_is_dropped_and_the_lock_released() {
    let fixture = PausedFixture::new(3);
    let steps = Steps::default();
    let mutex = fixture.mutex();
    let with = mutex.with(async |_| {
        fixture.behave(&[Hang; 3]);
        steps.work().await;
    });
    let Err(WithError::Lost(lost)) = with.await else {
        panic!("the lock is lost");
    };
    assert_eq!(lost.reason, LostReason::Expired);
    fixture.behave(&[Answer; 3]);
    assert_eq!(fixture.holding(), 0);
    steps.are_over().await;
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_after_the_loss_is_rejected() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    // The lease expires and the work is done before either can be reported.
    let worked = guard.run(async {
        let ahead = tokio::time::advance(2 * TTL);
        let mut ahead = std::pin::pin!(ahead);
        std::future::poll_fn(|cx| {
            assert!(ahead.as_mut().poll(cx).is_pending(), "nothing else runs before the end");
            std::task::Poll::Ready(())
        })
        .await;
    });
    assert_eq!(worked.await.unwrap_err().reason, LostReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn work_does_not_begin_under_a_lock_that_is_lost() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    let ahead = tokio::time::advance(2 * TTL);
    ahead.await;
    let steps = Steps::default();
    assert!(guard.run(steps.work()).await.is_err());
    assert_eq!(steps.0.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_run_drops_the_work_and_keeps_the_lock() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    let steps = Steps::default();
    let cut = tokio::time::timeout(3 * TTL, guard.run(steps.work())).await;
    assert!(cut.is_err());
    steps.are_over().await;
    guard.check().unwrap();
    assert!(is_taken(&fixture.other().mutex(NAME)).await);
}

#[tokio::test(start_paused = true)]
async fn work_that_waits_forever_ends_at_max_hold() {
    let fixture = PausedFixture::new(3);
    let mutex = fixture.mutex().max_hold(4 * TTL);
    let worked = mutex.with(async |_| pending::<()>().await).await;
    let Err(WithError::Lost(lost)) = worked else {
        panic!("it waits forever");
    };
    assert_eq!(lost.reason, LostReason::MaxHold);
    assert_eq!(fixture.holding(), 0);
}

/// Counts the steps of the work.
#[derive(Clone, Default)]
struct Steps(Arc<AtomicUsize>);

impl Steps {
    /// Takes a step now and then, forever.
    async fn work(&self) {
        loop {
            self.0.fetch_add(1, Ordering::SeqCst);
            pass(TTL / 100).await;
        }
    }

    /// Checks that there were steps, and that no step follows.
    async fn are_over(&self) {
        let steps = self.0.load(Ordering::SeqCst);
        assert!(steps > 0);
        pass(TTL).await;
        assert_eq!(self.0.load(Ordering::SeqCst), steps);
    }
}
