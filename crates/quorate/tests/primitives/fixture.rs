//! Nodes, links and workers, and what the workers take down.
//!
//! Responsible for starting and ending them, and for waiting until they got on. Not for choosing
//! what goes wrong.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command},
};

use quorate::{Client, ClientBuilder, blocking, error::NodeAnswer};
use quorate_testkit::{
    Proxy, Server, eventually,
    history::{Claim, History, Moment, Until, Violation},
};
use rustix::process::{Pid, Signal, kill_process};

use super::{PATIENCE, Primitive, TTL, WORKER, say};

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
    folder: Option<tempfile::TempDir>,
    running: BTreeMap<String, Child>,
    started: usize,
    deaths: Vec<(String, Moment)>,
    /// Sees the nodes without any proxy.
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
        let observer = || {
            let client = memory.settings(servers.iter().map(Server::url)).build();
            client.expect("the settings are valid")
        };
        // New servers vote at once, where they would have to wait.
        let client = blocking::Client::try_from(observer()).expect("it has a thread of its own");
        client.admit().expect("they are new and empty");
        let observer = observer();
        let folder = Some(tempfile::tempdir().expect("a folder for the history"));
        let (running, deaths) = (BTreeMap::new(), Vec::new());
        let started = 0;
        let mut fixture = Self {
            primitive,
            memory,
            seed,
            servers,
            sides,
            folder,
            running,
            started,
            deaths,
            observer,
        };
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

    /// The names of those who run, oldest first.
    pub(crate) fn workers(&self) -> Vec<String> {
        self.running.keys().cloned().collect()
    }

    pub(crate) fn add_worker(&mut self) {
        self.started += 1;
        let name = format!("worker-{:03}", self.started);
        let mut command = Command::new(env::current_exe().expect("the path of this program"));
        command.arg(WORKER).args([self.primitive.as_str(), self.memory.as_str()]);
        command.arg(self.seed.to_string()).arg(&name);
        command.arg(self.folder()).args(self.sides[self.started % SIDES].iter().map(Proxy::url));
        let child = command.spawn().expect("the program starts itself");
        self.running.insert(name, child);
    }

    pub(crate) fn resume(&self, worker: &str) {
        self.kill(worker, Signal::CONT);
    }

    pub(crate) fn end_worker(&mut self, worker: &str) {
        self.deaths.push((worker.to_owned(), Moment::now()));
        self.kill(worker, Signal::KILL);
        let mut child = self.running.remove(worker).expect("it was there");
        child.wait().expect("a killed process ends");
    }

    fn kill(&self, worker: &str, signal: Signal) {
        kill_process(Pid::from_child(&self.running[worker]), signal).expect("it runs");
    }

    /// Stops a worker while it holds something, and returns its name.
    pub(crate) fn stop_holder(&self) -> String {
        let mut holder = None;
        eventually("one is stopped while it holds", PATIENCE, || {
            let Some(name) = self.newest_holder() else { return false };
            self.kill(&name, Signal::STOP);
            // It may have ended its claim just before.
            if self.newest_holder().as_ref() == Some(&name) {
                holder = Some(name);
            } else {
                self.kill(&name, Signal::CONT);
            }
            holder.is_some()
        });
        holder.expect("waited for")
    }

    fn newest_holder(&self) -> Option<String> {
        let history = History::parse(&self.lines());
        let now = Moment::now();
        let is_held = |claim: &&Claim| {
            let is_over = claim.ended_at.is_some() || claim.valid_until < Some(now);
            !is_over && self.running.contains_key(&claim.client)
        };
        history.claims().iter().rev().find(is_held).map(|claim| claim.client.clone())
    }

    /// Waits until some had what they want, and so for longer than a lease after that moment.
    pub(crate) fn wait_for_others(&mut self, since: Moment) {
        let later = since.after(TTL + TTL / 2);
        self.wait_for("others get on", |history| {
            let claims = history.claims().iter().rev();
            claims.take_while(|claim| claim.acquired_at > later).count() >= WORKERS
        });
    }

    /// Waits until every worker that runs had what it wants.
    pub(crate) fn wait_for_everybody(&mut self, since: Moment) {
        let names = self.workers();
        self.wait_for("everybody gets on", |history| {
            let claims = history.claims().iter().rev();
            let later: Vec<&str> = claims
                .take_while(|claim| claim.acquired_at > since)
                .map(|claim| claim.client.as_str())
                .collect();
            names.iter().all(|name| later.contains(&name.as_str()))
        });
    }

    /// Waits until all that the model is about has happened.
    pub(crate) fn wait_until_tried(&mut self) {
        let primitive = self.primitive;
        let mut untried = Vec::new();
        self.wait_for("everything was tried", |history| {
            let before = std::mem::replace(&mut untried, primitive.untried(history));
            if before != untried && !untried.is_empty() {
                say(&format!("  not yet: {untried:?}"));
            }
            untried.is_empty()
        });
    }

    fn wait_for(&mut self, what: &str, mut is_done: impl FnMut(&History) -> bool) {
        let mut seen = 0;
        let what = format!("{what} (QUORATE_SEED={})", self.seed);
        eventually(&what, PATIENCE, || {
            self.assert_none_failed();
            let text = self.lines();
            // Nothing new is not worth a look.
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

    /// Lets everybody end by itself, and returns what happened. It keeps the model, and nothing is
    /// left of it.
    pub(crate) fn end(mut self) -> History {
        fs::write(stop_file(self.folder()), "").expect("the folder is there");
        for (name, mut child) in std::mem::take(&mut self.running) {
            let mut ended = None;
            eventually(&format!("{name} ends"), PATIENCE, || {
                ended = child.try_wait().expect("the state of a child");
                ended.is_some()
            });
            assert!(ended.is_some_and(|status| status.success()), "{name} has failed: {ended:?}");
        }
        let mut history = History::parse(&self.lines());
        self.deaths.iter().for_each(|(name, at)| history.died(name, *at));
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

    /// The lines stay for whoever wants to know why it is not so.
    fn assert_kept(&mut self, history: &History) {
        let found = history.violations(Until::Believed);
        if !found.is_empty() {
            let shown: Vec<String> = found.iter().take(10).map(Violation::to_string).collect();
            let folder = self.folder.take().expect("it is there until here").keep();
            panic!(
                "{} with QUORATE_SEED={}: {} violations in {} claims, see {}:\n{}",
                self.primitive.as_str(),
                self.seed,
                found.len(),
                history.claims().len(),
                history_file(&folder).display(),
                shown.join("\n")
            );
        }
    }

    fn folder(&self) -> &Path {
        self.folder.as_ref().expect("it is there until the end").path()
    }

    /// A line may be on its way: the last one counts when it is whole.
    fn lines(&self) -> String {
        let mut text = fs::read_to_string(history_file(self.folder())).unwrap_or_default();
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        text
    }

    fn assert_none_failed(&mut self) {
        for (name, child) in &mut self.running {
            let ended = child.try_wait().expect("the state of a child");
            assert!(ended.is_none(), "{name} has ended: {ended:?}");
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        for child in self.running.values_mut() {
            // It may have ended already, which is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn history_file(folder: &Path) -> PathBuf {
    folder.join("history")
}

pub(crate) fn stop_file(folder: &Path) -> PathBuf {
    folder.join("stop")
}

pub(crate) const NODES: usize = 3;
pub(crate) const SIDES: usize = 2;

/// One more of the first side, and two of each if one is killed.
pub(crate) const WORKERS: usize = 5;
