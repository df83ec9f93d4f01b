//! One lock with many waiters: hand-offs per second beside the bare limit, how even the shares are,
//! and what a hand-off costs the servers.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{Duration, Instant},
};

use quorate::Client;
use quorate_testkit::Server;

use crate::{
    direct::{Direct, HandOffs},
    setup::{Plan, reads, servers},
    table::{high, line, median, ratio},
};

/// Compares at each of these numbers of nodes: with 16 and 64 waiters that hold the lock for 1 ms,
/// and with 16 that release it at once, so that nothing hides the cost of the hand-off.
pub(crate) async fn run(quick: bool, nodes: &[usize]) {
    // Long enough that every waiter gets the lock many times.
    let plan = match quick {
        true => Plan { rounds: 3, time: Duration::from_millis(500) },
        false => Plan { rounds: 7, time: Duration::from_secs(2) },
    };
    line(
        "| nodes | waiters | hold, ms | limit, hand-offs/s | quorate / limit \
         | p50, µs: limit | quorate | limit / quorate | p99, µs: limit | quorate \
         | limit / quorate | max/min share | reads/node |",
    );
    line("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for count in nodes {
        let servers = servers(*count).await;
        for (waiters, hold_ms) in [(16, 1), (64, 1), (16, 0)] {
            compare(&servers, waiters, Duration::from_millis(hold_ms), &plan).await;
        }
    }
}

async fn compare(servers: &[Server], waiters: usize, hold: Duration, plan: &Plan) {
    let addresses: Vec<String> = servers.iter().map(Server::address).collect();
    let client = Client::builder()
        .nodes(servers.iter().map(Server::url))
        .connect()
        .await
        .expect("servers are up");
    let mut direct = Direct::connect(&addresses, waiters);
    let (mut limits, mut ours, mut read) = (Results::default(), Results::default(), Vec::new());
    let mut shares = vec![0_u64; waiters];
    for round in 0..=plan.rounds {
        let limit = direct.hand_over(plan.time, || work(hold));
        let before = reads(servers);
        let counts = contend(&client, waiters, hold, plan.time).await;
        let total: u64 = counts.held.iter().sum();
        // The first round warms up.
        if round > 0 {
            limits.push(&limit);
            ours.push(&counts.hand_offs);
            let per_node = (reads(servers) - before) as f64 / servers.len() as f64;
            read.push(per_node / total as f64);
            shares.iter_mut().zip(&counts.held).for_each(|(share, held)| *share += held);
        }
    }
    let most = shares.iter().copied().max().unwrap_or(0) as f64;
    let least = shares.iter().copied().min().unwrap_or(0) as f64;
    line(&format!(
        "| {} | {waiters} | {} | {:.0} | {} | {} | {} | {:.2} | {:.2} |",
        servers.len(),
        hold.as_millis(),
        median(&limits.rates),
        ratio(&ours.rates, &limits.rates),
        beside(&limits.p50, &ours.p50),
        beside(&limits.p99, &ours.p99),
        most / least,
        median(&read),
    ));
}

/// Three columns: both times, and how near ours is to the limit.
fn beside(limit: &[f64], ours: &[f64]) -> String {
    format!("{:.0} | {:.0} | {}", median(limit), median(ours), ratio(limit, ours))
}

/// One value per round.
#[derive(Default)]
struct Results {
    rates: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
}

impl Results {
    fn push(&mut self, round: &HandOffs) {
        self.rates.push(round.per_second());
        self.p50.push(median(&round.times));
        self.p99.push(high(&round.times));
    }
}

struct Counts {
    held: Vec<u64>,
    hand_offs: HandOffs,
}

/// Every task acquires the lock again and again. When the time ends all tasks still wait, so that
/// none gets more because others have stopped.
async fn contend(client: &Client, waiters: usize, hold: Duration, time: Duration) -> Counts {
    let held = Rc::new(RefCell::new(vec![0_u64; waiters]));
    let times = Rc::new(RefCell::new(Vec::new()));
    let released: Rc<Cell<Option<Instant>>> = Rc::default();
    let started = Instant::now();
    let tasks: Vec<_> = (0..waiters)
        .map(|task| {
            let (mutex, held) = (client.mutex("bench:line"), held.clone());
            let (times, released) = (times.clone(), released.clone());
            tokio::task::spawn_local(async move {
                loop {
                    let guard = mutex.lock().await.expect("servers answer");
                    let took = released.get().map(|at: Instant| at.elapsed().as_secs_f64() * 1e6);
                    times.borrow_mut().extend(took);
                    work(hold);
                    held.borrow_mut()[task] += 1;
                    released.set(Some(Instant::now()));
                    drop(guard);
                }
            })
        })
        .collect();
    // The holder blocks this thread, as in the bare limit; no other task has work to do.
    tokio::time::sleep(time).await;
    let (took, counted, times) = (started.elapsed(), held.borrow().clone(), times.take());
    for task in &tasks {
        task.abort();
    }
    for task in tasks {
        // Aborted, as it was to be.
        let _ = task.await;
    }
    Counts { held: counted, hand_offs: HandOffs { took, times } }
}

/// The work under the lock.
#[expect(clippy::disallowed_methods, reason = "the time for which the lock is held is the point")]
fn work(hold: Duration) {
    if !hold.is_zero() {
        std::thread::sleep(hold);
    }
}
