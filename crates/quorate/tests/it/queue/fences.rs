//! Every holder has a larger fence than all before it.

use std::time::Duration;

use quorate::{Guard, error::LostReason};
use quorate_core::fence::Fence;

use super::fixture::{NAME, Queue};
use crate::{
    conformance::fixture::{Fixture, LONG, SHORT, on_memory_in_classic_mode, take, wait_for_end},
    mode::Mode,
};

in_default_mode! {
    [1, 3, 5] => fences_grow_from_holder_to_holder,
        fence_stays_the_same_while_the_lock_is_held,
        hand_off_gives_a_larger_fence,
        fence_outlives_an_expired_lock;
}

async fn fences_grow_from_holder_to_holder(fixture: &Fixture) {
    let clients =
        [fixture.client("alice").await, fixture.client("bob").await, fixture.client("carol").await];
    let mut last = None;
    for round in 0..30 {
        let mutex = clients[round * 7 % 3].mutex(NAME);
        let guard = match round % 2 {
            0 => take(mutex).await,
            _ => mutex.try_lock().await.expect("every node answers").expect("it is free"),
        };
        let fence = fence(&guard);
        assert!(last.is_none_or(|last| last < fence), "round {round}: {fence} after {last:?}");
        last = Some(fence);
        guard.release().await.expect("it is held");
    }
}

async fn fence_stays_the_same_while_the_lock_is_held(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guard = take(alice.mutex(NAME).ttl(Duration::from_secs(1))).await;
    let first = fence(&guard);
    for _ in 0..5 {
        guard.extend(LONG).await.expect("it is held");
        guard.verify().await.expect("it is held");
        assert!(bob.mutex(NAME).try_lock().await.expect("every node answers").is_none());
        assert_eq!(fence(&guard), first);
    }
    guard.release().await.expect("it is held");
    assert!(first < fence(&take(bob.mutex(NAME)).await));
}

async fn hand_off_gives_a_larger_fence(fixture: &Fixture) {
    let queue = Queue::new(fixture);
    let clients = [queue.client("alice").await, queue.client("bob").await];
    let guard = take(clients[0].mutex(NAME)).await;
    let mut fences = vec![fence(&guard)];
    let waiters: Vec<_> = (0..8).map(|number| queue.join(&clients[number % 2], number)).collect();
    guard.release().await.expect("it is held");
    for waiter in waiters {
        waiter.await.expect("no panic");
    }
    fences.extend(queue.fences());
    assert_eq!(fences.len(), 9);
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
}

async fn fence_outlives_an_expired_lock(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let late = take(alice.mutex(NAME).ttl(SHORT).no_renew()).await;
    wait_for_end(&late);
    let next = take(bob.mutex(NAME)).await;
    assert!(fence(&late) < fence(&next));
    assert_eq!(late.check().map_err(|lost| lost.reason), Err(LostReason::Expired));
}

#[test]
fn classic_mode_has_no_fences() {
    on_memory_in_classic_mode(&[3], async |fixture| {
        assert_eq!(fixture.mode(), Mode::Classic);
        assert_eq!(take(fixture.client("alice").await.mutex(NAME)).await.fence(), None);
    });
}

fn fence(guard: &Guard) -> Fence {
    guard.fence().expect("the default mode has fences")
}
