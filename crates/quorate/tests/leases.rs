//! One process takes a lease and ends; another renews and releases it. Then several processes adopt
//! one lease at the same time, while a node is away.
//!
//! The program starts itself again as each of the others. It has no test harness, so that this is a
//! plain process with one purpose; what `cargo test` hands over is understood or ignored.

use std::{
    env,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    time::Duration,
};

use quorate::{Client, ClientBuilder, DetachedLease, blocking};
use quorate_testkit::{Server, eventually};

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let has = |wanted: &str| args.iter().any(|arg| arg == wanted);
    match args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some((TAKER, urls)) => {
            take(urls);
            return ExitCode::SUCCESS;
        }
        Some((ADOPTER, [lease, urls @ ..])) => {
            adopt(lease, urls);
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    if has("--list") {
        // Nothing is ignored here, so a list of what is has no lines.
        if !has("--ignored") {
            say("leases: test");
        }
        return ExitCode::SUCCESS;
    }
    let servers = Server::start_many(3);
    for nodes in [1, 3] {
        run_case(&servers[..nodes]);
    }
    run_rivals(&servers);
    ExitCode::SUCCESS
}

/// Lets new servers vote at once, where they would have to wait.
fn admit(servers: &[Server]) {
    if servers.len() >= 3 {
        servers.iter().for_each(Server::flush_all);
        let settings = Client::builder().nodes(servers.iter().map(Server::url));
        let client = settings.build().expect("the settings are valid");
        let client = blocking::Client::try_from(client).expect("it has a thread of its own");
        client.admit().expect("they are new and empty");
    }
}

/// No node is silent here, but a busy machine may be slow.
fn settings(urls: &[String]) -> ClientBuilder {
    Client::builder().nodes(urls).vote_timeout(TTL / 2)
}

fn connect(urls: &[String]) -> blocking::Client {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let client = runtime.expect("a runtime").block_on(settings(urls).connect());
    let client = client.expect("a majority is there");
    blocking::Client::try_from(client).expect("it has a thread of its own")
}

fn run_case(servers: &[Server]) {
    admit(servers);
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let client = connect(&urls);
    let lease: DetachedLease = hear_of_lease(&urls).parse().expect("a lease");
    let fence = lease.fence().expect("a lease of the default mode");
    let later = client.mutex(LOCK);
    assert!(later.try_lock().expect("the nodes answer").is_none(), "it was left, not released");

    let guard = client.adopt(&lease).expect("nobody else has adopted it");
    assert_eq!(guard.fence(), Some(fence), "it is the same holder to the resource");
    assert!(client.adopt(&lease).is_err(), "it can be had once");
    let end = servers[0].time_us() + 2 * TTL.as_micros() as u64;
    eventually("it was renewed for longer than a ttl", PATIENCE, || {
        guard.check().expect("it is held");
        servers[0].time_us() > end
    });
    guard.extend(LONG).expect("it is held");
    guard.verify().expect("the nodes know the new holder");
    assert!(later.try_lock().expect("the nodes answer").is_none());
    guard.release().expect("it is ours");

    let next = later.lock_timeout(PATIENCE).expect("it was released");
    assert!(next.fence() > Some(fence), "the next holder is another");
    say(&format!("a lease was renewed and released by another process, nodes: {}", servers.len()));
}

/// Panics if two processes have adopted one lease.
fn run_rivals(servers: &[Server]) {
    admit(servers);
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let client = connect(&urls);
    servers[2].kill();
    let mut succeeded = 0;
    for round in 0..ROUNDS {
        let mutex = client.mutex(LOCK).ttl(LONG);
        let guard = mutex.lock_timeout(PATIENCE).expect("two nodes are there");
        let lease = guard.detach().expect("it is held").to_string();
        let mut rivals = [(); RIVALS].map(|()| Rival::start(&lease, &urls));
        rivals.iter_mut().for_each(|rival| assert_eq!(rival.hear(), READY));
        rivals.iter_mut().for_each(Rival::go);
        let outcomes = rivals.each_mut().map(Rival::hear);
        let held = outcomes.iter().filter(|outcome| *outcome == HELD).count();
        assert!(held <= 1, "round {round}: {outcomes:?}");
        if held == 1 {
            assert!(mutex.try_lock().expect("two nodes answer").is_none(), "it is held");
        }
        succeeded += held;
        // Whoever holds it releases it when its input ends. If none does, they have given it back.
        rivals.into_iter().for_each(Rival::end);
    }
    say(&format!("{RIVALS} processes adopted one lease: {succeeded} of {ROUNDS} times one had it"));
}

/// A process that adopts a lease when it is told to.
struct Rival {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Rival {
    fn start(lease: &str, urls: &[String]) -> Self {
        let mut command = Command::new(env::current_exe().expect("the path of this program"));
        command.arg(ADOPTER).arg(lease).args(urls);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the program starts itself");
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { child, input, output }
    }

    /// The next line that it prints.
    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it is plain text");
        line.trim_end().to_owned()
    }

    fn go(&mut self) {
        self.input.write_all(b"\n").expect("it listens");
    }

    fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().expect("it ends").success());
    }
}

/// The life of a rival.
fn adopt(lease: &str, urls: &[String]) {
    let client = connect(urls);
    let lease = lease.parse().expect("a lease");
    say(READY);
    io::stdin().read_line(&mut String::new()).expect("it is told to go");
    match client.adopt(&lease) {
        Ok(guard) => {
            say(HELD);
            io::stdin().read_to_end(&mut Vec::new()).expect("it ends");
            guard.release().expect("it is held");
        }
        Err(_) => say("not adopted"),
    }
}

/// What the other process prints before it ends.
fn hear_of_lease(urls: &[String]) -> String {
    let mut command = Command::new(env::current_exe().expect("the path of this program"));
    let output = command.arg(TAKER).args(urls).output().expect("the program starts itself");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("a lease is plain text").trim().to_owned()
}

/// The life of the first process.
fn take(urls: &[String]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let lease = runtime.expect("a runtime").block_on(async {
        let client = settings(urls).ttl(TTL).connect().await.expect("nodes");
        let guard = client.mutex(LOCK).lock_timeout(PATIENCE).await.expect("it is free");
        guard.detach().await.expect("it is held")
    });
    say(&lease.to_string());
}

#[expect(clippy::print_stdout, reason = "there is no harness that says how it went")]
fn say(line: &str) {
    println!("{line}");
}

const TAKER: &str = "--taker";
const ADOPTER: &str = "--adopter";
const LOCK: &str = "handed:over";
const READY: &str = "ready";
const HELD: &str = "held";
const RIVALS: usize = 3;
const ROUNDS: usize = 5;

/// Longer than it takes to start a process on a busy machine.
const TTL: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(30);

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
