//! Servers, cores and measurements that all contestants share.

use std::time::{Duration, Instant};

use quorate::Client;
use quorate_testkit::Server;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Keeps this process, and every thread that it starts, on the first core.
pub(crate) fn pin_client() {
    let mut first = CpuSet::new();
    first.set(0);
    sched_setaffinity(None, &first).expect("the first core is available");
}

/// Starts servers on the second core that vote immediately, with the usual settings.
pub(crate) async fn servers(count: usize) -> Vec<Server> {
    if count >= 3 { quarantined_servers(count).await } else { open_servers(count) }
}

/// Servers for clients without quarantine.
pub(crate) fn open_servers(count: usize) -> Vec<Server> {
    Server::builder().cpu(1).start_many(count)
}

/// Servers for clients with quarantine. They were admitted, so they vote immediately.
pub(crate) async fn quarantined_servers(count: usize) -> Vec<Server> {
    let servers = open_servers(count);
    let settings = Client::builder().nodes(servers.iter().map(Server::url)).quarantine(true);
    let client = settings.build().expect("the settings are valid");
    client.admit().await.expect("the servers are new");
    servers
}

/// The total number of reads of the servers from their sockets.
pub(crate) fn reads(servers: &[Server]) -> u64 {
    servers.iter().map(|server| server.stat("total_reads_processed")).sum()
}

/// Pairs of lock and unlock, and the time that they took together.
pub(crate) struct Pairs {
    pub(crate) count: u64,
    pub(crate) time: Duration,
}

impl Pairs {
    pub(crate) fn per_second(&self) -> f64 {
        self.count as f64 / self.time.as_secs_f64()
    }
}

/// Runs `tasks` tasks that lock and unlock for this time. Returns the total number of pairs per
/// second.
pub(crate) async fn pairs_per_second<P: AsyncFnMut() + 'static>(
    tasks: usize,
    time: Duration,
    contestant: impl FnMut(usize) -> P,
) -> f64 {
    pairs(tasks, time, contestant).await.per_second()
}

/// Runs `tasks` tasks that lock and unlock for this time.
pub(crate) async fn pairs<P: AsyncFnMut() + 'static>(
    tasks: usize,
    time: Duration,
    mut contestant: impl FnMut(usize) -> P,
) -> Pairs {
    let started = Instant::now();
    let handles: Vec<_> = (0..tasks)
        .map(|task| {
            let mut pair = contestant(task);
            tokio::task::spawn_local(async move {
                let mut pairs = 0_u64;
                while started.elapsed() < time {
                    pair().await;
                    pairs += 1;
                }
                pairs
            })
        })
        .collect();
    let mut count = 0;
    for handle in handles {
        count += handle.await.expect("no contestant panics");
    }
    Pairs { count, time: started.elapsed() }
}

/// The number of rounds, and the time of each contestant per round.
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) time: Duration,
}

impl Plan {
    pub(crate) fn new(quick: bool) -> Self {
        if quick {
            Self { rounds: 3, time: Duration::from_millis(300) }
        } else {
            Self { rounds: 21, time: Duration::from_millis(400) }
        }
    }
}

/// Longer than usual: on a busy machine a server may get no time for a while.
pub(crate) const VOTE_TIMEOUT: Duration = Duration::from_millis(500);
