//! Nodes, links and workers, and what the workers record.
//!
//! Responsible for starting and ending them, and for waiting until they acquire locks. Not for
//! choosing what goes wrong.

use quorate::{Client, ClientBuilder, error::NodeAnswer};
use quorate_testkit::{
    Proxy, Server, admit, eventually,
    history::{Claim, History, Moment, Until, Violation},
    processes::{Contenders, PATIENCE, print_line},
};

use super::{Primitive, TTL, WORKER};

/// What a node knows after a restart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Memory {
    /// Everything: it writes every change to disk, and so it votes again at once.
    Kept,
    /// Nothing, and so it does not vote for some time.
    Lost,
}

impl Memory {
    pub(crate) const ALL: [Self; 2] = [Self::Kept, Self::Lost];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Lost => "lost",
        }
    }

    pub(crate) fn parse(text: &str) -> Self {
        let known = Self::ALL.into_iter().find(|it| it.as_str() == text);
        known.unwrap_or_else(|| panic!("no memory: {text:?}"))
    }

    /// For clients of such nodes.
    pub(crate) fn settings(self, urls: impl IntoIterator<Item = impl AsRef<str>>) -> ClientBuilder {
        // The longest ttl is a part of the time for which a restarted node does not vote.
        let settings = Client::builder().nodes(urls).ttl(TTL).max_ttl(TTL);
        settings.durable_nodes(self == Self::Kept)
    }
}

pub(crate) struct Fixture {
    primitive: Primitive,
    memory: Memory,
    seed: u64,
    servers: Vec<Server>,
    /// Workers of one side share their links to the nodes.
    sides: Vec<Vec<Proxy>>,
    contenders: Contenders,
    /// Reaches the nodes without any proxy.
    observer: Client,
}

impl Fixture {
    pub(crate) fn start(primitive: Primitive, memory: Memory, seed: u64) -> Self {
        let servers = match memory {
            Memory::Kept => Server::builder().append_only().start_many(NODES),
            Memory::Lost => Server::start_many(NODES),
        };
        let link = |server: &Server| Proxy::start(&server.address());
        let sides = (0..SIDES).map(|_| servers.iter().map(link).collect()).collect();
        let settings = || memory.settings(servers.iter().map(Server::url));
        admit(&servers, settings());
        let observer = settings().build().expect("the settings are valid");
        let contenders = Contenders::new();
        let mut fixture = Self { primitive, memory, seed, servers, sides, contenders, observer };
        (0..WORKERS).for_each(|_| fixture.add_worker());
        fixture.wait_for_everybody(Moment::now());
        fixture
    }

    pub(crate) const fn memory(&self) -> Memory {
        self.memory
    }

    pub(crate) fn restart(&self, node: usize) {
        match self.memory {
            Memory::Kept => {
                self.servers[node].restart();
                self.wait_until_voting(node);
            }
            Memory::Lost => self.servers[node].restart_empty(),
        }
    }

    pub(crate) fn server(&self, node: usize) -> &Server {
        &self.servers[node]
    }

    pub(crate) fn link(&self, side: usize, node: usize) -> &Proxy {
        &self.sides[side][node]
    }

    /// The names of the workers that run, oldest first.
    pub(crate) fn workers(&self) -> Vec<String> {
        self.contenders.names()
    }

    pub(crate) fn add_worker(&mut self) {
        let side = &self.sides[(self.contenders.started() + 1) % SIDES];
        let task = [self.primitive.as_str(), self.memory.as_str()].map(str::to_owned);
        let task = task.into_iter().chain([self.seed.to_string()]);
        self.contenders.start(WORKER, task.chain(side.iter().map(Proxy::url)));
    }

    pub(crate) fn resume(&self, worker: &str) {
        self.contenders.resume(worker);
    }

    pub(crate) fn end_worker(&mut self, worker: &str) {
        self.contenders.kill(worker);
    }

    /// Stops a worker while it holds something, and returns its name.
    pub(crate) fn stop_holder(&self) -> String {
        let mut holder = None;
        eventually("one is stopped while it holds", PATIENCE, || {
            let Some(name) = self.newest_holder() else { return false };
            self.contenders.stop(&name);
            // It may have ended its claim just before.
            if self.newest_holder().as_ref() == Some(&name) {
                holder = Some(name);
            } else {
                self.contenders.resume(&name);
            }
            holder.is_some()
        });
        holder.expect("waited for")
    }

    fn newest_holder(&self) -> Option<String> {
        let history = self.contenders.history();
        let now = Moment::now();
        let is_held = |claim: &&Claim| {
            let has_ended = claim.ended_at.is_some() || claim.valid_until < Some(now);
            !has_ended && self.contenders.is_running(&claim.client)
        };
        history.claims().iter().rev().find(is_held).map(|claim| claim.client.clone())
    }

    /// Waits until workers acquire locks, later than a lease after that moment.
    pub(crate) fn wait_for_others(&mut self, since: Moment) {
        let later = since.after(TTL + TTL / 2);
        self.wait_for("others acquire locks", |history| {
            let claims = history.claims().iter().rev();
            claims.take_while(|claim| claim.acquired_at > later).count() >= WORKERS
        });
    }

    /// Waits until every worker that runs acquires a lock.
    pub(crate) fn wait_for_everybody(&mut self, since: Moment) {
        let names = self.workers();
        self.wait_for("every worker acquires a lock", |history| {
            let claims = history.claims().iter().rev();
            let later: Vec<&str> = claims
                .take_while(|claim| claim.acquired_at > since)
                .map(|claim| claim.client.as_str())
                .collect();
            names.iter().all(|name| later.contains(&name.as_str()))
        });
    }

    /// Waits until every operation of the model has happened.
    pub(crate) fn wait_until_tried(&mut self) {
        let primitive = self.primitive;
        let mut untried = Vec::new();
        self.wait_for("everything was tried", |history| {
            let before = std::mem::replace(&mut untried, primitive.untried(history));
            if before != untried && !untried.is_empty() {
                print_line(&format!("  not yet: {untried:?}"));
            }
            untried.is_empty()
        });
    }

    fn wait_for(&mut self, what: &str, mut is_done: impl FnMut(&History) -> bool) {
        let mut seen = 0;
        let what = format!("{what} (QUORATE_SEED={})", self.seed);
        eventually(&what, PATIENCE, || {
            self.contenders.assert_none_ended();
            let text = self.contenders.recorded();
            // The history is parsed only if it is longer than before.
            let is_new = std::mem::replace(&mut seen, text.len()) != text.len();
            is_new && is_done(&History::parse(&text))
        });
    }

    /// Waits until a restarted node votes again.
    pub(crate) fn wait_until_voting(&self, node: usize) {
        eventually("the node votes again", PATIENCE, || {
            self.observer.node_status()[node].answer == NodeAnswer::Attached
        });
    }

    /// Ends all workers, and returns what happened. It keeps the model, and no key of a lock is
    /// left.
    pub(crate) fn end(mut self) -> History {
        let history = self.contenders.end();
        self.assert_kept(&history);
        for (node, server) in self.servers.iter().enumerate() {
            let mut left = Vec::new();
            eventually(&format!("nothing is left on node {node}"), PATIENCE, || {
                left = server.lock_keys();
                left.is_empty()
            });
        }
        history
    }

    /// On a violation the history is kept for the reader.
    fn assert_kept(&mut self, history: &History) {
        let found = history.violations(Until::Believed);
        if !found.is_empty() {
            let shown: Vec<String> = found.iter().take(10).map(Violation::to_string).collect();
            let kept = self.contenders.keep_history();
            panic!(
                "{} with QUORATE_SEED={}: {} violations in {} claims, see {}:\n{}",
                self.primitive.as_str(),
                self.seed,
                found.len(),
                history.claims().len(),
                kept.display(),
                shown.join("\n")
            );
        }
    }
}

pub(crate) const NODES: usize = 3;
pub(crate) const SIDES: usize = 2;

/// One more of the first side, and two of each if one is killed.
pub(crate) const WORKERS: usize = 5;
