//! What a semaphore costs by the number of its permits.

use std::time::{Duration, Instant};

use quorate::{Client, Semaphore};
use quorate_testkit::Server;

use crate::{setup::Plan, table::median};

/// A row for each number of permits.
pub(super) async fn rows(servers: &[Server], client: &Client, quick: bool) -> Vec<String> {
    let mut rows = Vec::new();
    let most = Semaphore::MAX_PERMITS;
    let numbers = if quick { vec![8, most] } else { vec![8, 128, most] };
    for permits in numbers {
        rows.push(semaphore(servers, client, permits, quick).await);
    }
    rows
}

/// One permit and all of them while all are free, a try that finds none, and a turn: from a release
/// to the waiter that has the permit. Then the commands that a node gets of a waiter.
async fn semaphore(servers: &[Server], client: &Client, permits: u32, quick: bool) -> String {
    let rounds = Plan::new(quick).rounds;
    let jobs = client.semaphore(format!("bench:{permits}"), permits);
    let (mut one, mut all, mut none, mut turn) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        // Nobody waits for all nodes to have answered about all permits of the round before.
        tokio::time::sleep(SETTLED).await;
        let started = Instant::now();
        let guard = jobs.acquire().await.expect("servers answer");
        let single = millis(started);
        guard.release().await.expect("servers answer");
        let started = Instant::now();
        let guard = jobs.acquire_many(permits).await.expect("servers answer");
        let many = millis(started);
        let started = Instant::now();
        assert!(jobs.try_acquire().await.expect("servers answer").is_none(), "all are held");
        let refused = millis(started);
        let mut guards = guard.into_permits();
        let waiting = wait(&jobs, servers, permits).await;
        let started = Instant::now();
        guards.pop().expect("one of many").release().await.expect("servers answer");
        let guard = waiting.await.expect("no panic");
        let turned = millis(started);
        drop((guard, guards));
        // What was dropped is released by then.
        let all_again = jobs.acquire_many(permits).await.expect("servers answer");
        all_again.release().await.expect("servers answer");
        // The first round warms up.
        if round > 0 {
            one.push(single);
            all.push(many);
            none.push(refused);
            turn.push(turned);
        }
    }
    let guard = jobs.acquire_many(permits).await.expect("servers answer");
    // Long enough that everything is renewed once or twice.
    let time = Duration::from_millis(if quick { 3_500 } else { 7_000 });
    let renewals = calls_per_second(&servers[0], time).await;
    let waiting = wait(&jobs, servers, permits).await;
    let both = calls_per_second(&servers[0], time).await;
    waiting.abort();
    // Aborted, as it was to be.
    let _ = waiting.await;
    guard.release().await.expect("servers answer");
    format!(
        "| {} | {permits} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} |",
        servers.len(),
        median(&one),
        median(&all),
        median(&none),
        median(&turn),
        both - renewals,
    )
}

/// Starts a caller, and returns once it heads the queue and waits for all permits.
async fn wait(
    jobs: &Semaphore,
    servers: &[Server],
    permits: u32,
) -> tokio::task::JoinHandle<quorate::Permit> {
    let semaphore = jobs.clone();
    let waiting =
        tokio::task::spawn_local(async move { semaphore.acquire().await.expect("servers answer") });
    let mut connection = servers[0].connection();
    loop {
        let mut pipe = redis::pipe();
        for number in 1..=permits {
            pipe.cmd("ZCARD").arg(format!("quorate:q:{{bench:{permits}#{number}}}"));
        }
        let counts: Vec<usize> = pipe.query(&mut connection).expect("the server answers");
        if counts.iter().all(|count| *count > 0) {
            return waiting;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1_000.0
}

/// How many calls clients of ours make per second.
async fn calls_per_second(server: &Server, time: Duration) -> f64 {
    tokio::time::sleep(SETTLED).await;
    let (since, before) = (Instant::now(), server.command_calls("evalsha"));
    tokio::time::sleep(time).await;
    (server.command_calls("evalsha") - before) as f64 / since.elapsed().as_secs_f64()
}

const SETTLED: Duration = Duration::from_millis(200);
