//! Real servers, each behind a proxy that can misbehave.

use std::time::Duration;

use quorate::{
    Client, ClientBuilder,
    error::{NodeAnswer, NodeError, NodeReport},
};
use quorate_testkit::{Fault, Proxy, Server, eventually};

use crate::{links::executor::block_on, mode::Mode};

/// Servers and their proxies, in the same order.
pub(crate) struct ProxyFixture {
    pub(crate) servers: Vec<Server>,
    pub(crate) proxies: Vec<Proxy>,
    mode: Mode,
}

impl ProxyFixture {
    pub(crate) fn start(nodes: usize) -> Self {
        Self::start_in(Mode::Queue, nodes)
    }

    /// A fixture whose clients are in this mode.
    pub(crate) fn start_in(mode: Mode, nodes: usize) -> Self {
        let servers = Server::start_many(nodes);
        let proxies = servers.iter().map(|server| Proxy::start(&server.address())).collect();
        Self { servers, proxies, mode }
    }

    /// The settings of a client that comes through the proxies.
    pub(crate) fn through_proxies(&self) -> ClientBuilder {
        self.mode.of(settings(self.proxies.iter().map(Proxy::url)))
    }

    /// The settings of a client that goes to the servers themselves.
    pub(crate) fn direct(&self) -> ClientBuilder {
        self.mode.of(settings(self.servers.iter().map(Server::url)))
    }

    /// A client through the proxies, attached to all nodes.
    pub(crate) fn connect(&self) -> Client {
        connect_to_all(self.through_proxies())
    }

    pub(crate) fn set(&self, nodes: &[usize], fault: Fault) {
        nodes.iter().for_each(|node| self.proxies[*node].set(fault));
    }

    /// Ends a fault that lost bytes. TCP never continues after a gap, so neither does this: the old
    /// connections are closed.
    pub(crate) fn repair(&self, nodes: &[usize]) {
        nodes.iter().for_each(|node| self.proxies[*node].close_all());
        self.set(nodes, Fault::Pass);
    }

    /// No key on any server.
    pub(crate) fn is_empty(&self) -> bool {
        self.servers.iter().all(|server| server.lock_keys().is_empty())
    }

    pub(crate) fn wait_until_empty(&self, what: &str) {
        eventually(&format!("no key is left: {what}"), PATIENCE, || self.is_empty());
    }

    /// Waits until every server has seen every attempt, and the undo of each. Looking for keys
    /// alone would be content before the first request has arrived.
    pub(crate) fn wait_until_undone(&self, attempts: u64) {
        self.servers.iter().for_each(|server| self.wait_until_undone_by(server, attempts));
        self.wait_until_empty("after every attempt has arrived");
    }

    /// The same for one server.
    pub(crate) fn wait_until_undone_by(&self, server: &Server, attempts: u64) {
        match self.mode {
            Mode::Queue => {
                // A release finds the next waiter. A release whose answer was lost is
                // sent again, and an attempt on a link that was given up is not granted any more.
                eventually("every attempt has ended", PATIENCE, || {
                    server.command_calls("zpopmin") >= attempts
                });
                eventually("no key is left", PATIENCE, || server.lock_keys().is_empty());
                let keys = server.command_calls("del");
                assert!(keys <= attempts, "{keys} keys were there");
            }
            Mode::Classic => {
                eventually("every attempt has arrived", PATIENCE, || {
                    server.command_calls("set") == attempts
                });
                eventually("no key is left", PATIENCE, || server.lock_keys().is_empty());
            }
        }
    }
}

/// Connects and waits until not only a majority but every node is attached.
pub(crate) fn connect_to_all(settings: ClientBuilder) -> Client {
    let client = block_on(settings.connect()).expect("all nodes are well");
    wait_until_attached(&client);
    client
}

pub(crate) fn wait_until_attached(client: &Client) {
    eventually("every node is attached", PATIENCE, || {
        client.node_status().iter().all(|report| report.answer == NodeAnswer::Attached)
    });
}

/// What is wrong with a node, if anything is.
pub(crate) fn node_error(report: &NodeReport) -> Option<&NodeError> {
    match &report.answer {
        NodeAnswer::NodeError(node_error) => Some(node_error),
        _ => None,
    }
}

/// With a ttl that outlasts every test, so that no key expires, and with a vote timeout that a busy
/// machine keeps to: only nodes that are meant to be silent are.
pub(crate) fn settings(urls: impl IntoIterator<Item = String>) -> ClientBuilder {
    Client::builder().quarantine(false).nodes(urls).ttl(TTL).vote_timeout(VOTE_TIMEOUT)
}

/// Well below the ttl, and well above the second after which a silent link is made anew.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const VOTE_TIMEOUT: Duration = Duration::from_millis(500);

const TTL: Duration = Duration::from_secs(60);
