//! A folder of a local node, and a view of it from outside.

use std::{os::unix::fs::MetadataExt, path::PathBuf, time::Duration};

use quorate::{Client, ClientBuilder};
use rusqlite::{Connection, params};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

/// A folder that is deleted with the test.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("locks")
    }

    /// Settings of a client of this folder.
    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder().local(self.path())
    }

    /// The file in it.
    pub(crate) fn db(&self) -> PathBuf {
        self.path().join("locks.db")
    }

    /// The sessions of all clients.
    pub(crate) fn sessions(&self) -> Vec<String> {
        let connection = self.open();
        let mut sessions = connection.prepare("SELECT session FROM clients").expect("it is SQL");
        let sessions = sessions.query_map([], |row| row.get(0)).expect("there are clients");
        sessions.map(|session| session.expect("a text")).collect()
    }

    /// The sockets on which clients receive events.
    pub(crate) fn events(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path().join("sockets")).expect("there are sockets");
        entries.map(|entry| entry.expect("it can be read").path()).collect()
    }

    /// Whether a process waits for the file lock, as the kernel reports it.
    pub(crate) fn is_waited_for(&self) -> bool {
        let file = std::fs::metadata(self.path().join("lock")).expect("it is there").ino();
        let locks = std::fs::read_to_string("/proc/locks").expect("a list of all locks");
        locks.lines().any(|line| line.contains("-> FLOCK") && line.contains(&format!(":{file} ")))
    }

    /// The locks that are held; none while the folder is unused.
    pub(crate) fn names(&self) -> Vec<String> {
        if !self.db().exists() {
            return Vec::new();
        }
        let connection = self.open();
        let mut held = connection
            .prepare(
                "SELECT name FROM locks, era
                 WHERE value IS NOT NULL AND coalesce(key_ends_ms, ?1) >= (base_us + ?2) / 1000",
            )
            .expect("the tables are there");
        let names = held.query_map(params![i64::MAX, uptime_us()], |row| row.get(0));
        names.expect("they can be read").collect::<Result<_, _>>().expect("each of them")
    }

    /// Stores a value without an end, as another program would.
    pub(crate) fn plant(&self, name: &str, value: &[u8]) {
        // A client that has come and gone leaves the tables.
        drop(self.builder().build().expect("the folder can be used"));
        // The other records stay, as on a server.
        let sql = "INSERT INTO locks (name, value) VALUES (?1, ?2)
                   ON CONFLICT (name) DO UPDATE SET value = excluded.value, key_ends_ms = NULL";
        self.open().execute(sql, params![name, value]).expect("it is stored");
    }

    /// Deletes everything without notifying any client.
    pub(crate) fn forget(&self) {
        let sql = "BEGIN IMMEDIATE; DELETE FROM locks; DELETE FROM waiting; DELETE FROM clients;
                   COMMIT";
        self.open().execute_batch(sql).expect("it is deleted");
    }

    /// A connection that does not take the file lock.
    pub(crate) fn open(&self) -> Connection {
        let connection = Connection::open(self.db()).expect("the file is there");
        connection.busy_timeout(Duration::from_secs(20)).expect("it waits");
        connection
    }
}

fn uptime_us() -> i64 {
    let uptime = clock_gettime(ClockId::Boottime);
    uptime.tv_sec * 1_000_000 + uptime.tv_nsec / 1_000
}
