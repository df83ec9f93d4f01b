//! One lock with many waiters: hand-offs per second beside the bare limit, how even the shares are,
//! and what a hand-off costs the servers.

use std::{
    cell::RefCell,
    rc::Rc,
    time::{Duration, Instant},
};

use quorate::Client;
use quorate_testkit::Server;

use crate::{
    direct::Direct,
    setup::{Plan, reads, servers},
    table::{line, median, ratio},
};

/// Compares at each of these numbers of nodes, with 16 and 64 waiters; at one, three and five
/// if none is given.
pub(crate) async fn run(quick: bool, nodes: &[usize]) {
    // Long enough that every waiter gets the lock many times.
    let plan = match quick {
        true => Plan { rounds: 3, time: Duration::from_millis(500) },
        false => Plan { rounds: 7, time: Duration::from_secs(2) },
    };
    line("| nodes | waiters | limit, hand-offs/s | quorate / limit | max/min share | reads/node |");
    line("|---|---|---|---|---|---|");
    let nodes = if nodes.is_empty() { &[1, 3, 5] } else { nodes };
    for count in nodes {
        let servers = servers(*count).await;
        for waiters in [16, 64] {
            compare(&servers, waiters, &plan).await;
        }
    }
}

async fn compare(servers: &[Server], waiters: usize, plan: &Plan) {
    let addresses: Vec<String> = servers.iter().map(Server::address).collect();
    let client = Client::builder()
        .nodes(servers.iter().map(Server::url))
        .connect()
        .await
        .expect("servers are up");
    let mut direct = Direct::connect(&addresses, waiters);
    let (mut limits, mut ours, mut read) = (Vec::new(), Vec::new(), Vec::new());
    let mut shares = vec![0_u64; waiters];
    for round in 0..=plan.rounds {
        let limit = direct.hand_offs_per_second(plan.time, hold);
        let before = reads(servers);
        let counts = contend(&client, waiters, plan.time).await;
        let total: u64 = counts.held.iter().sum();
        // The first round warms up.
        if round > 0 {
            limits.push(limit);
            ours.push(total as f64 / counts.took.as_secs_f64());
            let per_node = (reads(servers) - before) as f64 / servers.len() as f64;
            read.push(per_node / total as f64);
            shares.iter_mut().zip(&counts.held).for_each(|(share, held)| *share += held);
        }
    }
    let most = shares.iter().copied().max().unwrap_or(0) as f64;
    let least = shares.iter().copied().min().unwrap_or(0) as f64;
    line(&format!(
        "| {} | {waiters} | {:.0} | {} | {:.2} | {:.2} |",
        servers.len(),
        median(&limits),
        ratio(&ours, &limits),
        most / least,
        median(&read),
    ));
}

struct Counts {
    held: Vec<u64>,
    took: Duration,
}

/// Every task acquires the lock again and again. When the time ends all tasks still wait, so that
/// none gets more because others have stopped.
async fn contend(client: &Client, waiters: usize, time: Duration) -> Counts {
    let held = Rc::new(RefCell::new(vec![0_u64; waiters]));
    let started = Instant::now();
    let tasks: Vec<_> = (0..waiters)
        .map(|task| {
            let (mutex, held) = (client.mutex("bench:line"), held.clone());
            tokio::task::spawn_local(async move {
                loop {
                    let guard = mutex.lock().await.expect("servers answer");
                    hold();
                    held.borrow_mut()[task] += 1;
                    drop(guard);
                }
            })
        })
        .collect();
    // The holder blocks this thread, as in the bare limit; no other task has work to do.
    tokio::time::sleep(time).await;
    let (took, counted) = (started.elapsed(), held.borrow().clone());
    for task in &tasks {
        task.abort();
    }
    for task in tasks {
        // Aborted, as it was to be.
        let _ = task.await;
    }
    Counts { held: counted, took }
}

/// The work under the lock.
#[expect(clippy::disallowed_methods, reason = "the time for which the lock is held is the point")]
fn hold() {
    std::thread::sleep(Duration::from_millis(1));
}
