//! Servers with quarantine, and clients that know how long it lasts.

use std::{
    pin::Pin,
    thread,
    time::{Duration, Instant},
};

use quorate::{
    Client, ClientBuilder,
    error::{NodeAnswer, NodeError, NodeReport},
};
use quorate_testkit::{Server, admit, eventually};
use tokio::runtime;

use super::load::{Job, Load};
use crate::conformance::fixture::PATIENCE;

/// Some servers that have become a set, and vote.
pub(crate) struct Fixture {
    pub(crate) servers: Vec<Server>,
    urls: Vec<String>,
    max_ttl: Duration,
}

impl Fixture {
    pub(crate) fn new(nodes: usize) -> Self {
        Self::of(Server::start_many(nodes), MAX_TTL)
    }

    /// Of new and empty servers.
    pub(crate) fn of(servers: Vec<Server>, max_ttl: Duration) -> Self {
        let urls = servers.iter().map(Server::url).collect();
        Self::at(urls, servers, max_ttl)
    }

    /// Of new and empty servers at these addresses.
    pub(crate) fn at(urls: Vec<String>, servers: Vec<Server>, max_ttl: Duration) -> Self {
        let fixture = Self { servers, urls, max_ttl };
        admit(&fixture.servers, fixture.settings());
        fixture
    }

    pub(crate) fn settings(&self) -> ClientBuilder {
        self.settings_of(self.urls.clone())
    }

    /// For clients that have other addresses.
    pub(crate) fn settings_of(&self, urls: impl IntoIterator<Item = String>) -> ClientBuilder {
        settings(urls).ttl(self.max_ttl / 2).max_ttl(self.max_ttl)
    }

    /// A client that is attached to every node.
    pub(crate) async fn client(&self, who: &str) -> Client {
        attached(self.settings().who(who)).await
    }

    /// Clients at work: two jobs release at once, the last one needs renewals.
    pub(crate) async fn load(&self) -> Load {
        let mut clients = Vec::new();
        for number in 0..3 {
            clients.push(self.client(&format!("client-{number}")).await);
        }
        let short = |locks| Job { work: Duration::from_millis(10), locks };
        let long = Job { work: TTL + TTL / 10, locks: &["second", "third"] };
        Load::start(clients, [short(&["first"]), short(&["second"]), long])
    }
}

/// A client that is attached to every node.
pub(crate) async fn attached(settings: ClientBuilder) -> Client {
    let client = settings.connect().await.expect("the nodes vote");
    wait_until(&client, "every node is attached", |nodes| nodes.iter().all(is_attached));
    client
}

/// The name of a case, and its body.
pub(crate) type Case = (&'static str, fn() -> Pin<Box<dyn Future<Output = ()>>>);

/// Runs all cases at once, since each of them mostly waits for the end of a quarantine.
pub(crate) fn run_at_once(cases: &[Case]) {
    let start = |(name, body): &Case| {
        let (runtime, body) = (runtime::Builder::new_multi_thread(), *body);
        let running = move || {
            let mut runtime = runtime;
            let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
            runtime.block_on(body());
        };
        thread::Builder::new().name((*name).into()).spawn(running).expect("a thread")
    };
    let running: Vec<_> = cases.iter().map(start).collect();
    let ended = running.into_iter().zip(cases).map(|(it, (name, _))| (*name, it.join()));
    let failed: Vec<_> = ended.filter_map(|(name, ended)| ended.err().map(|_| name)).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// One test of several cases.
macro_rules! at_once {
    ($test:ident { $($case:ident),* $(,)? }) => {
        #[test]
        fn $test() {
            use $crate::quarantine::fixture::run_at_once;
            run_at_once(&[$((stringify!($case), || Box::pin($case()))),*]);
        }
    };
}

/// With a quarantine that is short enough for a test.
pub(crate) fn settings(urls: impl IntoIterator<Item = String>) -> ClientBuilder {
    Client::builder().nodes(urls).ttl(TTL).max_ttl(MAX_TTL)
}

pub(crate) fn wait_until(client: &Client, what: &str, mut is: impl FnMut(&[NodeReport]) -> bool) {
    eventually(what, PATIENCE, || is(&client.node_status()));
}

pub(crate) fn is_attached(report: &NodeReport) -> bool {
    report.answer == NodeAnswer::Attached
}

/// How long a node is still quarantined, and why, if it is.
pub(crate) fn quarantined(report: &NodeReport) -> Option<(Duration, &str)> {
    match &report.answer {
        NodeAnswer::NodeError(NodeError::Quarantined { left, why, .. }) => Some((*left, why)),
        _ => None,
    }
}

/// How long it takes until `node` votes.
pub(crate) fn wait_for_vote(client: &Client, node: usize) -> Duration {
    let started = Instant::now();
    wait_until(client, "it votes", |nodes| is_attached(&nodes[node]));
    started.elapsed()
}

pub(crate) const TTL: Duration = Duration::from_millis(500);
pub(crate) const MAX_TTL: Duration = Duration::from_millis(1_000);

/// As documented: 2 % and 2 s more than the longest ttl, and the lifetime of a session.
pub(crate) const GUARD: Duration = Duration::from_millis(1_000 + 20 + 2_000 + 5_000);

/// How long a node recovers after its quarantine. For this time holders find the node before it is
/// asked for locks.
pub(crate) const RECOVERY: Duration = Duration::from_secs(5);
