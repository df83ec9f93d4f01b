//! Processor time: it varies less than the time on a clock.

use std::time::Duration;

use quorate_testkit::Server;
use rustix::time::{ClockId, clock_gettime};

/// What all threads of this process have used.
pub(crate) fn of_this_process() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(used).expect("it is never negative")
}

/// What the servers have used together. Their main threads do the work that clients ask for.
pub(crate) fn of_servers(servers: &[Server]) -> Duration {
    servers.iter().map(of_server).sum()
}

fn of_server(server: &Server) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{}/schedstat", server.pid()));
    let text = text.expect("Linux counts it for every process");
    let used = text.split_whitespace().next().and_then(|used| used.parse().ok());
    Duration::from_nanos(used.expect("the first number is the time on a processor"))
}
