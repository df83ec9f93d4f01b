//! Several locks for one caller beside one lock, and beside one lock after the other; and what a
//! semaphore costs by the number of its permits.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use quorate::{Client, Semaphore};
use quorate_testkit::Server;

use crate::{
    stage::{Plan, pairs_per_second, servers},
    table::{line, median, ratio},
};

/// Compares at each of these numbers of nodes; at one and three if none is given.
pub(crate) async fn run(quick: bool, nodes: &[usize]) {
    let plan = Plan::new(quick);
    let nodes = if nodes.is_empty() { &[1, 3] } else { nodes };
    line("| nodes | names | one lock, pairs/s | mutex_all / one lock | mutex_all / one by one |");
    line("|---|---|---|---|---|");
    let mut stages = Vec::new();
    for count in nodes {
        let servers = servers(*count).await;
        let client = Client::connect(servers.iter().map(Server::url)).await.expect("they are up");
        for names in [1, 2, 8] {
            compare(&client, servers.len(), names, &plan).await;
        }
        stages.push((servers, client));
    }
    line("");
    line("| nodes | permits | one, ms | all, ms | none, ms | turn, ms | commands/s of a waiter |");
    line("|---|---|---|---|---|---|---|");
    for (servers, client) in &stages {
        for permits in [8, 128, Semaphore::MAX_PERMITS] {
            semaphore(servers, client, permits, &plan).await;
        }
    }
}

/// Uncontended pairs of acquire and release.
async fn compare(client: &Client, nodes: usize, names: usize, plan: &Plan) {
    let name = |number: usize| format!("bench:{number}");
    let (mut one, mut together, mut each) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=plan.rounds {
        let mutex = client.mutex(name(0));
        let single = pairs_per_second(1, plan.time, |_| {
            let mutex = mutex.clone();
            async move || {
                let guard = mutex.lock().await.expect("servers answer");
                guard.release().await.expect("servers answer");
            }
        });
        let single = single.await;
        let set = client.mutex_all((0..names).map(name));
        let all = pairs_per_second(1, plan.time, |_| {
            let set = set.clone();
            async move || {
                let guard = set.lock().await.expect("servers answer");
                guard.release().await.expect("servers answer");
            }
        });
        let all = all.await;
        let mutexes: Vec<_> = (0..names).map(|number| client.mutex(name(number))).collect();
        let sequence = pairs_per_second(1, plan.time, |_| {
            let mutexes = mutexes.clone();
            async move || {
                let mut guards = Vec::with_capacity(mutexes.len());
                for mutex in &mutexes {
                    guards.push(mutex.lock().await.expect("servers answer"));
                }
                for guard in guards {
                    guard.release().await.expect("servers answer");
                }
            }
        });
        let sequence = sequence.await;
        // The first round warms up.
        if round > 0 {
            one.push(single);
            together.push(all);
            each.push(sequence);
        }
    }
    line(&format!(
        "| {nodes} | {names} | {:.0} | {} | {} |",
        median(&one),
        ratio(&together, &one),
        ratio(&together, &each)
    ));
}

/// One permit and all of them while all are free, a try that finds none, and a turn: from a release
/// to the waiter that has the permit. Then the commands that a node gets of a waiter.
async fn semaphore(servers: &[Server], client: &Client, permits: u32, plan: &Plan) {
    let count = NonZeroU32::new(permits).expect("at least one");
    let jobs = client.semaphore(format!("bench:{permits}"), count);
    let (mut one, mut all, mut none, mut turn) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..=plan.rounds {
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
        let mut guards = guard.into_guards();
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
    let renewals = calls_per_second(&servers[0]).await;
    let waiting = wait(&jobs, servers, permits).await;
    let both = calls_per_second(&servers[0]).await;
    waiting.abort();
    // Aborted, as it was to be.
    let _ = waiting.await;
    guard.release().await.expect("servers answer");
    line(&format!(
        "| {} | {permits} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} |",
        servers.len(),
        median(&one),
        median(&all),
        median(&none),
        median(&turn),
        both - renewals,
    ));
}

/// One who is the first in the queue, and waits for all permits on the first server.
async fn wait(
    jobs: &Semaphore,
    servers: &[Server],
    permits: u32,
) -> tokio::task::JoinHandle<quorate::Guard> {
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

/// How many calls clients of ours make per second, for as long as one renews everything twice.
async fn calls_per_second(server: &Server) -> f64 {
    tokio::time::sleep(SETTLED).await;
    let (since, before) = (Instant::now(), server.command_calls("evalsha"));
    tokio::time::sleep(Duration::from_secs(7)).await;
    (server.command_calls("evalsha") - before) as f64 / since.elapsed().as_secs_f64()
}

const SETTLED: Duration = Duration::from_millis(200);
