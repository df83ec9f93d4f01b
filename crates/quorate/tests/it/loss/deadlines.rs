//! The loss is reported at the local deadline, whatever the nodes answer.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    task::Poll,
    time::Duration,
};

use quorate::{
    Guard,
    error::{ExtendError, LockError, LostReason, ReleaseError, VerifyError},
    memory::{
        Behaviour::{Answer, Fail, Hang, Mute},
        MemoryNodes,
    },
    observe::Event,
};
use tokio::time::Instant;

use crate::{
    cancellation::fixture::poll,
    watchdog::fixture::{
        NAME, PausedFixture, TICK, TTL, build, is_taken, loss, pass, promised_until, settings, take,
    },
};

#[tokio::test(start_paused = true)]
async fn lock_without_a_majority_is_at_risk_and_then_lost_at_its_deadline() {
    for behaviour in [Fail, Hang, Mute] {
        for nodes in [1, 2, 3, 5] {
            let fixture = PausedFixture::new(nodes);
            let asked = Instant::now();
            let guard = fixture.hold().await;
            let failing = nodes / 2 + nodes % 2;
            fixture.behave(&vec![behaviour; failing]);
            pass(TTL / 2).await;
            assert!(guard.is_at_risk(), "{failing} of {nodes} nodes: {behaviour:?}");
            guard.check().unwrap();

            let (lost, lost_at) = loss(&guard).await;
            assert_eq!(lost.reason, LostReason::Expired);
            let deadline = promised_until(asked, TTL);
            assert!(lost_at >= deadline, "not before it ends");
            assert!(lost_at - deadline <= TICK, "{:?} after it ends", lost_at - deadline);
            assert!(lost_at < asked + TTL, "before the key expires on any node");
            assert!(!guard.is_at_risk(), "a lost lock is no longer at risk");
            let told = ["at risk", "lost"].map(|start| fixture.journal.count(start));
            assert_eq!(told, [1, 1], "{failing} of {nodes} nodes: {behaviour:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn loss_is_reported_before_another_can_hold_the_lock() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    fixture.behave(&[Fail; 3]);
    loss(&guard).await;
    fixture.behave(&[Answer; 3]);
    let wanted = fixture.other().mutex(NAME);
    assert!(is_taken(&wanted).await, "the nodes still have the key");
    // One per cent and two milliseconds later they do not.
    pass(TTL / 100 + 3 * TICK).await;
    assert!(!is_taken(&wanted).await);
}

#[tokio::test(start_paused = true)]
async fn lost_lock_is_never_revived() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    fixture.behave(&[Hang; 3]);
    let (lost, _) = loss(&guard).await;
    // The delayed requests run now, and the nodes would keep the key.
    fixture.behave(&[Answer; 3]);
    assert_eq!(guard.check(), Err(lost.clone()));
    assert!(guard.remaining().is_zero());
    assert_eq!(guard.extend(TTL).await, Err(ExtendError::Lost(lost.clone())));
    assert_eq!(guard.verify().await, Err(VerifyError::Lost(lost.clone())));
    let renewals = fixture.journal.count("renewed");
    pass(5 * TTL).await;
    assert_eq!(fixture.journal.count("renewed"), renewals);
    assert_eq!(guard.release().await, Err(ReleaseError::Lost(lost)));
}

#[tokio::test(start_paused = true)]
async fn shortened_lease_is_lost_at_its_new_end() {
    let fixture = PausedFixture::new(3);
    let guard = take(&fixture.mutex().no_renew()).await;
    pass(TTL / 10).await;
    let asked = Instant::now();
    guard.extend(TTL / 5).await.unwrap();
    let (lost, lost_at) = loss(&guard).await;
    assert_eq!(lost.reason, LostReason::Expired);
    assert!(lost_at - promised_until(asked, TTL / 5) <= TICK);
}

#[tokio::test(start_paused = true)]
async fn paused_holder_finds_its_lock_lost_at_its_first_check() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    let flag = guard.loss_token();
    assert!(!flag.is_lost());
    // In one jump: neither the watchdog nor any other task has run in between.
    let ahead = tokio::time::advance(2 * TTL);
    let mut ahead = std::pin::pin!(ahead);
    let polled = std::future::poll_fn(|cx| Poll::Ready(ahead.as_mut().poll(cx))).await;
    assert!(polled.is_pending(), "nothing else has run so far");
    assert_eq!(guard.check().unwrap_err().reason, LostReason::Expired);
    assert!(guard.remaining().is_zero() && flag.is_lost());
    assert_eq!(guard.lost().await.reason, LostReason::Expired);
    assert_eq!(fixture.journal.count("renewed"), 0, "it was too late for a renewal");
}

#[tokio::test(start_paused = true)]
async fn shutdown_is_reported_as_a_loss() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    let lost = tokio::spawn(guard.lost());
    assert!(fixture.client.clone().shutdown(TTL).await.is_clean);
    assert_eq!(lost.await.unwrap().reason, LostReason::ShutDown);
    assert_eq!(guard.check().unwrap_err().reason, LostReason::ShutDown);
    assert_eq!(fixture.journal.count("lost orders:42 shut_down"), 1);
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn verify_of_a_deleted_key_is_a_loss() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    let lost = tokio::spawn(guard.lost());
    (0..3).for_each(|node| fixture.nodes.forget(node));
    let Err(VerifyError::Lost(found)) = guard.verify().await else {
        panic!("no node has the key");
    };
    assert_eq!(found.reason, LostReason::Gone);
    assert_eq!(lost.await.unwrap(), found);
    assert_eq!(fixture.journal.count("lost orders:42 gone"), 1);
}

#[tokio::test(start_paused = true)]
async fn late_confirmation_never_revives_a_lost_lease() {
    // Both answers arrive in time, but the second one is handled after its lease has ended.
    let guards = Arc::new(OnceLock::<[Guard; 2]>::new());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observer = {
        let (guards, seen) = (guards.clone(), seen.clone());
        move |event: &Event<'_>| {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(event, Event::Renewed { .. }) && seen.is_empty() {
                // Handling this event takes so long that the other lease expires.
                let _ = poll(std::pin::pin!(tokio::time::advance(BRIEF * 62 / 100)));
                *seen = guards.get().into_iter().flatten().map(|guard| guard.check()).collect();
            }
        }
    };
    let nodes = MemoryNodes::new(1);
    let client = build(settings(&nodes).ttl(BRIEF).vote_timeout(BRIEF).observer(observer));
    let first = take(&client.mutex("a")).await;
    // The watchdog renews the two leases separately.
    pass(BRIEF / 6).await;
    guards.set([first, take(&client.mutex("b")).await]).unwrap();
    nodes.set(0, Hang);
    pass(BRIEF * 4 / 10).await;
    // Both renewals are sent; the node answers them at the same moment.
    nodes.set(0, Answer);

    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.iter().filter(|seen| seen.is_err()).count(), 1, "{seen:?}");
    let now: Vec<_> = guards.get().unwrap().iter().map(Guard::check).collect();
    assert_eq!(now, seen);
}

#[tokio::test(start_paused = true)]
async fn expired_lease_is_never_returned() {
    // The majority has granted in time, but the caller does not run until the lease has ended.
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

/// Short enough that the client does not give up a node that hangs for a while.
const BRIEF: Duration = Duration::from_secs(2);
