//! A lock that its holder can acquire again, under one identity.

mod calls;
mod crowd;
mod dropped;
mod exclusion;
mod fences;
mod identities;
mod leases;
mod queue;
mod races;
mod reports;
mod split;
mod together;

use std::time::{Duration, Instant};

use quorate::{Client, Guard, Mutex, error::LockError, inspect::LockReport};
use tokio::task::JoinHandle;

use crate::conformance::fixture::{Fixture, PATIENCE, take};

/// The lock of these tests, for an identity.
fn entry(client: &Client, identity: &str) -> Mutex {
    client.mutex("a").reentrant(identity)
}

/// Enters a lock that is free, or held by that identity.
async fn enter(client: &Client, identity: &str) -> Guard {
    take(entry(client, identity)).await
}

/// The same, when every node has the entry: an entry that joins it then has its fence.
async fn enter_everywhere(fixture: &Fixture, client: &Client, identity: &str) -> Guard {
    let guard = enter(client, identity).await;
    fixture.wait_until_only("a", fixture.all());
    reported(fixture, client, |report| report.votes == fixture.len()).await;
    guard
}

async fn release(guard: Guard) {
    guard.release().await.expect("it was held");
}

async fn is_taken(mutex: Mutex) -> bool {
    mutex.try_lock().await.expect("every node answers").is_none()
}

/// Owners of other identities are rejected, however they ask.
async fn assert_others_are_excluded(client: &Client) {
    assert!(is_taken(entry(client, "another")).await, "another identity");
    assert!(is_taken(client.mutex("a")).await, "one without an identity");
    let lock = client.rwlock("a");
    assert!(lock.try_read().await.expect("every node answers").is_none(), "a reader");
    assert!(lock.try_write().await.expect("every node answers").is_none(), "a writer");
}

type Waiter = JoinHandle<Result<Guard, LockError>>;

/// A waiter, as soon as this many owners wait on every node.
async fn waiting(fixture: &Fixture, client: &Client, mutex: Mutex, total: u64) -> Waiter {
    let waiter = tokio::spawn(async move { mutex.lock().await });
    reported(fixture, client, |report| report.waiting_total == total).await;
    waiter
}

/// The guard of a waiter: the node notifies it, long before it would ask again.
async fn won(waiter: Waiter) -> Guard {
    let won = tokio::time::timeout(SOON, waiter).await.expect("it is notified at once");
    won.expect("no panic").expect("the lock is free")
}

/// The report about the lock, as soon as it is as expected.
async fn reported(
    fixture: &Fixture,
    client: &Client,
    is_so: impl Fn(&LockReport) -> bool,
) -> LockReport {
    let started = Instant::now();
    loop {
        let report = client.inspect("a").await.expect("every node answers");
        if is_so(&report) {
            return report;
        }
        assert!(started.elapsed() < PATIENCE, "with {} nodes: {report:?}", fixture.len());
        tokio::task::yield_now().await;
    }
}

/// Waits until this many entries hold the lock on every node. Undoing goes on after the caller has
/// its answer.
async fn wait_until_entered(fixture: &Fixture, client: &Client, times: usize) {
    reported(fixture, client, |report| {
        report.votes == fixture.len() && report.shared_with.len() + 1 == times
    })
    .await;
}

/// Well below a third of the ttl, after which a waiter asks again.
const SOON: Duration = Duration::from_secs(6);
