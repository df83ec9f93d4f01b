//! Processes that want one lock, or one of two permits, are killed and stopped: the one who holds
//! it, and the one who is next. Nodes are killed, and restarted without their data.
//!
//! What everybody believed is taken down and judged at the end: no two held the lock, or the same
//! permit, at a time, and the fence of each was larger than all before. The program starts itself
//! again as each contender. It has no test harness, so that a contender is a plain process with one
//! purpose; what `cargo test` hands over is understood or ignored.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode},
    time::Duration,
};

use quorate::{Client, ClientBuilder, Guard, blocking, error::NodeAnswer};
use quorate_core::queue::Position;
use quorate_testkit::{
    Server, eventually,
    history::{History, Moment, Recorder, Until},
    redis::cmd,
};
use rustix::process::{Pid, Signal, kill_process};

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let has = |wanted: &str| args.iter().any(|arg| arg == wanted);
    if let [CONTENDER, wanted, name, folder, urls @ ..] =
        &*args.iter().map(String::as_str).collect::<Vec<_>>()
    {
        return contend(Wanted::parse(wanted), name, Path::new(folder), urls);
    }
    if has("--list") {
        // Nothing is ignored here, so a list of what is has no lines.
        if !has("--ignored") {
            say("deaths: test");
        }
        return ExitCode::SUCCESS;
    }
    for wanted in [Wanted::Lock, Wanted::Permit] {
        for nodes in [1, 3] {
            run_case(wanted, &Server::start_many(nodes));
        }
    }
    ExitCode::SUCCESS
}

/// Lets new servers vote at once, where they would have to wait.
fn admit(servers: &[Server]) {
    if servers.len() >= 3 {
        servers.iter().for_each(Server::flush_all);
        let client = settings(servers.iter().map(Server::url)).build().expect("they are valid");
        let client = blocking::Client::try_from(client).expect("it has a thread of its own");
        client.admit().expect("they are new and empty");
    }
}

fn settings(urls: impl IntoIterator<Item = impl AsRef<str>>) -> ClientBuilder {
    // The longest ttl says for how long a restarted node does not vote.
    Client::builder().nodes(urls).ttl(TTL).max_ttl(TTL)
}

/// Panics if a promise was broken, or if the lock was not had again.
fn run_case(wanted: Wanted, servers: &[Server]) {
    admit(servers);
    let mut fixture = Fixture::start(wanted, servers);
    for round in 0..ROUNDS {
        for fate in [Fate::HolderKilled, Fate::NextKilled, Fate::HolderStopped] {
            let after = fixture.strike(fate);
            say(&format!("{wanted:?}: {fate:?}, round {round}: had again after {after:?}"));
        }
    }
    // The first node says who holds the lock: it stays.
    for (number, node) in servers.iter().enumerate().skip(1) {
        let after = fixture.go_on_after(|_| node.kill());
        say(&format!("a node killed: had again after {after:?}"));
        let after = fixture.strike(Fate::HolderKilled);
        say(&format!("HolderKilled without that node: had again after {after:?}"));
        node.restart_empty();
        let after = fixture.strike(Fate::HolderKilled);
        say(&format!("HolderKilled while that node is quarantined: had again after {after:?}"));
        fixture.wait_until_voting(number);
    }
    let history = fixture.end();
    history.assert_kept(Until::Believed);
    let locks = history.claims().iter().map(|claim| claim.lock.as_str());
    let strange: Vec<&str> = locks.filter(|lock| !wanted.locks().contains(lock)).collect();
    assert_eq!(strange, [""; 0], "more permits than there are");
    let report = history.report();
    say(&format!(
        "{wanted:?}, nodes: {}; {} claims, none overlapped, all fences grew; longest wait {:?}",
        servers.len(),
        report.claims(),
        report.longest_wait(),
    ));
}

/// What the contenders want.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wanted {
    Lock,
    Permit,
}

impl Wanted {
    fn parse(text: &str) -> Self {
        let known = [Self::Lock, Self::Permit];
        known.into_iter().find(|it| it.as_str() == text).expect("one of the two")
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Permit => "permit",
        }
    }

    /// What can be held.
    const fn locks(self) -> &'static [&'static str] {
        match self {
            Self::Lock => &[LOCK],
            Self::Permit => &["round#1", "round#2"],
        }
    }

    async fn get(self, client: &Client) -> Result<Guard, quorate::error::LockError> {
        match self {
            Self::Lock => client.mutex(LOCK).lock_timeout(PATIENCE).await,
            Self::Permit => client.semaphore(LOCK, PERMITS).acquire_timeout(PATIENCE).await,
        }
    }
}

/// What happens to a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    HolderKilled,
    NextKilled,
    HolderStopped,
}

/// The contenders, and what they take down.
struct Fixture<'a> {
    wanted: Wanted,
    servers: &'a [Server],
    folder: tempfile::TempDir,
    running: BTreeMap<String, Child>,
    started: usize,
    deaths: Vec<(String, Moment)>,
}

impl<'a> Fixture<'a> {
    fn start(wanted: Wanted, servers: &'a [Server]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the history");
        let (running, deaths) = (BTreeMap::new(), Vec::new());
        let mut fixture = Self { wanted, servers, folder, running, started: 0, deaths };
        (0..CONTENDERS).for_each(|_| fixture.add());
        fixture.go_on_after(|_| {});
        fixture
    }

    fn add(&mut self) {
        self.started += 1;
        let name = format!("contender-{}", self.started);
        let mut command = Command::new(env::current_exe().expect("the path of this program"));
        command.arg(CONTENDER).arg(self.wanted.as_str()).arg(&name).arg(self.folder.path());
        command.args(self.servers.iter().map(Server::url));
        let child = command.spawn().expect("the program starts itself");
        self.running.insert(name, child);
    }

    /// Lets it happen, and returns how long it took until another had the lock.
    fn strike(&mut self, fate: Fate) -> Duration {
        let mut stopped = None;
        let after = self.go_on_after(|fixture| {
            let victim = fixture.find(fate);
            let child = &fixture.running[&victim];
            let pid = Pid::from_child(child);
            match fate {
                Fate::HolderKilled | Fate::NextKilled => {
                    fixture.deaths.push((victim.clone(), Moment::now()));
                    kill_process(pid, Signal::KILL).expect("it runs");
                    let mut child = fixture.running.remove(&victim).expect("it was there");
                    child.wait().expect("a killed process ends");
                }
                Fate::HolderStopped => {
                    kill_process(pid, Signal::STOP).expect("it runs");
                    stopped = Some(pid);
                }
            }
        });
        match stopped {
            Some(pid) => kill_process(pid, Signal::CONT).expect("it is still there"),
            None => self.add(),
        }
        after
    }

    /// The name of whom it is to hit.
    fn find(&self, fate: Fate) -> String {
        let mut found = None;
        eventually("somebody is there to be hit", PATIENCE, || {
            let owner = match fate {
                Fate::HolderKilled | Fate::HolderStopped => {
                    self.servers[0].get(self.wanted.locks()[0])
                }
                Fate::NextKilled => match self.wanted {
                    Wanted::Lock => first_in_line(&self.servers[0]),
                    // Whoever waits for a permit first has a lock that says so.
                    Wanted::Permit => self.servers[0].get("round#line"),
                },
            };
            let client = owner.and_then(|owner| Position::of(&owner)).map(|place| place.client);
            let who = client.and_then(|it| self.servers[0].get(format!("quorate:w:{it}")));
            found = who.map(|who| String::from_utf8_lossy(&who).into_owned());
            found.as_ref().is_some_and(|name| self.running.contains_key(name))
        });
        found.expect("waited for")
    }

    /// Waits until the lock goes round again, and returns how long it took to be had once.
    fn go_on_after(&mut self, happening: impl FnOnce(&mut Self)) -> Duration {
        let before = Moment::now();
        happening(self);
        let mut times = Vec::new();
        eventually("others have the lock again", PATIENCE, || {
            self.assert_none_failed();
            let claims = self.history();
            let later = claims.claims().iter().filter(|claim| claim.acquired_at > before);
            times = later.map(|claim| claim.acquired_at.since(before)).collect();
            times.len() > CONTENDERS * 2
        });
        times[0]
    }

    /// Waits until a restarted node votes again.
    fn wait_until_voting(&self, node: usize) {
        let client = settings(self.servers.iter().map(Server::url)).build();
        let client = client.expect("they are valid");
        eventually("the node votes again", PATIENCE, || {
            client.node_status()[node].answer == NodeAnswer::Attached
        });
    }

    fn history(&self) -> History {
        // A line may be on its way: the last one counts when it is whole.
        let text = fs::read_to_string(history_file(self.folder.path())).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        History::parse(whole)
    }

    fn assert_none_failed(&mut self) {
        for (name, child) in &mut self.running {
            let ended = child.try_wait().expect("the state of a child");
            assert!(ended.is_none(), "{name} has ended: {ended:?}");
        }
    }

    /// Lets everybody end by itself, and returns what happened.
    fn end(mut self) -> History {
        fs::write(stop_file(self.folder.path()), "").expect("the folder is there");
        for (name, mut child) in std::mem::take(&mut self.running) {
            eventually(&format!("{name} ends"), PATIENCE, || {
                child.try_wait().expect("the state of a child").is_some()
            });
        }
        let mut history = self.history();
        self.deaths.iter().for_each(|(name, at)| history.died(name, *at));
        history
    }
}

impl Drop for Fixture<'_> {
    fn drop(&mut self) {
        for child in self.running.values_mut() {
            // It may have ended already, which is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn first_in_line(server: &Server) -> Option<Vec<u8>> {
    let mut connection = server.connection();
    let line = format!("quorate:q:{{{LOCK}}}");
    let first = cmd("ZRANGE").arg(line).arg(0).arg(0).query::<Vec<Vec<u8>>>(&mut connection);
    first.expect("the server answers").into_iter().next()
}

/// The life of a contender.
fn contend(wanted: Wanted, name: &str, folder: &Path, urls: &[&str]) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.expect("a runtime").block_on(take_turns(wanted, name, folder, urls)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&format!("{name}: {failure}"));
            ExitCode::FAILURE
        }
    }
}

async fn take_turns(
    wanted: Wanted,
    name: &str,
    folder: &Path,
    urls: &[&str],
) -> Result<(), Box<dyn std::error::Error>> {
    let client = settings(urls).who(name).connect().await?;
    let recorder = Recorder::to_file(history_file(folder));
    while !stop_file(folder).exists() {
        let request = (wanted == Wanted::Lock).then(|| recorder.ask(name, LOCK));
        let guard = wanted.get(&client).await?;
        // Which permit it is, is known only now.
        let request = request.unwrap_or_else(|| recorder.ask(name, guard.name()));
        let valid_until = Moment::now().after(guard.remaining());
        let fence = guard.fence().ok_or("there is a fence in this mode")?.get();
        let holding = request.acquired(Some(fence), Some(valid_until));
        // Something to do that takes a while, so that it can be caught in the act.
        for _ in 0..LOOKS {
            let _ = guard.verify().await;
        }
        match guard.check() {
            Ok(()) => holding.released(),
            Err(_) => holding.lost(),
        }
        drop(guard);
    }
    Ok(())
}

fn history_file(folder: &Path) -> PathBuf {
    folder.join("history")
}

fn stop_file(folder: &Path) -> PathBuf {
    folder.join("stop")
}

#[expect(clippy::print_stdout, reason = "there is no harness that says how it went")]
fn say(line: &str) {
    println!("{line}");
}

#[expect(clippy::print_stderr, reason = "there is no harness that says how it went")]
fn complain(line: &str) {
    eprintln!("{line}");
}

const CONTENDER: &str = "--contender";
const CONTENDERS: usize = 5;
const ROUNDS: usize = 3;
const LOCK: &str = "round";
const PERMITS: u32 = 2;

/// What a dead holder's lock is gone after.
const TTL: Duration = Duration::from_millis(600);

/// How often a holder asks the nodes whether it still has the lock.
const LOOKS: u32 = 40;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
