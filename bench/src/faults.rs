//! Five nodes, two of them down in one way or another: what it costs a lone caller.

use std::time::Instant;

use quorate::Client;
use quorate_testkit::{Fault, Proxy, Server};

use crate::{
    setup::Plan,
    table::{line, median},
};

pub(crate) async fn run(quick: bool) {
    let plan = Plan::new(quick);
    line("| two of five nodes | try_lock healthy, µs | try_lock with the fault, µs | ratio |");
    line("|---|---|---|---|");
    for way in [Way::Killed, Way::Stopped, Way::BlackHoled] {
        compare(way, &plan).await;
    }
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Killed,
    Stopped,
    BlackHoled,
}

async fn compare(way: Way, plan: &Plan) {
    // Killed ones come back at once here, so that they can be compared.
    let servers = Server::builder().cpu(1).start_many(5);
    let proxies: Vec<Proxy> =
        servers[..2].iter().map(|server| Proxy::start(&server.address())).collect();
    let faulty = proxies.iter().map(Proxy::url);
    let urls: Vec<String> = match way {
        Way::BlackHoled => faulty.chain(servers[2..].iter().map(Server::url)).collect(),
        Way::Killed | Way::Stopped => servers.iter().map(Server::url).collect(),
    };
    let settings = Client::builder().quarantine(false).nodes(&urls);
    let client = settings.connect().await.expect("servers are up");
    let (mut healthy, mut hurt) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        healthy.push(median_try_lock(&client, plan).await);
        for (server, proxy) in servers.iter().zip(&proxies) {
            match way {
                Way::Killed => server.kill(),
                Way::Stopped => server.pause(),
                Way::BlackHoled => proxy.set(Fault::BlackHole),
            }
        }
        hurt.push(median_try_lock(&client, plan).await);
        for (server, proxy) in servers.iter().zip(&proxies) {
            match way {
                Way::Killed => server.restart(),
                Way::Stopped => server.resume(),
                Way::BlackHoled => proxy.set(Fault::Pass),
            }
        }
        attached(&client).await;
    }
    let (healthy, hurt) = (median(&healthy), median(&hurt));
    line(&format!("| {way:?} | {healthy:.0} | {hurt:.0} | {:.2} |", hurt / healthy));
}

/// The median time of `try_lock` in microseconds; releases are not counted.
async fn median_try_lock(client: &Client, plan: &Plan) -> f64 {
    let mutex = client.mutex("bench");
    let until = Instant::now() + plan.time;
    let mut times = Vec::new();
    while Instant::now() < until {
        let started = Instant::now();
        let guard = mutex.try_lock().await.expect("a majority answers").expect("nobody else");
        times.push(started.elapsed().as_secs_f64() * 1e6);
        guard.release().await.expect("a majority answers");
    }
    median(&times)
}

/// Waits until every node is attached again.
async fn attached(client: &Client) {
    let attached = |client: &Client| {
        let reports = client.node_status();
        reports.iter().all(|report| report.answer == quorate::error::NodeAnswer::Attached)
    };
    while !attached(client) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
