//! Many held locks for a while: what is lost (nothing), how renewals are spread, how many calls
//! they take, what a held lock needs in memory, and what an extension costs the client. Beside it
//! the same batches on bare sockets, and another library that extends one by one.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use quorate::{
    Client, Guard,
    observe::{Event, Outcome},
};
use quorate_testkit::Server;
use rslock::LockManager;

use crate::{
    bare_extend::cpu_per_extension,
    cpu, memory,
    setup::{pairs, servers},
    table::line,
};

pub(crate) async fn run(quick: bool) {
    let (locks, time) = if quick { (10_000, 10) } else { (100_000, 60) };
    let servers = servers(3).await;
    let ours = hold(&servers, locks, Duration::from_secs(time)).await;
    servers.iter().for_each(Server::flush_all);
    let addresses: Vec<String> = servers.iter().map(Server::address).collect();
    line(&format!("client CPU per extension on 3 nodes: {:.2} µs", ours.cpu_us));
    // As many keys as ours had on average, and as few as other programs send.
    let same = ours.batch.round().clamp(1.0, MOST_KEYS) as usize;
    for batch in [same, FEW_KEYS] {
        let bare = micros(cpu_per_extension(&addresses, locks, batch));
        let ratio = ours.cpu_us / bare;
        line(&format!("bare batches of {batch} keys: {bare:.2} µs"));
        line(&format!("quorate / bare batches of {batch} keys: {ratio:.2} (target {CPU_TARGET})"));
    }
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

/// What renewals took.
struct Renewals {
    cpu_us: f64,
    /// Renewals per call of a node.
    batch: f64,
}

async fn hold(servers: &[Server], locks: usize, time: Duration) -> Renewals {
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
    let guards = acquire(&client, locks).await;
    // The first renewals are those of a burst; after one ttl they have spread.
    tokio::time::sleep(TTL).await;
    let (calls, cpu) = (calls(servers), cpu::of_this_process());
    let (renewed, started) = (counts.renewed.load(Ordering::Relaxed), Instant::now());
    let mut per_second = Vec::new();
    while started.elapsed() < time {
        let before = counts.renewed.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(1)).await;
        per_second.push(counts.renewed.load(Ordering::Relaxed) - before);
    }
    let seconds = started.elapsed().as_secs_f64();
    let renewed = counts.renewed.load(Ordering::Relaxed) - renewed;
    let cpu_us = micros(cpu::of_this_process() - cpu) / renewed.max(1) as f64;
    let calls = (self::calls(servers) - calls) as f64 / servers.len() as f64;
    per_second.sort_unstable();
    let (least, most) = (per_second[0], per_second[per_second.len() - 1]);
    let held = guards.iter().filter(|guard| guard.check().is_ok()).count();
    let (lost, failed) =
        (counts.lost.load(Ordering::Relaxed), counts.failed.load(Ordering::Relaxed));
    line(&format!(
        "{held} of {locks} locks of {TTL:?} held for {seconds:.0} s, {lost} lost (target 0)"
    ));
    line(&format!("{renewed} renewals, {failed} not confirmed at first"));
    line(&format!("renewals per second: {least} to {most}"));
    line(&format!("calls per node and second: {:.0}", calls / seconds));
    drop(guards);
    let _ = client.shutdown(Duration::from_secs(10)).await;
    Renewals { cpu_us, batch: renewed as f64 / calls }
}

/// Acquires the locks with many callers, and says what each needs in memory.
async fn acquire(client: &Client, locks: usize) -> Vec<Guard> {
    // The memory that callers need is there already when that of locks is measured.
    let warm = pairs(CALLERS, Duration::from_millis(500), |caller| {
        let mutex = client.mutex(format!("warm:{caller}"));
        async move || drop(mutex.lock().await.expect("nobody else"))
    });
    warm.await;
    let before = memory::resident();
    let (next, guards) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::with_capacity(locks))));
    let callers = (0..CALLERS).map(|_| {
        let (client, next, guards) = (client.clone(), next.clone(), guards.clone());
        tokio::task::spawn_local(async move {
            while next.get() < locks {
                let name = format!("held:{}", next.replace(next.get() + 1));
                let guard = client.mutex(name).lock().await.expect("nobody else");
                guards.borrow_mut().push(guard);
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("no caller panics");
    }
    let each = memory::each(before, locks);
    line(&format!("client memory per held lock: {each:.0} bytes (target {BYTES_TARGET})"));
    guards.take()
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
    let cpu = cpu::of_this_process();
    for lock in &held {
        manager.extend(lock, TTL * 6).await.expect("it is held");
    }
    let cpu = micros(cpu::of_this_process() - cpu) / locks as f64;
    line(&format!("rslock 0.10, client CPU per extension on 3 nodes: {cpu:.1} µs"));
}

fn calls(servers: &[Server]) -> u64 {
    servers.iter().map(|server| server.command_calls("evalsha")).sum()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

const TTL: Duration = Duration::from_secs(10);
const CALLERS: usize = 64;
const FEW_KEYS: usize = 30;
/// What fits into one of our calls.
const MOST_KEYS: f64 = 128.0;
/// How much more than a bare batch an extension may cost.
const CPU_TARGET: f64 = 1.1;
/// What a held lock may need in its process.
const BYTES_TARGET: u64 = 600;
