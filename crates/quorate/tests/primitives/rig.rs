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
    history::{History, Moment, Until, Violation},
};
use rustix::process::{Pid, Signal, kill_process};

use super::{PATIENCE, Primitive, TTL, WORKER};

pub(crate) struct Rig {
    primitive: Primitive,
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

impl Rig {
    pub(crate) fn start(primitive: Primitive, seed: u64) -> Self {
        let servers = Server::builder().append_only().start_many(NODES);
        let link = |server: &Server| Proxy::start(&server.address());
        let sides = (0..SIDES).map(|_| servers.iter().map(link).collect()).collect();
        admit(&servers);
        let observer = settings(servers.iter().map(Server::url)).build();
        let observer = observer.expect("the settings are valid");
        let folder = Some(tempfile::tempdir().expect("a folder for the history"));
        let (running, deaths) = (BTreeMap::new(), Vec::new());
        let started = 0;
        let mut rig =
            Self { primitive, seed, servers, sides, folder, running, started, deaths, observer };
        (0..WORKERS).for_each(|_| rig.add_worker());
        rig.wait_for_everybody(Moment::now());
        rig
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
        command.arg(WORKER).arg(self.primitive.as_str()).arg(self.seed.to_string()).arg(&name);
        command.arg(self.folder()).args(self.sides[self.started % SIDES].iter().map(Proxy::url));
        let child = command.spawn().expect("the program starts itself");
        self.running.insert(name, child);
    }

    pub(crate) fn signal(&mut self, worker: &str, signal: Signal) {
        let pid = Pid::from_child(&self.running[worker]);
        if signal != Signal::KILL {
            return kill_process(pid, signal).expect("it runs");
        }
        self.deaths.push((worker.to_owned(), Moment::now()));
        kill_process(pid, signal).expect("it runs");
        let mut child = self.running.remove(worker).expect("it was there");
        child.wait().expect("a killed process ends");
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
            self.observer.nodes()[node].answer == NodeAnswer::Attached
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

impl Drop for Rig {
    fn drop(&mut self) {
        for child in self.running.values_mut() {
            // It may have ended already, which is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn settings(urls: impl IntoIterator<Item = impl AsRef<str>>) -> ClientBuilder {
    // The longest ttl is a part of the time for which a restarted node does not vote.
    Client::builder().nodes(urls).ttl(TTL).max_ttl(TTL)
}

/// Lets new servers vote at once, where they would have to wait.
fn admit(servers: &[Server]) {
    let client = settings(servers.iter().map(Server::url)).build().expect("they are valid");
    let client = blocking::Client::try_from(client).expect("it has a thread of its own");
    client.admit().expect("they are new and empty");
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
