//! The owner that detaches a lease, and the state of the lease if that fails.

use std::time::Duration;

use quorate::{
    Guard,
    error::{
        LeaseError,
        LostReason::{self, Expired},
    },
    memory::{
        Behaviour::{Answer, Fail, Hang},
        MemoryNodes,
    },
    observe::{Action, Event, Observer},
};
use quorate_testkit::{Fault, eventually};

use super::SHORT;
use crate::{
    cancellation::fixture::poll,
    faults::fixture::{PATIENCE, ProxyFixture, connect_to_all},
    links::executor::block_on,
    watchdog::fixture::{NAME, PausedFixture, TICK, TTL, build, pass, settings, take},
};

#[tokio::test(start_paused = true)]
async fn detach_of_a_lease_granted_by_every_node_costs_no_round_trip() {
    let fixture = PausedFixture::new(3);
    let reader = fixture.client.rwlock("shared").read().await.map(Guard::from);
    let wants = [fixture.mutex().lock().await, reader];
    let rounds = fixture.started();
    for guard in wants.map(Result::unwrap) {
        let fence = guard.fence();
        let lease = guard.detach().await.unwrap();
        assert_eq!((fixture.started(), lease.fence()), (rounds, fence));
        fixture.other().renew_lease(&lease).await.unwrap();
        fixture.other().release_lease(&lease).await.unwrap();
    }
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn lease_continues_as_another_owner_if_a_node_may_act_for_the_first() {
    let fixture = PausedFixture::new(3);
    fixture.behave(&[Answer, Answer, Hang]);
    let guard = fixture.hold().await;
    let rounds = fixture.started();
    guard.detach().await.unwrap();
    assert!(fixture.started() > rounds, "what was sent to the third may still arrive");

    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    guard.extend(TTL).await.unwrap();
    let rounds = fixture.started();
    guard.detach().await.unwrap();
    assert!(fixture.started() > rounds, "an extension makes keys anew");

    let fixture = PausedFixture::new(3);
    let holder = fixture.hold().await;
    let mutex = fixture.mutex();
    let waiter = tokio::spawn(async move { mutex.lock().await });
    pass(TICK).await;
    holder.release().await.unwrap();
    let guard = waiter.await.unwrap().unwrap();
    let rounds = fixture.started();
    guard.detach().await.unwrap();
    assert!(fixture.started() > rounds, "it waited in the queue");
}

#[tokio::test(start_paused = true)]
async fn ttl_of_a_detached_lease_starts_anew() {
    let fixture = PausedFixture::new(3);
    let guard = take(&fixture.mutex().no_renew()).await;
    pass(TTL / 2).await;
    let lease = guard.detach().await.unwrap();
    pass(TTL - TTL / 100).await;
    fixture.other().adopt(&lease).await.unwrap().check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn detach_waits_for_a_majority_until_the_lease_expires() {
    for behaviour in [Fail, Hang] {
        let fixture = PausedFixture::new(3);
        let guard = fixture.hold().await;
        guard.extend(TTL).await.unwrap();
        fixture.behave(&[behaviour, behaviour, Answer]);
        let leaving = tokio::spawn(guard.detach());
        pass(TTL / 2).await;
        fixture.behave(&[Answer; 3]);
        let lease = leaving.await.unwrap().unwrap();
        let guard = fixture.client.adopt(&lease).await.unwrap();

        fixture.behave(&[behaviour, behaviour, Answer]);
        let watcher = tokio::spawn(guard.lost());
        let left = guard.detach().await;
        let is_told = matches!(&left, Err(LeaseError::Lost(lost)) if lost.reason == Expired);
        assert!(is_told, "{behaviour:?}: {left:?}");
        assert_eq!(watcher.await.unwrap().reason, Expired, "so does the watcher");
        fixture.behave(&[Answer; 3]);
        pass(TICK).await;
        assert_eq!(fixture.holding(), 0, "{behaviour:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn abandoned_detach_releases_the_lock() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    guard.extend(TTL).await.unwrap();
    fixture.behave(&[Hang; 3]);
    let mut call = Box::pin(guard.detach());
    assert!(poll(call.as_mut()).is_pending());
    drop(call);
    fixture.behave(&[Answer; 3]);
    pass(TICK).await;
    assert_eq!(fixture.holding(), 0);
}

/// Two nodes have the new owner, which no caller knows, and the third is waited for.
#[tokio::test(start_paused = true)]
async fn owner_that_leaves_before_the_last_answer_leaves_no_key() {
    let fixture = PausedFixture::new(3);
    let client = build(settings(&fixture.nodes).observer(ThirdHangs(fixture.nodes.clone())));
    let guard = take(&client.mutex(NAME)).await;
    guard.extend(TTL).await.unwrap();
    let leaving = tokio::spawn(guard.detach());
    pass(TICK).await;
    assert!(!leaving.is_finished(), "the third may still store the new owner");
    leaving.abort();
    pass(TICK).await;
    assert_eq!(fixture.holding(), 1, "two have released it");
    fixture.behave(&[Answer; 3]);
    assert_eq!(fixture.holding(), 0, "so has the third");
}

/// The third node hangs as soon as all have confirmed the lease.
struct ThirdHangs(MemoryNodes);

impl Observer for ThirdHangs {
    fn observe(&self, event: &Event<'_>) {
        if matches!(event, Event::Ended { action: Action::Verify, .. }) {
            self.0.set(2, Hang);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn expired_lease_cannot_be_handed_over() {
    let fixture = PausedFixture::new(3);
    let over = take(&fixture.mutex().no_renew()).await;
    pass(TTL).await;
    let left = over.detach().await;
    assert!(matches!(left, Err(LeaseError::Lost(lost)) if lost.reason == Expired));
    let guard = fixture.hold().await;
    let _ = fixture.client.clone().shutdown(TTL).await;
    let left = guard.detach().await;
    assert!(matches!(left, Err(LeaseError::Lost(lost)) if lost.reason == LostReason::ShutDown));
}

/// All nodes store the new owner, and report when the lease has expired: another owner may have
/// held the lock before that.
#[test]
fn lease_that_expired_before_the_answers_is_released() {
    let fixture = ProxyFixture::start(3);
    let client = connect_to_all(fixture.through_proxies().vote_timeout(SHORT));
    let guard = block_on(client.mutex(NAME).ttl(2 * SHORT).no_renew().lock()).unwrap();
    eventually("it expires soon", PATIENCE, || guard.remaining() < SHORT / 4);
    fixture.set(&[0, 1, 2], Fault::Delay { up: Duration::ZERO, down: SHORT / 2 });
    let left = block_on(guard.detach());
    assert!(matches!(left, Err(LeaseError::Lost(_))), "{left:?}");
    fixture.repair(&[0, 1, 2]);
    fixture.wait_until_empty("it is released");
}
