//! Identities that ask all at once, so that each gets some of the nodes.

use std::time::{Duration, Instant};

use quorate::Client;
use tokio::{sync::Barrier, task::JoinSet};

use super::{entry, release};
use crate::conformance::rig::{Rig, on_memory, on_servers};

#[test]
fn split_votes_of_several_entries_are_settled_in_memory() {
    on_memory(&[3, 5], split_votes_are_settled);
}

#[test]
fn split_votes_of_several_entries_are_settled_on_servers() {
    on_servers(&[3], split_votes_are_settled);
}

async fn split_votes_are_settled(rig: &Rig) {
    let mut clients = Vec::new();
    for who in ["one", "two", "three", "four"] {
        clients.push(rig.client(who).await);
    }
    let started = Instant::now();
    let mut longest = Duration::ZERO;
    for round in 0..ROUNDS {
        let began = Instant::now();
        race(&clients, round).await;
        longest = longest.max(began.elapsed());
        assert!(started.elapsed() < TOTAL, "{round} rounds, the longest took {longest:?}");
        rig.wait_until_empty(rig.all());
    }
    eprintln!("{} nodes: {:?}, longest {longest:?}", rig.len(), started.elapsed());
}

/// Entries of two identities, from the same moment: each holds it for a moment.
async fn race(clients: &[Client], round: usize) {
    let barrier = std::sync::Arc::new(Barrier::new(ENTRIES));
    let mut tasks = JoinSet::new();
    for number in 0..ENTRIES {
        let client = clients[(number + round) % clients.len()].clone();
        let barrier = barrier.clone();
        tasks.spawn(async move {
            let mutex = entry(&client, ["x", "y"][number % 2]);
            barrier.wait().await;
            let guard = mutex.lock().await.expect("its turn comes");
            tokio::task::yield_now().await;
            guard.check().expect("it is held");
            release(guard).await;
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no panic");
    }
}

const ROUNDS: usize = 200;
const ENTRIES: usize = 6;

/// Less than the limit of a test.
const TOTAL: Duration = Duration::from_secs(50);
