//! No caller is refused while a permit is free.

use super::{jobs, take, wait_until_only};
use crate::conformance::fixture::Fixture;

on_every_engine! {
    [1, 2, 3, 4, 5] => all_permits_can_be_acquired_at_the_same_time,
        try_acquire_finds_the_last_free_permit;
    [1, 3, 5] => caller_reserves_no_more_permits_than_it_needs;
}

async fn all_permits_can_be_acquired_at_the_same_time(fixture: &Fixture) {
    let clients = [fixture.client("a").await, fixture.client("b").await, fixture.client("c").await];
    for callers in [2, 3] {
        let permits = u32::try_from(callers).expect("few");
        for _ in 0..ROUNDS {
            let tries: Vec<_> = clients[..callers]
                .iter()
                .map(|client| {
                    let semaphore = jobs(client, permits);
                    tokio::spawn(async move { semaphore.try_acquire().await })
                })
                .collect();
            let mut guards = Vec::new();
            for tried in tries {
                let tried = tried.await.expect("no panic").expect("all answer");
                guards.push(tried.expect("there is one for each"));
            }
            wait_until_only(fixture, &guards);
            drop(guards);
            wait_until_only(fixture, &[]);
        }
    }
}

async fn try_acquire_finds_the_last_free_permit(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    for permits in [1, 2, 7] {
        let semaphore = jobs(&bob, permits);
        let mut guards = Vec::new();
        for _ in 0..permits {
            let tried = semaphore.try_acquire().await.expect("all answer");
            guards.push(tried.expect("not all are taken"));
        }
        let tried = jobs(&alice, permits).try_acquire().await.expect("all answer");
        assert!(tried.is_none(), "all are taken");
        // Each of them is found when it is the only free one.
        for number in 0..guards.len() {
            guards.remove(number).release().await.expect("it is held");
            guards.insert(number, take(&semaphore, 1).await.remove(0));
        }
        drop(guards);
        wait_until_only(fixture, &[]);
    }
}

/// One client holds a permit, another acquires and releases one all the time. The third permit is
/// always free, for tries and for waiters.
async fn caller_reserves_no_more_permits_than_it_needs(fixture: &Fixture) {
    let (alice, bob, carol) =
        (fixture.client("alice").await, fixture.client("bob").await, fixture.client("carol").await);
    let kept = take(&jobs(&alice, 3), 1).await;
    let busy = jobs(&bob, 3);
    let busy = tokio::spawn(async move {
        loop {
            let guard = busy.acquire().await.expect("one is free");
            guard.release().await.expect("it is held");
            // Nodes in memory answer at once: no other task would run.
            tokio::task::yield_now().await;
        }
    });
    for _ in 0..4 * ROUNDS {
        let tried = jobs(&carol, 3).try_acquire().await.expect("all answer");
        let guard = tried.expect("no more than two are in use");
        guard.release().await.expect("it is held");
    }
    busy.abort();
    assert!(busy.await.is_err_and(|error| error.is_cancelled()));
    wait_until_only(fixture, &kept);
}

const ROUNDS: usize = 25;
