//! Semaphores: as many holders as there are permits, and never more.

mod crowd;
mod dropped;
mod faults;
mod loss;
mod many;
mod numbers;
mod permits;
mod settings;
mod size;
mod trying;
mod waiting;

use quorate::{Client, Permit, Permits, Semaphore};
use quorate_core::quorum::majority;
use quorate_testkit::eventually;

use crate::{
    conformance::fixture::{Fixture, PATIENCE},
    mode::Mode,
};

/// The semaphore of these tests.
fn jobs(client: &Client, permits: u32) -> Semaphore {
    client.semaphore("jobs", permits)
}

/// Acquires this many permits, which are free.
async fn take(semaphore: &Semaphore, count: usize) -> Vec<Permit> {
    let mut guards = Vec::new();
    for _ in 0..count {
        guards.push(semaphore.acquire_timeout(PATIENCE).await.expect("there is one"));
    }
    guards
}

/// Their names, in order.
fn names(guards: &[Permit]) -> Vec<String> {
    let mut names: Vec<String> = guards.iter().map(|guard| guard.name().to_owned()).collect();
    names.sort();
    names
}

/// The names of several permits, in order.
fn all_names(permits: &Permits) -> Vec<String> {
    permits.guards().iter().map(|guard| guard.name().to_owned()).collect()
}

/// Waits until the first waiter waits for each of the permits, and this many wait behind it. In
/// classic mode the number of waiters is unknown.
async fn wait_for_queue(fixture: &Fixture, client: &Client, permits: u32, behind: u64) {
    let is_line = fixture.mode() == Mode::Queue;
    loop {
        let line = client.inspect("jobs#queue").await.expect("the nodes tell");
        let mut is_there = line.holder.is_some() && (!is_line || line.waiting_total == behind);
        for number in 1..=permits {
            let slot = client.inspect(format!("jobs#{number}")).await.expect("the nodes tell");
            is_there &= !is_line || slot.waiting_total == 1;
        }
        if is_there {
            return;
        }
    }
}

/// Waits until this owner holds one of the locks.
async fn wait_until_held_by(client: &Client, name: &str, who: &str) {
    let is_it = async || {
        let report = client.inspect(name).await.expect("the nodes tell");
        report.holder.is_some_and(|holder| holder.who == who)
    };
    let seen = tokio::time::timeout(PATIENCE, async {
        while !is_it().await {
            // Nodes in memory answer at once: no other task would run.
            tokio::task::yield_now().await;
        }
    });
    seen.await.unwrap_or_else(|_| panic!("{who} does not get {name}"));
}

/// Waits until the nodes have the keys of these guards, each on a majority, and no others, and
/// until all queues are empty. A node on which another was first may not know a holder.
fn wait_until_only(fixture: &Fixture, guards: &[Permit]) {
    wait_until_held_are(fixture, &names(guards));
}

fn wait_until_held_are(fixture: &Fixture, wanted: &[String]) {
    eventually(&format!("the nodes have only {wanted:?}"), PATIENCE, || {
        let found: Vec<Vec<String>> = fixture.all().map(|node| fixture.names(node)).collect();
        let votes = |name| found.iter().filter(|names| names.contains(name)).count();
        found.iter().flatten().all(|name| wanted.contains(name))
            && wanted.iter().all(|name| votes(name) >= majority(fixture.len()))
    });
    for server in fixture.servers() {
        eventually("the queues are empty", PATIENCE, || {
            !server.keys().iter().any(|key| key.starts_with(b"quorate:q:"))
        });
    }
}
