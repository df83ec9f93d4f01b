//! A process is stopped while it holds a lock, and goes on when somebody else has it.
//!
//! The program starts itself again as the holder. It has no test harness, so that the holder is a
//! plain process with one purpose; what `cargo test` hands over is understood or ignored.

use std::{
    env,
    io::{self, BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, ExitCode, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use quorate::{Client, blocking};
use quorate_testkit::{Server, eventually};
use rustix::process::{Pid, Signal, kill_process};

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let has = |wanted: &str| args.iter().any(|arg| arg == wanted);
    if let Some((HOLDER, urls)) = args.split_first().map(|(first, urls)| (first.as_str(), urls)) {
        hold(urls);
        return ExitCode::SUCCESS;
    }
    if has("--list") {
        // Nothing is ignored here, so a list of what is has no lines.
        if !has("--ignored") {
            say("stopped: test");
        }
        return ExitCode::SUCCESS;
    }
    let servers = Server::start_many(3);
    for nodes in [1, 3] {
        run_case(&servers[..nodes]);
        say(&format!("a holder that was stopped knows that its lock is lost, nodes: {nodes}"));
    }
    ExitCode::SUCCESS
}

fn run_case(servers: &[Server]) {
    admit(servers);
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let mut holder = Holder::start(&urls);
    assert_eq!(holder.hear(), "held");
    // A majority is enough to hold it: a node that was not attached by then never takes it.
    let has_key = |server: &&Server| server.get(LOCK).is_some();
    let watched = servers.iter().find(has_key).expect("a majority has the key");
    let value = watched.get(LOCK);
    let end = watched.time_us() + 2 * TTL.as_micros() as u64;
    eventually("it holds the lock for longer than a ttl", PATIENCE, || {
        assert_eq!(watched.get(LOCK), value);
        watched.time_us() > end
    });

    holder.signal(Signal::STOP);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    // It gets the lock only once the holder's time is over on a majority of the nodes.
    let taken = runtime.block_on(async {
        let settings = Client::builder().nodes(&urls).vote_timeout(PATIENCE);
        let client = settings.connect().await.expect("the nodes are there");
        client.mutex(LOCK).ttl(LONG).no_renew().lock_timeout(PATIENCE).await.expect("it is free")
    });
    eventually("every node has the new holder's key", PATIENCE, || {
        servers.iter().all(|server| server.get(LOCK).is_some_and(|now| Some(now) != value))
    });
    let before: Vec<_> = servers.iter().map(kept).collect();

    // What is written now is what it reads first.
    holder.tell("look");
    holder.signal(Signal::CONT);
    assert_eq!(holder.hear(), "check: lost, the lease expired");
    assert_eq!(holder.hear(), "lost: the lease expired");
    assert_eq!(holder.hear(), "extend: lost");
    assert_eq!(holder.hear(), "release: lost");
    holder.tell("end");
    holder.wait_for_end();
    for (server, (value, end)) in servers.iter().zip(before) {
        let (value_now, end_now) = kept(server);
        assert_eq!(value_now, value, "the first holder has left it alone");
        // It is read in two steps. Whoever extends the lock moves its end by many seconds.
        assert!(end_now.abs_diff(end) < 5_000, "{end_now} instead of {end}");
    }
    taken.check().expect("it is still held");
    runtime.block_on(taken.release()).expect("it was held until now");
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

/// The life of the first holder.
fn hold(urls: &[String]) {
    let client = blocking::Client::connect(urls).expect("the nodes are there");
    let guard = client.mutex(LOCK).ttl(TTL).lock().expect("the lock is free");
    say("held");
    // Stopped and continued while it reads. The very next thing is the look at the guard.
    assert_eq!(read_line(), "look");
    match guard.check() {
        Ok(()) => say("check: held"),
        Err(lost) => say(&format!("check: lost, {}", lost.reason)),
    }
    say(&format!("lost: {}", guard.wait_until_lost().reason));
    say(if guard.extend(TTL).is_ok() { "extend: held" } else { "extend: lost" });
    say(if guard.release().is_ok() { "release: held" } else { "release: lost" });
    assert_eq!(read_line(), "end");
    let _ = client.shutdown(PATIENCE);
}

/// The value of the key, and when it goes, in milliseconds on the server's clock.
fn kept(server: &Server) -> (Vec<u8>, i64) {
    let value = server.get(LOCK).expect("somebody has the lock");
    let now = i64::try_from(server.time_us() / 1_000).expect("it is not that late");
    (value, now + server.pttl(LOCK))
}

/// The process of the first holder, which does not outlive the test.
struct Holder {
    child: Child,
    to: ChildStdin,
    from: Receiver<String>,
}

impl Holder {
    fn start(urls: &[String]) -> Self {
        let program = env::current_exe().expect("the path of this program");
        let mut command = Command::new(program);
        command.arg(HOLDER).args(urls).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts itself");
        let to = child.stdin.take().expect("a pipe");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (sender, from) = mpsc::channel();
        // On a thread of its own, so that a holder that hangs is not waited for without end.
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, to, from }
    }

    fn hear(&self) -> String {
        self.from.recv_timeout(PATIENCE).expect("the holder says something in time")
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.to, "{line}").expect("the holder is there");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the holder is there");
    }

    fn wait_for_end(&mut self) {
        let mut ended = None;
        eventually("the holder ends", PATIENCE, || {
            ended = self.child.try_wait().expect("the state of a child");
            ended.is_some()
        });
        assert!(ended.is_some_and(|status| status.success()));
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_line() -> String {
    let mut line = String::new();
    io::stdin().read_line(&mut line).expect("the test is there");
    line.trim_end().to_owned()
}

#[expect(clippy::print_stdout, reason = "there is no harness that says how it went")]
fn say(line: &str) {
    println!("{line}");
}

const HOLDER: &str = "--holder";
const LOCK: &str = "orders:42";
const TTL: Duration = Duration::from_millis(400);
const LONG: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(20);
