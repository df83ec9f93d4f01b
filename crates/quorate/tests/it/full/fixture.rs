//! Servers that can be filled, in both modes, with locks that are held and waiters behind them.

use std::{thread, time::Duration};

use quorate::{
    Client, ClientBuilder, Guard, Semaphore,
    error::{LockError, NodeAnswer, NodeError, NodeReport},
};
use quorate_core::{membership::SESSION_LIFE_MS, quorum::majority};
use quorate_testkit::{Proxy, Server, admit, eventually, redis::cmd};
use tokio::task::JoinHandle;

use crate::{
    conformance::fixture::{PATIENCE, take},
    mode::Mode,
    watchdog::journal::Journal,
};

/// Some servers, each behind a proxy. Three of them have quarantine.
pub(super) struct Nodes {
    pub(super) servers: Vec<Server>,
    pub(super) proxies: Vec<Proxy>,
    pub(super) mode: Mode,
    ttl: Duration,
}

/// Runs a body on one node and on three, in both modes, concurrently, because each mostly waits.
pub(super) fn on_every_set(ttl: Duration, body: impl AsyncFn(&Nodes) + Sync) {
    let run = |count: usize, mode: Mode| {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
        let nodes = Nodes::start(count, mode, ttl);
        runtime.block_on(async {
            admit(&nodes.servers, nodes.builder());
            body(&nodes).await;
        });
    };
    thread::scope(|scope| {
        for (count, mode) in
            [1, 3].into_iter().flat_map(|n| [Mode::Queue, Mode::Classic].map(|m| (n, m)))
        {
            let thread = thread::Builder::new().name(format!("{count} nodes, {mode:?}"));
            thread.spawn_scoped(scope, move || run(count, mode)).expect("a thread");
        }
    });
}

impl Nodes {
    fn start(count: usize, mode: Mode, ttl: Duration) -> Self {
        let servers = Server::start_many(count);
        let proxies = servers.iter().map(|it| Proxy::start(&it.address())).collect();
        Self { servers, proxies, mode, ttl }
    }

    pub(super) fn builder(&self) -> ClientBuilder {
        let builder = Client::builder().nodes(self.proxies.iter().map(Proxy::url));
        // A full server answers at once, but a busy machine may not.
        let builder = builder.vote_timeout(self.ttl / 2);
        self.mode.of(builder.ttl(self.ttl).max_ttl(self.ttl))
    }

    /// A client that is attached to every node.
    pub(super) async fn client(&self, journal: &Journal) -> Client {
        let client = self.builder().observer(journal.clone()).connect().await;
        let client = client.expect("the nodes are there");
        wait_until_attached(&client);
        client
    }

    /// From now on every node is full, or has memory again.
    pub(super) fn set_full(&self, is_full: bool) {
        for server in &self.servers {
            let mut set = cmd("CONFIG");
            set.arg("SET").arg("maxmemory").arg(u8::from(is_full));
            set.exec(&mut server.connection()).expect("the server takes it");
        }
    }

    /// The owners in the queue of a lock, if every node has the same.
    fn queue(&self, name: &str) -> Option<Vec<String>> {
        let queue = |server: &Server| -> Vec<String> {
            let mut range = cmd("ZRANGE");
            range.arg(format!("quorate:q:{{{name}}}")).arg(&[0, -1]);
            range.query(&mut server.connection()).expect("the server answers")
        };
        let mut queues = self.servers.iter().map(queue);
        let first = queues.next()?;
        queues.all(|other| other == first).then_some(first)
    }

    /// Waits until this many owners wait for a lock on every node.
    pub(super) fn wait_until_queued(&self, name: &str, count: usize) {
        eventually(&format!("{count} wait for {name}"), PATIENCE, || {
            self.queue(name).is_some_and(|queue| queue.len() == count)
        });
    }

    /// The reason of a refusal: most nodes are full.
    pub(super) fn assert_full(&self, error: &LockError) {
        let LockError::NoQuorum { nodes, .. } = error else { panic!("{error:?}") };
        let is_full =
            |report: &&NodeReport| report.answer == NodeAnswer::NodeError(NodeError::OutOfMemory);
        let full = nodes.iter().filter(is_full).count();
        assert!(full >= majority(self.servers.len()), "{nodes:?}");
        let text = error.to_string();
        assert!(text.contains("memory is full") && text.contains("OOM"), "{text}");
    }
}

pub(super) fn wait_until_attached(client: &Client) {
    eventually("every node is attached", PATIENCE, || {
        client.node_status().iter().all(|report| report.answer == NodeAnswer::Attached)
    });
}

/// One lock of each kind, held; readers are not offered in classic mode.
pub(super) struct Held(Vec<Guard>);

impl Held {
    pub(super) async fn take(client: &Client, mode: Mode) -> Self {
        let mut guards = vec![take(client.mutex(MUTEX)).await];
        let permit = jobs(client).acquire_timeout(PATIENCE).await.expect("there is a permit");
        guards.push(permit.into_guard());
        if mode == Mode::Queue {
            let read = client.rwlock(RWLOCK).read_timeout(PATIENCE).await;
            guards.push(read.expect("nobody writes").into_guard());
        }
        Self(guards)
    }

    /// None of them is lost, and the nodes confirm it.
    pub(super) async fn verify(&self) {
        for guard in &self.0 {
            guard.verify().await.unwrap_or_else(|error| panic!("{}: {error}", guard.name()));
        }
    }

    /// Waits until each was renewed for longer than a session and a lease last without that.
    pub(super) fn outlive(&self, journal: &Journal, ttl: Duration) {
        let renewals = |guard: &Guard| journal.count(&format!("renewed {} done", guard.name()));
        let before: Vec<usize> = self.0.iter().map(renewals).collect();
        let longest = Duration::from_millis(SESSION_LIFE_MS) + 2 * ttl;
        let started = std::time::Instant::now();
        let needed = usize::try_from((longest.as_millis() / ttl.as_millis()).max(2)).expect("few");
        eventually("they are renewed", longest + PATIENCE, || {
            for guard in &self.0 {
                let lost = guard.check();
                assert_eq!(lost, Ok(()), "{} after {:?}", guard.name(), started.elapsed());
            }
            let is_renewed = |(guard, before): (&Guard, &usize)| renewals(guard) >= before + needed;
            started.elapsed() >= longest && self.0.iter().zip(&before).all(is_renewed)
        });
    }

    pub(super) async fn release(self) {
        for guard in self.0 {
            guard.release().await.expect("it is held");
        }
    }
}

/// Waiters for locks that are held.
pub(super) struct Waiting {
    mutex: JoinHandle<Result<Guard, LockError>>,
    writer: JoinHandle<Result<Guard, LockError>>,
    permits: Vec<JoinHandle<Result<Guard, LockError>>>,
}

impl Waiting {
    /// They are queued on every node when this returns.
    pub(super) fn join(nodes: &Nodes, client: &Client) -> Self {
        let (mutex, rwlock) = (client.mutex(MUTEX), client.rwlock(RWLOCK));
        let permit = || {
            let jobs = jobs(client);
            tokio::spawn(async move { jobs.acquire().await.map(Guard::from) })
        };
        let mut waiting = Self {
            mutex: tokio::spawn(async move { mutex.lock().await }),
            writer: tokio::spawn(async move { rwlock.write().await.map(Guard::from) }),
            permits: vec![permit()],
        };
        nodes.wait_until_queued("jobs#1", 1);
        waiting.permits.push(permit());
        waiting.wait_until_queued(nodes);
        waiting
    }

    /// Waits until all of them are queued.
    pub(super) fn wait_until_queued(&self, nodes: &Nodes) {
        // The second waiter for a permit waits for its turn to wait.
        for name in [MUTEX, RWLOCK, "jobs#1", "jobs#queue"] {
            nodes.wait_until_queued(name, 1);
        }
    }

    pub(super) fn assert_waiting(&self) {
        let all = [&self.mutex, &self.writer].into_iter().chain(&self.permits);
        assert!(all.into_iter().all(|waiter| !waiter.is_finished()), "a waiter gave up");
    }

    /// The released locks are handed off to the first waiter of each queue. The second waiter for a
    /// permit is the first now, and stays.
    pub(super) async fn take_over(self) -> (Held, JoinHandle<Result<Guard, LockError>>) {
        let Self { mutex, writer, mut permits } = self;
        let second = permits.pop().expect("there are two");
        let first = permits.pop().expect("there are two");
        let mut guards = Vec::new();
        for waiter in [mutex, writer, first] {
            let guard = tokio::time::timeout(PATIENCE, waiter).await.expect("it is handed off");
            guards.push(guard.expect("no panic").expect("it is granted"));
        }
        (Held(guards), second)
    }
}

fn jobs(client: &Client) -> Semaphore {
    client.semaphore("jobs", 1)
}

const MUTEX: &str = "mutex";
const RWLOCK: &str = "rwlock";
