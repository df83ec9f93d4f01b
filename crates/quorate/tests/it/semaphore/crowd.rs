//! Many tasks of several clients compete for few permits.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use quorate::{Permit, Semaphore};
use tokio::task::JoinSet;

use super::{jobs, wait_until_only};
use crate::conformance::fixture::{Fixture, PATIENCE};

on_every_engine! {
    [1, 3, 5] => never_more_than_the_permits_are_held_and_all_get_one;
}

async fn never_more_than_the_permits_are_held_and_all_get_one(fixture: &Fixture) {
    for permits in [1, 3] {
        let held = Arc::new(AtomicUsize::new(0));
        let mut crowd = JoinSet::new();
        for client in ["alice", "bob", "carol"] {
            let client = fixture.client(client).await;
            for task in 0..4 {
                let (semaphore, held) = (jobs(&client, permits), held.clone());
                crowd.spawn(async move {
                    for round in 0..3 {
                        work(get(&semaphore, task + round).await, &held, permits as usize).await;
                    }
                });
            }
        }
        while let Some(ended) = crowd.join_next().await {
            ended.expect("no task fails");
        }
        wait_until_only(fixture, &[]);
    }
}

/// A permit, in one way or another.
async fn get(semaphore: &Semaphore, way: usize) -> Permit {
    match way % 3 {
        0 => loop {
            if let Some(guard) = semaphore.try_acquire().await.expect("the nodes answer") {
                return guard;
            }
            // Nodes in memory answer at once: no other task would run.
            tokio::task::yield_now().await;
        },
        1 => semaphore.acquire_timeout(PATIENCE).await.expect("its turn comes"),
        _ => semaphore.acquire().await.expect("its turn comes"),
    }
}

async fn work(guard: Permit, held: &AtomicUsize, most: usize) {
    let now = held.fetch_add(1, Ordering::SeqCst) + 1;
    assert!(now <= most, "{now} hold one of {most}");
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
    guard.check().expect("no test outlives its ttl");
    held.fetch_sub(1, Ordering::SeqCst);
    guard.release().await.expect("it is held");
}
