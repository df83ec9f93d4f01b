//! Processes that share a folder: they hand the lock over, are killed at any moment, have no right
//! to write, and no room on the disk.
//!
//! The program starts itself again as each of them. It has no test harness, so that a child is a
//! plain process with one purpose; what `cargo test` hands over is understood or ignored.

#[path = "local/children.rs"]
mod children;
#[path = "local/deaths.rs"]
mod deaths;
#[path = "local/rights.rs"]
mod rights;

use std::{
    env,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use quorate::{Client, blocking};
use quorate_testkit::eventually;
use rusqlite::Connection;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let has = |wanted: &str| args.iter().any(|arg| arg == wanted);
    if let [CHILD, role, rest @ ..] = &*args.iter().map(String::as_str).collect::<Vec<_>>() {
        return children::live(role, rest);
    }
    if has("--list") {
        // Nothing is ignored here, so a list of what is has no lines.
        if !has("--ignored") {
            say("local: test");
        }
        return ExitCode::SUCCESS;
    }
    a_release_is_heard_by_another_process();
    one_who_was_killed_is_passed_over();
    a_killed_process_leaves_its_turn_and_nothing_half_done();
    deaths::at_any_moment();
    a_holder_whose_files_are_removed_loses_the_lock();
    rights::are_missed_with_a_word();
    rights::are_set_whatever_the_mask();
    rights::too_few_files_are_told();
    rights::a_disk_without_room_is_told();
    ExitCode::SUCCESS
}

/// With a ttl of ten minutes a heartbeat comes after more than three: no wait here is that long.
fn a_release_is_heard_by_another_process() {
    let folder = Folder::new();
    let client = folder.client();
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        let guard = client.mutex(LOCK).lock().expect("it is free");
        let mut waiter = Waiter::start(&folder);
        folder.wait_for_line(1);
        let started = Instant::now();
        let fence = guard.fence().expect("there is one in this mode").get();
        guard.release().expect("it was held");
        assert!(waiter.fence() > fence, "the next has a larger one");
        longest = longest.max(started.elapsed());
        waiter.end();
    }
    assert!(longest < PATIENCE, "{longest:?}");
    say(&format!("handed over to another process 20 times, in {longest:?} at the most"));
}

/// Its session would last for minutes: that it is gone is seen by its socket.
fn one_who_was_killed_is_passed_over() {
    let folder = Folder::new();
    let client = folder.client();
    let guard = client.mutex(LOCK).lock().expect("it is free");
    let mut first = Waiter::start(&folder);
    folder.wait_for_line(1);
    let mut second = Waiter::start(&folder);
    folder.wait_for_line(2);
    first.kill();
    let started = Instant::now();
    guard.release().expect("it was held");
    second.fence();
    assert!(started.elapsed() < PATIENCE, "long before anything ends by itself");
    let sockets =
        std::fs::read_dir(folder.path().join("sockets")).expect("there are sockets").count();
    assert_eq!(sockets, 2, "the socket of the dead is removed");
    second.end();
    say(&format!("a killed waiter was passed over, in {:?}", started.elapsed()));
}

/// A holder that is killed keeps its lock for its ttl, and nobody else waits for anything.
fn a_killed_process_leaves_its_turn_and_nothing_half_done() {
    let folder = Folder::new();
    let mut holder = Waiter::start(&folder);
    let fence = holder.fence();
    holder.kill();
    let client = folder.client();
    assert!(client.mutex(LOCK).try_lock().expect("it answers").is_none(), "for ten minutes");
    client.mutex("another").lock().expect("others are free").release().expect("it was held");
    assert!(fence > 0 && folder.is_whole());
}

/// Whoever comes next finds no trace of the holder, which finds out when it renews. What the holder
/// still has open of the old files misleads nobody.
fn a_holder_whose_files_are_removed_loses_the_lock() {
    for gone in [&["locks.db-wal", "locks.db-shm"][..], &["locks.db-wal"], &["locks.db"]] {
        let folder = Folder::new();
        let mut command = child("lose");
        command.arg(folder.path()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts itself");
        let fence: u64 = line(&mut child).parse().expect("it says a number");
        for file in gone {
            std::fs::remove_file(folder.path().join(file)).expect("it is there");
        }
        let started = Instant::now();
        let client = folder.client();
        let guard = client.mutex(LOCK).try_lock().expect("it answers").expect("nobody knows of it");
        assert!(guard.fence().expect("there is one in this mode").get() > fence, "it is larger");
        assert_eq!(line(&mut child), "lost");
        assert!(child.wait().expect("it ends").success());
        guard.extend(TEN_MINUTES).expect("it is ours alone");
        assert!(folder.is_whole());
        say(&format!("a holder without {gone:?} knew it after {:?}", started.elapsed()));
    }
}

/// A folder that goes with the test.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("locks")
    }

    fn client(&self) -> blocking::Client {
        client(&self.path(), TEN_MINUTES)
    }

    fn db(&self) -> Connection {
        let connection = Connection::open(self.path().join("locks.db")).expect("the file is there");
        connection.busy_timeout(PATIENCE).expect("it waits");
        connection
    }

    fn wait_for_line(&self, expected: usize) {
        let db = self.db();
        let sql = "SELECT count(*) FROM waiting";
        eventually("they wait in line", PATIENCE, || {
            db.query_row(sql, [], |row| row.get(0)).is_ok_and(|len: usize| len == expected)
        });
    }

    fn is_whole(&self) -> bool {
        let found = self.db().query_row("PRAGMA integrity_check", [], |row| row.get(0));
        found.is_ok_and(|found: String| found == "ok")
    }
}

fn client(folder: &Path, ttl: Duration) -> blocking::Client {
    let client = Client::builder().local(folder).max_ttl(TEN_MINUTES).ttl(ttl).build();
    let client = client.expect("the folder can be used");
    blocking::Client::try_from(client).expect("it has a thread of its own")
}

/// A process that waits for the lock, says what fence it has, and keeps it until it is to end.
struct Waiter {
    child: Child,
}

impl Waiter {
    fn start(folder: &Folder) -> Self {
        let mut command = child("wait");
        command.arg(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self { child: command.spawn().expect("the program starts itself") }
    }

    fn fence(&mut self) -> u64 {
        line(&mut self.child).parse().expect("it says a number")
    }

    /// It ends when nobody speaks to it any more.
    fn end(mut self) {
        drop(self.child.stdin.take());
        let ended = self.child.wait().expect("it ends");
        assert!(ended.success(), "{ended}");
    }

    fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("a killed process ends");
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program, for one purpose.
fn child(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("the path of this program"));
    command.args([CHILD, role]);
    command
}

/// The next line that a child says, which must not take for ever.
fn line(child: &mut Child) -> String {
    let mut out = child.stdout.take().expect("it is listened to");
    let (said, heard) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        // A child says one line at a time, so that nothing is left in the reader.
        let read = BufReader::new(&mut out).read_line(&mut line);
        // Whoever listens may have given up.
        let _ = said.send(read.map(|_| (line, out)));
    });
    let heard = heard.recv_timeout(PATIENCE).expect("it says something in time");
    let (line, out) = heard.expect("it can be heard");
    child.stdout = Some(out);
    line.trim_end().to_owned()
}

#[expect(clippy::print_stdout, reason = "there is no harness that says how it went")]
fn say(line: &str) {
    println!("{line}");
}

#[expect(clippy::print_stderr, reason = "there is no harness that says how it went")]
fn complain(line: &str) {
    eprintln!("{line}");
}

const CHILD: &str = "--child";
const LOCK: &str = "round";

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const TEN_MINUTES: Duration = Duration::from_secs(600);
