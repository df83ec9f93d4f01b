//! Five nodes are restarted one after another without their data, each as soon as the one before
//! votes again: nobody who works with locks notices.
//!
//! It has no test harness, since it waits for five guards and nothing else is to wait for it; what
//! `cargo test` hands over is understood or ignored.

use std::{
    env,
    process::ExitCode,
    time::{Duration, Instant},
};

use quorate::{
    Client, ClientBuilder,
    error::{NodeAnswer, NodeReport, Trouble},
};
use quorate_testkit::{Server, eventually, history::Moment};

use self::load::{Job, Load};

#[path = "it/guard/load.rs"]
mod load;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let has = |wanted: &str| args.iter().any(|arg| arg == wanted);
    if has("--list") {
        // Nothing is ignored here, so a list of what is has no lines.
        if !has("--ignored") {
            say("rolling: test");
        }
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(restart_all());
    ExitCode::SUCCESS
}

/// Panics if a promise was broken, a lock was lost, or somebody waited for too long.
async fn restart_all() {
    let servers = Server::start_many(5);
    let settings = || settings(&servers);
    settings().build().expect("the settings are valid").admit().await.expect("they are new");
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(attached(settings()).await);
    }
    let holder = attached(settings()).await;
    let held = holder.mutex("held").lock().await.expect("the nodes vote");
    let load = Load::start(clients, JOBS);
    let is_at_work = |then| {
        eventually("locks are taken", PATIENCE, || load.claims_since(then) >= 20);
    };
    for (number, server) in servers.iter().enumerate() {
        is_at_work(Moment::now());
        let started = Instant::now();
        server.restart_empty();
        wait_until(&holder, "it is guarded", |nodes| is_guarded(&nodes[number]));
        is_at_work(Moment::now());
        wait_until(&holder, "all vote", |nodes| nodes.iter().all(is_attached));
        let lost = load.lost();
        assert_eq!((held.check(), lost), (Ok(()), 0), "they were renewed all the time");
        say(&format!("node {number} votes again after {:?}", started.elapsed()));
    }
    is_at_work(Moment::now());
    held.verify().await.expect("it is held");
    held.release().await.expect("it is held");
    let lost = load.lost();
    let history = load.end().await;
    let quick = history.claims().iter().filter(|claim| claim.lock == QUICK);
    let longest = quick.map(|claim| claim.acquired_at.since(claim.asked_at)).max();
    let longest = longest.expect("it was taken all the time");
    say(&format!("{lost} locks lost; longest wait for {QUICK:?}: {longest:?}"));
    say(&format!("{}", history.report()));
    assert_eq!(lost, 0);
    assert!(longest <= WAIT_MAX, "{longest:?}");
}

fn settings(servers: &[Server]) -> ClientBuilder {
    Client::builder().nodes(servers.iter().map(Server::url)).ttl(TTL).max_ttl(TTL)
}

async fn attached(settings: ClientBuilder) -> Client {
    let client = settings.connect().await.expect("the nodes vote");
    wait_until(&client, "every node is attached", |nodes| nodes.iter().all(is_attached));
    client
}

fn wait_until(client: &Client, what: &str, is: impl Fn(&[NodeReport]) -> bool) {
    eventually(what, PATIENCE, || is(&client.nodes()));
}

fn is_attached(report: &NodeReport) -> bool {
    report.answer == NodeAnswer::Attached
}

fn is_guarded(report: &NodeReport) -> bool {
    matches!(report.answer, NodeAnswer::Trouble(Trouble::Guarded { .. }))
}

#[expect(clippy::print_stdout, reason = "there is no harness that says how it went")]
fn say(line: &str) {
    println!("{line}");
}

/// One that goes round as fast as it can, and one that is renewed.
const JOBS: [Job; 2] = [
    Job { work: Duration::from_millis(10), locks: &[QUICK] },
    Job { work: Duration::from_millis(2_000), locks: &["second", "third", "fourth"] },
];
const QUICK: &str = "first";

/// The guard lasts for 7 s longer, and there are five of them.
const TTL: Duration = Duration::from_millis(3_000);

/// A ttl and a second: what a node that goes in the middle of a vote may cost.
const WAIT_MAX: Duration = Duration::from_millis(4_000);

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
