//! Several locks for one holder: all of them, or none.

mod crowd;
mod dropped;
mod faults;
mod leaving;
mod loss;
mod order;
mod settings;
mod together;

use quorate::{Client, GuardAll, MutexAll};
use quorate_core::quorum::majority;
use quorate_testkit::eventually;
use tokio::task::JoinHandle;

use crate::{
    conformance::fixture::{Fixture, PATIENCE},
    mode::Mode,
};

/// The set of these tests.
fn pair(client: &Client) -> MutexAll {
    client.mutex_all(["a", "b"])
}

/// Acquires locks that are free, or about to be.
async fn take_all(set: MutexAll) -> GuardAll {
    set.lock_timeout(PATIENCE).await.expect("they are free")
}

/// A set that waits for its locks.
fn waiting(set: MutexAll) -> JoinHandle<GuardAll> {
    tokio::spawn(async move { set.lock().await.expect("its turn comes") })
}

/// Waits until this many owners wait for a lock. Without a queue their number is unknown.
async fn wait_until_queued(fixture: &Fixture, client: &Client, name: &str, count: u64) {
    while fixture.mode() == Mode::Queue {
        let report = client.inspect(name).await.expect("the nodes tell");
        if report.holder.is_some() && report.waiting_total == count {
            return;
        }
    }
}

/// Waits until the nodes have these keys, each on a majority, and no others, and no client waits
/// for any lock.
fn wait_until_only(fixture: &Fixture, wanted: &[&str]) {
    eventually(&format!("the nodes have only {wanted:?}"), PATIENCE, || {
        let found: Vec<Vec<String>> = fixture.all().map(|node| fixture.names(node)).collect();
        let votes = |name: &str| found.iter().flatten().filter(|it| *it == name).count();
        found.iter().flatten().all(|name| wanted.contains(&name.as_str()))
            && wanted.iter().all(|name| votes(name) >= majority(fixture.len()))
    });
    for server in fixture.servers() {
        eventually("nobody waits", PATIENCE, || {
            !server.keys().iter().any(|key| key.starts_with(b"quorate:q:"))
        });
    }
}
