//! Leases that ended too early, or not when they were over.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    task::Poll,
    time::Duration,
};

use quorate::{
    Guard,
    error::{LockError, LostReason},
    memory::{
        Behaviour::{Answer, Hang},
        MemoryNodes,
    },
    observe::Event,
};
use tokio::time::Instant;

use crate::{
    cancellation::fixture::poll,
    watchdog::fixture::{NAME, PausedFixture, TICK, TTL, build, loss, pass, settings, take},
};

#[tokio::test(start_paused = true)]
async fn an_extension_that_is_dropped_does_not_cost_the_lease() {
    // The keeper counted on it, and came back when the lease had ended.
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    fixture.behave(&[Hang, Hang, Answer]);
    let mut call = Box::pin(guard.extend(6 * TTL));
    assert!(poll(call.as_mut()).is_pending());
    drop(call);
    fixture.behave(&[Answer; 3]);
    pass(20 * TTL).await;
    guard.check().unwrap();
    guard.verify().await.unwrap();
    assert_eq!(fixture.journal.count("lost"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_shortened_is_renewed_until_its_longest_time_is_over() {
    // It could not grow when it was taken, and was never looked at again.
    let fixture = PausedFixture::new(3);
    let asked = Instant::now();
    let guard = take(&fixture.mutex().ttl(TTL).max_hold(TTL / 2)).await;
    guard.extend(300 * TICK).await.unwrap();
    pass(TTL / 2 - 10 * TICK).await;
    guard.check().unwrap();
    guard.verify().await.unwrap();
    let (lost, told) = loss(&guard).await;
    assert_eq!(lost.reason, LostReason::MaxHold);
    assert!(told - asked <= TTL / 2 + TICK, "{:?}", told - asked);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_seen_as_lost_stays_lost_when_its_renewal_is_confirmed_late() {
    // An answer was judged by the time at which it came, however long it took to get to it.
    let guards = Arc::new(OnceLock::<[Guard; 2]>::new());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observer = {
        let (guards, seen) = (guards.clone(), seen.clone());
        move |event: &Event<'_>| {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(event, Event::Renewed { .. }) && seen.is_empty() {
                // The first one is told. This takes so long that the other lease ends meanwhile.
                let _ = poll(std::pin::pin!(tokio::time::advance(BRIEF * 62 / 100)));
                *seen = guards.get().into_iter().flatten().map(|guard| guard.check()).collect();
            }
        }
    };
    let nodes = MemoryNodes::new(1);
    let client = build(settings(&nodes).ttl(BRIEF).vote_timeout(BRIEF).observer(observer));
    let first = take(&client.mutex("a")).await;
    // So that they are renewed one after the other, not together.
    pass(BRIEF / 6).await;
    guards.set([first, take(&client.mutex("b")).await]).unwrap();
    nodes.set(0, Hang);
    pass(BRIEF * 4 / 10).await;
    // Both renewals are on their way; they are answered at the same moment.
    nodes.set(0, Answer);

    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.iter().filter(|seen| seen.is_err()).count(), 1, "{seen:?}");
    let now: Vec<_> = guards.get().unwrap().iter().map(Guard::check).collect();
    assert_eq!(now, seen);
}

#[tokio::test(start_paused = true)]
async fn a_guard_whose_time_is_over_is_not_handed_out() {
    // The caller was kept from running until its lease had ended, and got it all the same.
    let nodes = MemoryNodes::new(1);
    let client = build(settings(&nodes).vote_timeout(2 * TTL));
    nodes.set(0, Hang);
    let mutex = client.mutex(NAME);
    let mut call = Box::pin(mutex.try_lock());
    assert!(poll(call.as_mut()).is_pending());
    nodes.set(0, Answer);
    pass(TTL).await;
    let called = poll(call.as_mut());
    assert!(matches!(called, Poll::Ready(Err(LockError::NoQuorum { .. }))), "{called:?}");
    assert_eq!(nodes.names(0), Vec::<String>::new());
    take(&mutex).await.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_with_a_deadline_does_not_wait_for_a_long_vote_timeout() {
    // It came back when the vote timeout was over, however short its own time was.
    let nodes = MemoryNodes::new(3);
    let client = build(settings(&nodes).vote_timeout(Duration::from_secs(2)));
    (0..2).for_each(|node| nodes.set(node, Hang));
    let called_at = Instant::now();
    let called = client.mutex(NAME).lock_timeout(50 * TICK).await;
    assert!(matches!(called, Err(LockError::NoQuorum { .. })), "{called:?}");
    let waited = called_at.elapsed();
    assert!((50 * TICK..=110 * TICK).contains(&waited), "{waited:?}");
}

/// So short that a node which hangs for a while is not given up meanwhile.
const BRIEF: Duration = Duration::from_secs(2);
