//! Identities that ask at the same time, so that each gets some of the nodes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use quorate::Client;
use quorate_testkit::{Fault, Proxy, Server, eventually};
use tokio::{sync::Barrier, task::JoinSet};

use super::{SOON, crowd::Inside, entry, release};
use crate::{
    conformance::fixture::{Fixture, PATIENCE, on_memory, on_servers},
    faults::fixture::{connect_to_all, settings},
};

#[test]
fn split_votes_of_several_entries_are_settled_in_memory() {
    on_memory(&[3, 5], split_votes_are_settled);
}

#[test]
fn split_votes_of_several_entries_are_settled_on_servers() {
    on_servers(&[3], split_votes_are_settled);
}

async fn split_votes_are_settled(fixture: &Fixture) {
    let mut clients = Vec::new();
    for who in ["one", "two", "three", "four"] {
        clients.push(fixture.client(who).await);
    }
    let started = Instant::now();
    for round in 0..ROUNDS {
        race(&clients, round).await;
        assert!(started.elapsed() < TOTAL, "{round} rounds");
        fixture.wait_until_empty(fixture.all());
    }
}

/// Each identity is the first on a node of its own, so none has a majority.
#[tokio::test]
async fn votes_that_are_always_split_are_settled() {
    let far = Far::new();
    let clients = &far.clients;
    for round in 0..FAR_ROUNDS {
        let (began, entries) = (Instant::now(), 1 + round % 4);
        split(clients, entries, round / 4 % 2 == 1).await;
        // A waiter that asks again only after a third of the ttl would take longer.
        assert!(began.elapsed() < SOON, "{entries} entries of each: {:?}", began.elapsed());
    }
    far.wait_until_empty();
}

/// They release and acquire again all the time, while others wait.
#[tokio::test]
async fn distant_identities_take_turns() {
    let far = Far::new();
    let inside = Arc::new(Inside::default());
    let mut tasks = JoinSet::new();
    for task in 0..12 {
        let (at, inside) = (task % 3, inside.clone());
        let mutex = entry(&far.clients[at], ["x", "y", "z"][at]);
        tasks.spawn(async move {
            for _ in 0..3 {
                let outer = mutex.lock().await.expect("its turn comes");
                inside.enter(at);
                let inner = mutex.lock().await.expect("its identity has it");
                inside.enter(at);
                assert!(inner.fence() >= outer.fence());
                for guard in [outer, inner] {
                    guard.check().expect("it is held");
                    inside.leave(at);
                    release(guard).await;
                }
            }
        });
    }
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            ended.expect("two identities are never inside at once");
        }
    };
    tokio::time::timeout(TOTAL, all).await.expect("all are granted the lock");
    far.wait_until_empty();
}

/// Servers, and a client near each of them.
struct Far {
    servers: Vec<Server>,
    _proxies: Vec<Vec<Proxy>>,
    clients: Vec<Client>,
}

impl Far {
    fn new() -> Self {
        let servers = Server::start_many(3);
        let proxies: Vec<Vec<Proxy>> = (0..3)
            .map(|_| servers.iter().map(|server| Proxy::start(&server.address())).collect())
            .collect();
        let clients: Vec<Client> = proxies
            .iter()
            .map(|of| settings(of.iter().map(Proxy::url)).vote_timeout(PATIENCE))
            .map(connect_to_all)
            .collect();
        for (client, proxies) in proxies.iter().enumerate() {
            for (node, proxy) in proxies.iter().enumerate() {
                let up = if node == client { Duration::ZERO } else { FAR };
                proxy.set(Fault::Delay { up, down: Duration::ZERO });
            }
        }
        Self { servers, _proxies: proxies, clients }
    }

    fn wait_until_empty(&self) {
        let is_empty = || self.servers.iter().all(|server| server.lock_keys().is_empty());
        eventually("no key is left", PATIENCE, is_empty);
    }
}

/// This many entries of each identity, or owners without an identity instead of one of them.
async fn split(clients: &[Client], entries: usize, is_mixed: bool) {
    let mutexes = (0..clients.len() * entries).map(|number| match number % clients.len() {
        0 if is_mixed => clients[0].mutex("a"),
        at => entry(&clients[at], ["x", "y", "z"][at]),
    });
    let mut tasks = JoinSet::new();
    for mutex in mutexes {
        tasks.spawn(async move {
            let guard = mutex.lock().await.expect("its turn comes");
            guard.check().expect("it is held");
            release(guard).await;
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no panic");
    }
}

/// Entries of two identities, from the same moment: each holds it for a moment.
async fn race(clients: &[Client], round: usize) {
    let barrier = Arc::new(Barrier::new(ENTRIES));
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

/// Longer than it takes to be granted a lock nearby.
const FAR: Duration = Duration::from_millis(10);
const FAR_ROUNDS: usize = 24;
