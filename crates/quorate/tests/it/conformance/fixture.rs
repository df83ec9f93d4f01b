//! Nodes of each kind behind one interface, and the loop over their numbers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use quorate::{
    Client, ClientBuilder, Guard, Mutex,
    error::{Holder, LockError, NodeAnswer},
    memory::MemoryNodes,
};
use quorate_core::quorum::majority;
use quorate_testkit::{Server, admit, eventually, redis::cmd};

#[cfg(feature = "local")]
use crate::local::outside::Folder;
use crate::mode::Mode;

/// Some nodes, their clients, and a view of the nodes from outside.
pub(crate) struct Fixture {
    nodes: Nodes,
    count: usize,
    mode: Mode,
    has_quarantine: bool,
}

#[derive(Clone)]
enum Nodes {
    Memory(MemoryNodes),
    Servers(Arc<[Server]>),
    #[cfg(feature = "local")]
    Local(Arc<Folder>),
}

/// Runs a body on each of these numbers of nodes in memory.
pub(crate) fn on_memory(numbers: &[usize], body: impl AsyncFn(&Fixture)) {
    run_on_memory(numbers, Mode::Queue, body);
}

/// Runs a body on some of these numbers of nodes in memory, in classic mode.
pub(crate) fn on_memory_in_classic_mode(numbers: &[usize], body: impl AsyncFn(&Fixture)) {
    run_on_memory(&ends(numbers), Mode::Classic, body);
}

/// Runs a body on each of these numbers of real servers, which are empty each time.
pub(crate) fn on_servers(numbers: &[usize], body: impl AsyncFn(&Fixture)) {
    run_on_servers(numbers, Mode::Queue, body);
}

/// Runs a body on some of these numbers of real servers, in classic mode.
pub(crate) fn on_servers_in_classic_mode(numbers: &[usize], body: impl AsyncFn(&Fixture)) {
    run_on_servers(&ends(numbers), Mode::Classic, body);
}

/// Runs a body on each of these numbers of real servers in the default mode, and on some in classic
/// mode.
pub(crate) fn on_servers_in_both_modes(numbers: &[usize], body: impl AsyncFn(&Fixture)) {
    run_on_servers(numbers, Mode::Queue, &body);
    run_on_servers(&ends(numbers), Mode::Classic, &body);
}

/// Runs a body on a local node.
#[cfg(feature = "local")]
pub(crate) fn on_local(body: impl AsyncFn(&Fixture)) {
    run_on_local(Mode::Queue, body);
}

/// Runs a body on a local node, in classic mode.
#[cfg(feature = "local")]
pub(crate) fn on_local_in_classic_mode(body: impl AsyncFn(&Fixture)) {
    run_on_local(Mode::Classic, body);
}

#[cfg(feature = "local")]
fn run_on_local(mode: Mode, body: impl AsyncFn(&Fixture)) {
    let nodes = Nodes::Local(Arc::new(Folder::new()));
    run(&Fixture { nodes, count: 1, mode, has_quarantine: false }, &body);
}

fn run_on_memory(numbers: &[usize], mode: Mode, body: impl AsyncFn(&Fixture)) {
    for &count in numbers {
        let nodes = Nodes::Memory(MemoryNodes::new(count));
        run(&Fixture { nodes, count, mode, has_quarantine: false }, &body);
    }
}

fn run_on_servers(numbers: &[usize], mode: Mode, body: impl AsyncFn(&Fixture)) {
    let most = numbers.iter().copied().max().expect("a number of nodes");
    let servers: Arc<[Server]> = Server::start_many(most).into();
    for &count in numbers {
        let nodes = Nodes::Servers(servers.clone());
        let fixture = Fixture { nodes, count, mode, has_quarantine: count >= 3 };
        run(&fixture, &async |fixture: &Fixture| {
            if fixture.has_quarantine {
                admit(fixture.servers(), fixture.builder());
            }
            body(fixture).await;
        });
        servers.iter().for_each(Server::flush_all);
    }
}

/// A number in the middle and the first one: an odd number and, mostly, a single node.
fn ends(numbers: &[usize]) -> Vec<usize> {
    match numbers {
        [first, _, middle, ..] => vec![*first, *middle],
        few => few.to_vec(),
    }
}

fn run(fixture: &Fixture, body: &impl AsyncFn(&Fixture)) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    // A test that waits for a lock that is never released would wait forever.
    let in_time = runtime.block_on(async { tokio::time::timeout(BODY_MAX, body(fixture)).await });
    assert!(in_time.is_ok(), "not done within {BODY_MAX:?}");
}

impl Fixture {
    /// A client named `who`, attached to every node.
    pub(crate) async fn client(&self, who: &str) -> Client {
        self.connect(self.builder().who(who)).await
    }

    /// A client with these settings, attached to every node.
    pub(crate) async fn connect(&self, settings: ClientBuilder) -> Client {
        let client = settings.connect().await.expect("the nodes are there");
        let is_attached =
            || client.node_status().iter().all(|it| it.answer == NodeAnswer::Attached);
        eventually("every node is attached", PATIENCE, is_attached);
        client
    }

    /// The same nodes, empty and without quarantine.
    pub(crate) fn unprotected(&self) -> Self {
        self.servers().iter().for_each(Server::flush_all);
        Self { nodes: self.nodes.clone(), has_quarantine: false, ..*self }
    }

    /// Settings with which a stall of this machine is never taken for a silent node.
    pub(crate) fn builder(&self) -> ClientBuilder {
        let builder = Client::builder().ttl(LONG).vote_timeout(PATIENCE);
        let builder = self.mode.of(builder);
        match &self.nodes {
            Nodes::Memory(nodes) => builder.memory(nodes),
            Nodes::Servers(_) => {
                let builder = builder.nodes(self.servers().iter().map(Server::url));
                builder.quarantine(self.has_quarantine)
            }
            #[cfg(feature = "local")]
            Nodes::Local(folder) => builder.local(folder.path()),
        }
    }

    /// How the clients wait, and what they store.
    pub(crate) const fn mode(&self) -> Mode {
        self.mode
    }

    /// How many nodes there are.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// How many nodes may fail without harm.
    pub(crate) const fn tolerated(&self) -> usize {
        self.count - majority(self.count)
    }

    /// The real servers that are in use; none if the nodes are in memory.
    pub(crate) fn servers(&self) -> &[Server] {
        match &self.nodes {
            Nodes::Memory(_) => &[],
            #[cfg(feature = "local")]
            Nodes::Local(_) => &[],
            Nodes::Servers(servers) => &servers[..self.count],
        }
    }

    /// The keys on one node.
    pub(crate) fn names(&self, node: usize) -> Vec<String> {
        let text = |key| String::from_utf8(key).expect("every name in these tests is UTF-8");
        match &self.nodes {
            Nodes::Memory(nodes) => nodes.names(node),
            #[cfg(feature = "local")]
            Nodes::Local(folder) => folder.names(),
            Nodes::Servers(servers) => servers[node].lock_keys().into_iter().map(text).collect(),
        }
    }

    /// Stores a value without an end, as another program would.
    pub(crate) fn plant(&self, node: usize, name: &str, value: &[u8]) {
        match &self.nodes {
            Nodes::Memory(nodes) => nodes.plant(node, name, value),
            #[cfg(feature = "local")]
            Nodes::Local(folder) => folder.plant(name, value),
            Nodes::Servers(servers) => {
                let mut connection = servers[node].connection();
                let set = cmd("SET").arg(name).arg(value).exec(&mut connection);
                set.expect("the server stores it");
            }
        }
    }

    /// Deletes every key of one node. No client notices it, and the node is not quarantined.
    pub(crate) fn forget(&self, node: usize) {
        match &self.nodes {
            Nodes::Memory(nodes) => nodes.forget(node),
            #[cfg(feature = "local")]
            Nodes::Local(folder) => folder.forget(),
            Nodes::Servers(servers) => servers[node].flush_locks(),
        }
    }

    /// Restarts one node without its data. A node in memory has no connection to lose.
    pub(crate) fn restart_empty(&self, node: usize) {
        match &self.nodes {
            Nodes::Memory(nodes) => nodes.forget(node),
            #[cfg(feature = "local")]
            Nodes::Local(folder) => folder.forget(),
            Nodes::Servers(servers) => servers[node].restart_empty(),
        }
    }

    /// Waits until each of `nodes` has the key `name` and no other. A lock is held before the last
    /// node has answered.
    pub(crate) fn wait_until_only(&self, name: &str, nodes: impl IntoIterator<Item = usize>) {
        for node in nodes {
            let what = format!("node {node} has only {name:?}");
            eventually(&what, PATIENCE, || self.names(node) == [name]);
        }
    }

    /// Extends until every node has the key of the guard, and no other. The first time may only
    /// show that a session went with a key.
    pub(crate) async fn extend_until_healed(&self, guard: &Guard) {
        let started = Instant::now();
        while self.all().any(|node| self.names(node) != [guard.name()]) {
            assert!(started.elapsed() < PATIENCE, "not every node is given the lock again");
            guard.extend(LONG).await.expect("a majority has it");
        }
    }

    /// Waits until `nodes` have no keys at all. The undo continues after the call has returned.
    pub(crate) fn wait_until_empty(&self, nodes: impl IntoIterator<Item = usize>) {
        for node in nodes {
            let what = format!("node {node} is empty");
            eventually(&what, PATIENCE, || self.names(node).is_empty());
        }
    }

    /// Every node.
    pub(crate) fn all(&self) -> impl Iterator<Item = usize> {
        0..self.count
    }

    /// True if no node has any key right now.
    pub(crate) fn is_empty(&self) -> bool {
        self.all().all(|node| self.names(node).is_empty())
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if std::thread::panicking() {
            say(&format!("this was with {} nodes, {:?}", self.count, self.mode));
        }
    }
}

/// A body that fails does not know the number of nodes.
fn say(line: &str) {
    eprintln!("{line}");
}

/// Takes a lock that is free, or about to be.
pub(crate) async fn take(mutex: Mutex) -> Guard {
    mutex.lock_timeout(PATIENCE).await.expect("the lock is free")
}

/// The holder of the lock, as an attempt to acquire it reports it.
pub(crate) async fn holder(client: &Client, name: &str) -> Holder {
    let started = Instant::now();
    loop {
        match client.mutex(name).lock_timeout(Duration::ZERO).await {
            Err(LockError::Timeout { holder: Some(holder), .. }) => return *holder,
            // A call without any time waits for no session that went with a node's keys, and not
            // for as long as a busy machine may take.
            Err(LockError::NoQuorum { nodes, .. }) => {
                assert!(started.elapsed() < PATIENCE, "{name:?} is held, but: {nodes:?}");
                tokio::task::yield_now().await;
            }
            other => panic!("{name:?} is held, but: {other:?}"),
        }
    }
}

/// Waits until a guard knows that it has expired.
pub(crate) fn wait_for_end(guard: &Guard) {
    eventually("the lease ends", PATIENCE, || guard.remaining().is_zero());
}

/// A ttl that no test outlives.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A ttl whose end is waited for.
pub(crate) const SHORT: Duration = Duration::from_millis(150);

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The most time for one body with one number of nodes; a tenth of it is normally enough.
const BODY_MAX: Duration = Duration::from_secs(60);

/// Every number of nodes that is tried.
pub(crate) const ALL: [usize; 5] = [1, 2, 3, 4, 5];
