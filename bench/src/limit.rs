//! Our mutex beside the bare limit, and beside the `redis` crate's connection: uncontended pairs of
//! lock and unlock.

use std::rc::Rc;

use quorate::Client;
use quorate_testkit::Server;

use crate::{
    bare::Bare,
    multiplexed::Multiplexed,
    setup::{Plan, pairs_per_second, servers},
    table::{line, median, ratio},
};

/// Compares at each of these numbers of nodes; at one, three and five if none is given.
pub(crate) async fn run(quick: bool, nodes: &[usize]) {
    let plan = Plan::new(quick);
    line("| nodes | tasks | limit, pairs/s | redis crate / limit | quorate / limit |");
    line("|---|---|---|---|---|");
    let nodes = if nodes.is_empty() { &[1, 3, 5] } else { nodes };
    for count in nodes {
        let servers = servers(*count).await;
        for tasks in [1, 64] {
            compare(&servers, tasks, &plan).await;
        }
    }
}

async fn compare(servers: &[Server], tasks: usize, plan: &Plan) {
    let addresses: Vec<String> = servers.iter().map(Server::address).collect();
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let bare = Rc::new(Bare::connect(&addresses).await);
    let multiplexed = Rc::new(Multiplexed::connect(&urls).await);
    let client = Client::connect(&urls).await.expect("servers are up");
    let (mut limits, mut crates, mut ours) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=plan.rounds {
        let limit = pairs_per_second(tasks, plan.time, |task| {
            let (bare, key) = (bare.clone(), format!("bench:{task}"));
            async move || bare.pair(&key).await
        });
        let limit = limit.await;
        let theirs = pairs_per_second(tasks, plan.time, |task| {
            let (multiplexed, key) = (multiplexed.clone(), format!("bench:{task}"));
            async move || multiplexed.pair(&key).await
        });
        let theirs = theirs.await;
        let our = pairs_per_second(tasks, plan.time, |task| {
            let mutex = client.mutex(format!("bench:{task}"));
            async move || {
                let guard = mutex.try_lock().await.expect("servers answer").expect("nobody else");
                guard.release().await.expect("servers answer");
            }
        });
        let our = our.await;
        // The first round warms up.
        if round > 0 {
            limits.push(limit);
            crates.push(theirs);
            ours.push(our);
        }
    }
    line(&format!(
        "| {} | {tasks} | {:.0} | {} | {} |",
        servers.len(),
        median(&limits),
        ratio(&crates, &limits),
        ratio(&ours, &limits)
    ));
}
