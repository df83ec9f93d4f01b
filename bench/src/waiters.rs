//! Many waiters that never get their lock: what they cost in connections, commands and memory.

use std::time::{Duration, Instant};

use quorate::{Client, error::NodeAnswer};
use quorate_testkit::Server;

use crate::{setup::servers, table::line};

/// Many waiters of one lock, and many locks with one waiter each; on three nodes.
pub(crate) async fn run(quick: bool) {
    let (crowd, locks) = if quick { (100, 1_000) } else { (1_000, 10_000) };
    line("| waiters | locks | connections | channels | calls/s | KiB each | bytes each, server |");
    line("|---|---|---|---|---|---|---|");
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
    let memory = (resident_kib(), first.stat("used_memory"));
    let tasks: Vec<_> = (0..waiters)
        .map(|waiter| {
            let mutex = client.mutex(format!("bench:{}", waiter % locks));
            tokio::task::spawn_local(async move { drop(mutex.lock().await) })
        })
        .collect();
    while queued(first, locks) < waiters {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (client_kib, server_bytes) =
        (resident_kib() - memory.0, first.stat("used_memory") - memory.1);
    let (since, before) = (Instant::now(), calls(first));
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let rate = (calls(first) - before) as f64 / since.elapsed().as_secs_f64();
    line(&format!(
        "| {waiters} | {locks} | {} | {} | {rate:.1} | {:.1} | {:.0} |",
        first.stat("connected_clients") - others.0,
        channels(first) - others.1,
        client_kib as f64 / waiters as f64,
        server_bytes as f64 / waiters as f64,
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

/// What this process has in memory.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says so");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.expect("a number of KiB")
}
