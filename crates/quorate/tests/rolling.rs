//! Three and five nodes are restarted one after another without their data, each as soon as the one
//! before votes again. Holders keep their locks, although others wait for them and late callers ask
//! for them all the time.
//!
//! It has no test harness, because it waits for five quarantines, and no other test is to
//! wait for it.

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use quorate::{
    Client, ClientBuilder, Guard,
    error::{NodeAnswer, NodeError, NodeReport},
};
use quorate_testkit::{
    Fault, Proxy, Server, admit, eventually,
    history::Moment,
    processes::{self, print_line},
};
use tokio::{
    task::JoinHandle,
    time::{interval, timeout},
};

use self::load::{Job, Load};

#[path = "it/quarantine/load.rs"]
mod load;

fn main() -> ExitCode {
    let child = |_: &str, _: &[&str]| Err("the test has no children".into());
    processes::run("rolling", child, |_| {
        // Each set has a thread and a runtime of its own: waiting blocks the thread.
        let sets = [3, 5].map(|nodes| {
            thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
                runtime.expect("a runtime").block_on(restart_all(nodes));
            })
        });
        let failed = sets.into_iter().map(thread::JoinHandle::join).filter(Result::is_err).count();
        assert_eq!(failed, 0, "sets of nodes for which a promise was broken");
    })
}

/// Panics if a promise was broken, a lock was lost, or a caller waited for too long.
async fn restart_all(nodes: usize) {
    let servers = Server::start_many(nodes);
    let settings = || settings(&servers);
    admit(&servers, settings());
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(attached(settings()).await);
    }
    // The holder finds every node later than its rivals do.
    let proxies: Vec<Proxy> = servers.iter().map(|it| Proxy::start(&it.address())).collect();
    proxies.iter().for_each(|it| it.set(Fault::Delay { up: LATE, down: LATE }));
    let holder = attached(with_nodes(proxies.iter().map(Proxy::url))).await;
    let watcher = attached(settings()).await;
    let held = holder.mutex("held").lock().await.expect("the nodes vote");
    let read = holder.rwlock("read").read().await.expect("the nodes vote");
    let mut rivals = Rivals::start(&attached(settings()).await, &["held", "read"]).await;
    let load = Load::start(clients, JOBS);
    let is_at_work = |then| {
        eventually("locks are taken", PATIENCE, || load.claims_since(then) >= 20);
    };
    for (number, server) in servers.iter().enumerate() {
        is_at_work(Moment::now());
        let started = Instant::now();
        server.restart_empty();
        wait_until(&watcher, "it is quarantined", |nodes| has_quarantine(&nodes[number]));
        is_at_work(Moment::now());
        for client in [&watcher, &holder] {
            wait_until(client, "all vote", |nodes| nodes.iter().all(is_attached));
        }
        rivals.await_more();
        let lost = load.lost();
        let checks = (held.check(), read.check(), lost);
        assert_eq!(checks, (Ok(()), Ok(()), 0), "they were renewed all the time");
        let after = started.elapsed();
        print_line(&format!("{nodes} nodes: node {number} votes again after {after:?}"));
    }
    is_at_work(Moment::now());
    rivals.stop_asking();
    for guard in [held, read.into_guard()] {
        guard.verify().await.expect("it is held");
        guard.release().await.expect("it is held");
    }
    rivals.end().await;
    let lost = load.lost();
    let history = load.end().await;
    let quick = history.claims().iter().filter(|claim| claim.lock == QUICK);
    let longest = quick.map(|claim| claim.acquired_at.since(claim.asked_at)).max();
    let longest = longest.expect("it was taken all the time");
    print_line(&format!(
        "{nodes} nodes: {lost} locks lost; longest wait for {QUICK:?}: {longest:?}"
    ));
    print_line(&format!("{}", history.report()));
    assert_eq!(lost, 0);
    assert!(longest <= WAIT_MAX, "{longest:?}");
}

/// Rivals for locks that are held: for each of them a waiter in the queue, and a caller that
/// tries again and again without waiting.
struct Rivals {
    waiting: Vec<JoinHandle<Guard>>,
    asking: Vec<JoinHandle<()>>,
    asked: Arc<AtomicU64>,
}

impl Rivals {
    async fn start(client: &Client, names: &[&'static str]) -> Self {
        let asked = Arc::new(AtomicU64::new(0));
        let (mut waiting, mut asking) = (Vec::new(), Vec::new());
        for &name in names {
            let mutex = client.mutex(name);
            waiting.push(tokio::spawn(async move {
                mutex.lock().await.expect("the lock is granted to it")
            }));
            let is_waiting = async || client.inspect(name).await.expect("nodes").waiting_total == 1;
            let mut checks = interval(ASK_EVERY);
            let one_waits = async {
                while !is_waiting().await {
                    checks.tick().await;
                }
            };
            timeout(PATIENCE, one_waits).await.expect("one waits");
            let (mutex, asked) = (client.mutex(name), asked.clone());
            asking.push(tokio::spawn(async move {
                let mut turns = interval(ASK_EVERY);
                loop {
                    turns.tick().await;
                    // Nodes that go down while they are asked leave too few answers.
                    let won = mutex.try_lock().await;
                    assert!(!matches!(won, Ok(Some(_))), "two hold {name}");
                    asked.fetch_add(1, Ordering::SeqCst);
                }
            }));
        }
        Self { waiting, asking, asked }
    }

    /// Waits until the callers have tried again a few times.
    fn await_more(&self) {
        let asked = self.asked.load(Ordering::SeqCst);
        eventually("they ask", PATIENCE, || self.asked.load(Ordering::SeqCst) > asked + 20);
    }

    /// Ends the callers that do not wait.
    fn stop_asking(&mut self) {
        for asking in self.asking.drain(..) {
            assert!(!asking.is_finished(), "it asks until it is stopped");
            asking.abort();
        }
    }

    /// The lock is granted to the waiters.
    async fn end(self) {
        for waiting in self.waiting {
            let guard = timeout(PATIENCE, waiting).await.expect("the lock is granted to it");
            guard.expect("it waited").release().await.expect("it is held");
        }
    }
}

fn settings(servers: &[Server]) -> ClientBuilder {
    with_nodes(servers.iter().map(Server::url))
}

fn with_nodes(urls: impl Iterator<Item = String>) -> ClientBuilder {
    Client::builder().nodes(urls).ttl(TTL).max_ttl(TTL)
}

async fn attached(settings: ClientBuilder) -> Client {
    let client = settings.connect().await.expect("the nodes vote");
    wait_until(&client, "every node is attached", |nodes| nodes.iter().all(is_attached));
    client
}

fn wait_until(client: &Client, what: &str, is: impl Fn(&[NodeReport]) -> bool) {
    eventually(what, PATIENCE, || is(&client.node_status()));
}

fn is_attached(report: &NodeReport) -> bool {
    report.answer == NodeAnswer::Attached
}

fn has_quarantine(report: &NodeReport) -> bool {
    matches!(report.answer, NodeAnswer::NodeError(NodeError::Quarantined { .. }))
}

/// One job is repeated as fast as possible, and one is renewed.
const JOBS: [Job; 2] = [
    Job { work: Duration::from_millis(10), locks: &[QUICK] },
    Job { work: Duration::from_millis(2_000), locks: &["second", "third", "fourth"] },
];
const QUICK: &str = "first";

/// A quarantine lasts for 7 s longer and the recovery for 5 s, and there are five of them.
const TTL: Duration = Duration::from_millis(3_000);

/// The delay of every message of the holder.
const LATE: Duration = Duration::from_millis(5);

/// How often callers try to acquire held locks.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// A ttl and a second: the delay by a node that fails in the middle of a vote.
const WAIT_MAX: Duration = Duration::from_millis(4_000);

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
