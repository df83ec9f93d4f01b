//! Many waiters that never get their lock: what they cost in connections, commands and memory.

use std::time::{Duration, Instant};

use quorate::{Client, error::NodeAnswer};
use quorate_testkit::Server;

use crate::{memory, setup::servers, table::line};

/// Many waiters of one lock, and many locks with one waiter each; on three nodes.
pub(crate) async fn run(quick: bool) {
    let (crowd, locks) = if quick { (100, 1_000) } else { (1_000, 10_000) };
    line(
        "| waiters | locks | connections | channels | calls/s | bytes each | of these the future \
         | bytes each, server |",
    );
    line("|---|---|---|---|---|---|---|---|");
    for (waiters, locks) in [(crowd, 1), (locks, locks)] {
        let servers = servers(3).await;
        wait(&servers, waiters, locks, if quick { 5 } else { 20 }).await;
    }
}

async fn wait(servers: &[Server], waiters: usize, locks: usize, seconds: u64) {
    let urls = || servers.iter().map(Server::url);
    let holder = Client::builder().nodes(urls()).connect().await.expect("servers are up");
    wait_until_attached(&holder).await;
    let mut guards = Vec::new();
    for lock in 0..locks {
        // Long leases without renewals, so that only waiters cause commands.
        let mutex = holder.mutex(format!("bench:{lock}")).ttl(Duration::from_secs(60)).no_renew();
        guards.push(mutex.lock().await.expect("servers answer"));
    }
    let first = &servers[0];
    let others = (first.stat("connected_clients"), channels(first));
    let client = Client::builder().nodes(urls()).connect().await.expect("servers are up");
    wait_until_attached(&client).await;
    // What counting needs is in memory already when it is measured.
    let _ = queued(first, locks);
    let memory = (memory::resident(), first.stat("used_memory"));
    let tasks: Vec<_> = (0..waiters)
        .map(|waiter| {
            let mutex = client.mutex(format!("bench:{}", waiter % locks));
            tokio::task::spawn_local(async move { drop(mutex.lock().await) })
        })
        .collect();
    while queued(first, locks) < waiters {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let each = memory::each(memory.0, waiters);
    let server_each = (first.stat("used_memory") - memory.1) as f64 / waiters as f64;
    let (since, before) = (Instant::now(), calls(first));
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let rate = (calls(first) - before) as f64 / since.elapsed().as_secs_f64();
    let mutex = client.mutex("bench");
    let future = size_of_val(&mutex.lock());
    line(&format!(
        "| {waiters} | {locks} | {} | {} | {rate:.1} | {each:.0} (target {BYTES_TARGET}) \
         | {future} | {server_each:.0} |",
        first.stat("connected_clients") - others.0,
        channels(first) - others.1,
    ));
    for task in tasks {
        task.abort();
        // Aborted, as it was to be.
        let _ = task.await;
    }
    drop(guards);
    let _ = holder.shutdown(Duration::from_secs(10)).await;
    let _ = client.shutdown(Duration::from_secs(10)).await;
}

/// A majority would be enough, but this benchmark counts on every node.
async fn wait_until_attached(client: &Client) {
    while client.node_status().iter().any(|node| node.answer != NodeAnswer::Attached) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// How many waiters are queued on a server, for all locks together.
fn queued(server: &Server, locks: usize) -> usize {
    let mut connection = server.connection();
    let mut pipe = redis::pipe();
    for lock in 0..locks {
        pipe.cmd("ZCARD").arg(format!("quorate:q:{{bench:{lock}}}"));
    }
    let counts: Vec<usize> = pipe.query(&mut connection).expect("the server answers");
    counts.iter().sum()
}

/// The calls that clients of ours make.
fn calls(server: &Server) -> u64 {
    server.command_calls("evalsha")
}

fn channels(server: &Server) -> usize {
    let listed: Vec<String> = redis::cmd("PUBSUB")
        .arg("CHANNELS")
        .query(&mut server.connection())
        .expect("the server answers");
    listed.len()
}

/// What a waiter may need in its process.
const BYTES_TARGET: u64 = 1024;
