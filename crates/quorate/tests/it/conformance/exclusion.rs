//! At most one holds the lock.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use quorate::Mutex;
use tokio::task::{JoinSet, yield_now};

use super::fixture::Fixture;

on_every_engine! {
    [1, 2, 3, 4, 5] => fifty_contenders_lose_no_increment;
}

async fn fifty_contenders_lose_no_increment(fixture: &Fixture) {
    let counter = Arc::new(Counter::default());
    let mut tasks = JoinSet::new();
    for number in 0..CLIENTS {
        let client = fixture.client(&format!("client {number}")).await;
        for _ in 0..TASKS_OF_EACH {
            tasks.spawn(contend(client.mutex("counter"), counter.clone()));
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no contender fails");
    }
    let expected = CLIENTS * TASKS_OF_EACH * INCREMENTS;
    assert_eq!(counter.value.load(Ordering::Relaxed), expected);
    fixture.wait_until_empty(fixture.all());
}

async fn contend(mutex: Mutex, counter: Arc<Counter>) {
    for _ in 0..INCREMENTS {
        let guard = mutex.lock().await.expect("every node answers");
        counter.increment().await;
        guard.check().expect("the ttl is far longer than the work");
        guard.release().await.expect("no other client has acquired it");
    }
}

/// Two holders at once would lose an increment.
#[derive(Default)]
struct Counter {
    value: AtomicU64,
    is_in_use: AtomicBool,
}

impl Counter {
    async fn increment(&self) {
        assert!(!self.is_in_use.swap(true, Ordering::Relaxed), "two are inside at once");
        // Read here and written back below: not one atomic step, on purpose.
        let read = self.value.load(Ordering::Relaxed);
        yield_now().await;
        self.value.store(read + 1, Ordering::Relaxed);
        self.is_in_use.store(false, Ordering::Relaxed);
    }
}

const CLIENTS: u64 = 5;
const TASKS_OF_EACH: u64 = 10;
const INCREMENTS: u64 = 3;
