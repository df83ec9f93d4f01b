//! Processes that share a folder: they hand the lock over, are killed at any moment, have no right
//! to write, and no space on the disk.

#[path = "local/children.rs"]
mod children;
#[path = "local/deaths.rs"]
mod deaths;
#[path = "local/rights.rs"]
mod rights;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use quorate::{Client, blocking};
use quorate_testkit::{
    eventually,
    processes::{self, Child, PATIENCE, command, print_line},
};
use rusqlite::Connection;

fn main() -> ExitCode {
    processes::run("local", children::run, |_| {
        waiter_in_another_process_is_notified_of_a_release();
        killed_waiter_is_passed_over();
        killed_holder_keeps_only_its_own_lock();
        deaths::at_any_moment();
        holder_whose_files_are_removed_loses_the_lock();
        rights::missing_rights_are_reported();
        rights::are_set_whatever_the_mask();
        rights::too_few_files_are_reported();
        rights::full_disk_is_reported();
    })
}

/// With a ttl of ten minutes a heartbeat comes after more than three minutes: no wait here is that
/// long.
fn waiter_in_another_process_is_notified_of_a_release() {
    let folder = Folder::new();
    let client = folder.client();
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        let guard = client.mutex(LOCK).lock().expect("it is free");
        let waiter = start_waiter(&folder);
        folder.wait_for_waiters(1);
        let started = Instant::now();
        let fence = guard.fence().expect("there is one in this mode").get();
        guard.release().expect("it was held");
        assert!(fence_of(&waiter) > fence, "the next has a larger one");
        longest = longest.max(started.elapsed());
        waiter.end();
    }
    assert!(longest < PATIENCE, "{longest:?}");
    print_line(&format!("handed over to another process 20 times, in {longest:?} at the most"));
}

/// Its session would last for minutes: its socket shows that it has ended.
fn killed_waiter_is_passed_over() {
    let folder = Folder::new();
    let client = folder.client();
    let guard = client.mutex(LOCK).lock().expect("it is free");
    let mut first = start_waiter(&folder);
    folder.wait_for_waiters(1);
    let second = start_waiter(&folder);
    folder.wait_for_waiters(2);
    first.kill();
    let started = Instant::now();
    guard.release().expect("it was held");
    fence_of(&second);
    assert!(started.elapsed() < PATIENCE, "long before anything ends by itself");
    let sockets =
        std::fs::read_dir(folder.path().join("sockets")).expect("there are sockets").count();
    assert_eq!(sockets, 2, "the socket of the killed waiter is removed");
    second.end();
    print_line(&format!("a killed waiter was passed over, in {:?}", started.elapsed()));
}

/// A holder that is killed keeps its lock for its ttl, and other locks are free.
fn killed_holder_keeps_only_its_own_lock() {
    let folder = Folder::new();
    let mut holder = start_waiter(&folder);
    let fence = fence_of(&holder);
    holder.kill();
    let client = folder.client();
    assert!(client.mutex(LOCK).try_lock().expect("it answers").is_none(), "for ten minutes");
    client.mutex("another").lock().expect("others are free").release().expect("it was held");
    assert!(fence > 0 && folder.is_whole());
}

/// The next client finds no trace of the holder, and the holder finds that out when it renews. The
/// old files that the holder still has open affect no other client.
fn holder_whose_files_are_removed_loses_the_lock() {
    for gone in [&["locks.db-wal", "locks.db-shm"][..], &["locks.db-wal"], &["locks.db"]] {
        let folder = Folder::new();
        let child = Child::start(command("lose").arg(folder.path()));
        let fence = fence_of(&child);
        for file in gone {
            std::fs::remove_file(folder.path().join(file)).expect("it is there");
        }
        let started = Instant::now();
        let client = folder.client();
        let guard =
            client.mutex(LOCK).try_lock().expect("it answers").expect("the lock is forgotten");
        assert!(guard.fence().expect("there is one in this mode").get() > fence, "it is larger");
        assert_eq!(child.next_line(), "lost");
        child.end();
        guard.extend(TEN_MINUTES).expect("it is ours alone");
        assert!(folder.is_whole());
        print_line(&format!("a holder without {gone:?} knew it after {:?}", started.elapsed()));
    }
}

/// A folder that is removed after the test.
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
        db(&self.path())
    }

    fn wait_for_waiters(&self, expected: usize) {
        let db = self.db();
        let sql = "SELECT count(*) FROM waiting";
        eventually("they wait in the queue", PATIENCE, || {
            db.query_row(sql, [], |row| row.get(0)).is_ok_and(|len: usize| len == expected)
        });
    }

    fn is_whole(&self) -> bool {
        is_whole(&self.path())
    }
}

fn db(folder: &Path) -> Connection {
    let connection = Connection::open(folder.join("locks.db")).expect("the file is there");
    connection.busy_timeout(PATIENCE).expect("it waits");
    connection
}

fn is_whole(folder: &Path) -> bool {
    let found = db(folder).query_row("PRAGMA integrity_check", [], |row| row.get(0));
    found.is_ok_and(|found: String| found == "ok")
}

fn client(folder: &Path, ttl: Duration) -> blocking::Client {
    let client = Client::builder().local(folder).max_ttl(TEN_MINUTES).ttl(ttl).build();
    let client = client.expect("the folder can be used");
    blocking::Client::try_from(client).expect("it has a thread of its own")
}

/// Starts a process that waits for the lock, prints its fence, and holds it until its input ends.
fn start_waiter(folder: &Folder) -> Child {
    Child::start(command("wait").arg(folder.path()))
}

/// The fence that a child prints.
fn fence_of(child: &Child) -> u64 {
    child.next_line().parse().expect("a number")
}

const LOCK: &str = "round";

const TEN_MINUTES: Duration = Duration::from_secs(600);
