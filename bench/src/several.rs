//! What is more than one lock, relative to plain locks: entries of a reentrant lock, several locks
//! and several permits for one caller, a semaphore and many readers at once. Then what a semaphore
//! costs by the number of its permits.

mod cost;
mod crowd;
mod names;
mod nested;
mod permits;
mod readers;
mod semaphore;

use std::time::Duration;

use quorate::{Client, Mutex};
use quorate_testkit::Server;

use crate::{
    setup::{Plan, VOTE_TIMEOUT, pairs_per_second, servers},
    table::{line, median, ratio},
};

/// Compares at each of these numbers of nodes; at one, three and five if none is given.
pub(crate) async fn run(quick: bool, nodes: &[usize]) {
    let alone = Plan::new(quick);
    let crowd = Plan {
        rounds: if quick { 3 } else { 7 },
        time: Duration::from_millis(if quick { 300 } else { 1_000 }),
    };
    line("| nodes | what | beside | that per second | ratio |");
    line("|---|---|---|---|---|");
    let mut costs = Vec::new();
    for count in nodes {
        let servers = servers(*count).await;
        let client = Client::builder().nodes(servers.iter().map(Server::url));
        let client = client.vote_timeout(VOTE_TIMEOUT).connect().await.expect("they are up");
        nested::compare(&client, *count, &alone).await;
        for names in [1, 2, 8] {
            names::compare(&client, *count, names, &alone).await;
        }
        permits::compare(&client, *count, &alone).await;
        for hold in [Duration::ZERO, HOLD] {
            semaphore::compare(&client, *count, hold, &crowd).await;
            readers::compare(&client, *count, hold, &crowd).await;
        }
        costs.extend(cost::rows(&servers, &client, quick).await);
    }
    line("");
    line("| nodes | permits | one, ms | all, ms | none, ms | turn, ms | commands/s of a waiter |");
    line("|---|---|---|---|---|---|---|");
    costs.iter().for_each(|row| line(row));
}

/// Prints one contestant relative to another.
fn row(nodes: usize, what: &str, beside: &str, ours: &[f64], theirs: &[f64]) {
    let (rate, ratio) = (median(theirs), ratio(ours, theirs));
    line(&format!("| {nodes} | {what} | {beside} | {rate:.0} | {ratio} |"));
}

/// One caller without contention: pairs of lock and release per second.
async fn alone(mutex: &Mutex, plan: &Plan) -> f64 {
    let pairs = pairs_per_second(1, plan.time, |_| {
        let mutex = mutex.clone();
        async move || {
            let guard = mutex.lock().await.expect("servers answer");
            guard.release().await.expect("servers answer");
        }
    });
    pairs.await
}

/// How long a lock or a permit is held, where it is not released at once.
const HOLD: Duration = Duration::from_millis(5);
