//! Many held locks for a while: what is lost (nothing), how renewals are spread, how many calls
//! they take, and what an extension costs the client, beside another library that extends one by
//! one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use quorate::{
    Client,
    observe::{Event, Outcome},
};
use quorate_testkit::Server;
use rslock::LockManager;

use crate::{setup::servers, table::line};

pub(crate) async fn run(quick: bool) {
    let (locks, time) = if quick { (1_000, 10) } else { (10_000, 60) };
    let servers = servers(3).await;
    hold(&servers, locks, Duration::from_secs(time)).await;
    servers.iter().for_each(Server::flush_all);
    extend_one_by_one(&servers, locks.min(2_000)).await;
}

/// What the observer counts.
#[derive(Default)]
struct Counts {
    renewed: AtomicU64,
    failed: AtomicU64,
    lost: AtomicU64,
}

async fn hold(servers: &[Server], locks: usize, time: Duration) {
    let counts = Arc::new(Counts::default());
    let client = Client::builder()
        .nodes(servers.iter().map(Server::url))
        .ttl(TTL)
        .observer({
            let counts = counts.clone();
            move |event: &Event<'_>| count(&counts, event)
        })
        .connect()
        .await
        .expect("servers are up");
    let mut guards = Vec::new();
    for number in 0..locks {
        guards.push(client.mutex(format!("held:{number}")).lock().await.expect("nobody else"));
    }
    // The first renewals are those of a burst; after one ttl they have spread.
    tokio::time::sleep(TTL).await;
    let (calls, cpu) = (calls(servers), cpu_time());
    let (renewed, started) = (counts.renewed.load(Ordering::Relaxed), Instant::now());
    let mut per_second = Vec::new();
    while started.elapsed() < time {
        let before = counts.renewed.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(1)).await;
        per_second.push(counts.renewed.load(Ordering::Relaxed) - before);
    }
    let seconds = started.elapsed().as_secs_f64();
    let renewed = counts.renewed.load(Ordering::Relaxed) - renewed;
    let calls = (self::calls(servers) - calls) as f64 / seconds / servers.len() as f64;
    let cpu = (cpu_time() - cpu).as_secs_f64() * 1e6 / renewed.max(1) as f64;
    per_second.sort_unstable();
    let (least, most) = (per_second[0], per_second[per_second.len() - 1]);
    let held = guards.iter().filter(|guard| guard.check().is_ok()).count();
    let (lost, failed) =
        (counts.lost.load(Ordering::Relaxed), counts.failed.load(Ordering::Relaxed));
    line(&format!("{held} of {locks} locks of {TTL:?} held for {seconds:.0} s, {lost} lost"));
    line(&format!("{renewed} renewals, {failed} not confirmed at first"));
    line(&format!("renewals per second: {least} to {most}"));
    line(&format!("calls per node and second: {calls:.0}"));
    line(&format!("client CPU per extension on 3 nodes: {cpu:.1} µs"));
    drop(guards);
    let _ = client.shutdown(Duration::from_secs(10)).await;
}

fn count(counts: &Counts, event: &Event<'_>) {
    match event {
        Event::Renewed { outcome: Outcome::Done, .. } => {
            counts.renewed.fetch_add(1, Ordering::Relaxed);
        }
        Event::Renewed { .. } => {
            counts.failed.fetch_add(1, Ordering::Relaxed);
        }
        Event::Lost { .. } => {
            counts.lost.fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    }
}

/// The same extensions by rslock, which sends each on its own.
async fn extend_one_by_one(servers: &[Server], locks: usize) {
    let manager = LockManager::new(servers.iter().map(Server::url).collect());
    let mut held = Vec::new();
    for number in 0..locks {
        let name = format!("held:{number}");
        held.push(manager.lock(name.as_str(), TTL * 6).await.expect("nobody else"));
    }
    let cpu = cpu_time();
    for lock in &held {
        manager.extend(lock, TTL * 6).await.expect("it is held");
    }
    let cpu = (cpu_time() - cpu).as_secs_f64() * 1e6 / locks as f64;
    line(&format!("rslock 0.10, client CPU per extension on 3 nodes: {cpu:.1} µs"));
}

fn calls(servers: &[Server]) -> u64 {
    servers.iter().map(|server| server.command_calls("evalsha")).sum()
}

/// User and system time of this process.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().map(|at| fields[*at].parse().unwrap_or(0)).sum();
    Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND)
}

const TTL: Duration = Duration::from_secs(10);
const TICKS_PER_SECOND: u64 = 100;
