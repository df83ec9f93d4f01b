//! Looking into a server from the outside, independently of the code under test.
//!
//! Responsible for a plain connection and the few questions tests ask over and over. Every
//! question uses a new connection, so an answer never depends on an earlier one.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use redis::{Cmd, FromRedisValue, cmd};

use super::Server;

impl Server {
    /// A new connection of the independent client. Its calls give up after ten seconds rather than
    /// hang on a paused server.
    ///
    /// # Panics
    ///
    /// If the server does not answer, or does not accept the password it was started with.
    #[must_use]
    pub fn connection(&self) -> redis::Connection {
        self.try_connection()
            .unwrap_or_else(|error| panic!("connecting to the server at {}: {error}", self.url()))
    }

    /// All keys of database 0, sorted.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    #[must_use]
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = self.ask(cmd("KEYS").arg("*"));
        keys.sort();
        keys
    }

    /// Everything that is stored in database 0, and how many writes there were. Two of these are
    /// equal only if nothing was written in between, not even a value that was there already.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    #[must_use]
    pub fn contents(&self) -> Contents {
        let writes = self.stat("rdb_changes_since_last_save");
        let dumped = |key: Vec<u8>| {
            let value = self.ask(cmd("DUMP").arg(&key));
            (String::from_utf8_lossy(&key).into_owned(), value)
        };
        Contents { keys: self.keys().into_iter().map(dumped).collect(), writes }
    }

    /// The keys of locks and of their lines: all but what clients and nodes keep of themselves, and
    /// the fences, which stay.
    #[must_use]
    pub fn lock_keys(&self) -> Vec<Vec<u8>> {
        let is_aside = |key: &Vec<u8>| {
            let kinds = ["quorate:s:", "quorate:w:", "quorate:f:", "quorate:node"];
            kinds.iter().any(|kind| key.starts_with(kind.as_bytes()))
        };
        self.keys().into_iter().filter(|key| !is_aside(key)).collect()
    }

    /// Deletes everything but the record that a node keeps of itself: locks are forgotten, and
    /// nobody can see it.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    pub fn flush_locks(&self) {
        let keys = self.keys().into_iter().filter(|key| key != b"quorate:node");
        let mut delete = cmd("DEL");
        // One that is never there, so that the command has something to delete.
        delete.arg("quorate:nothing");
        for key in keys {
            delete.arg(key);
        }
        delete.exec(&mut self.connection()).expect("the server answers");
    }

    /// The name that a node has among the others, or nothing if it has no record.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    #[must_use]
    pub fn node_id(&self) -> String {
        self.ask::<Option<String>>(cmd("HGET").arg("quorate:node").arg("id")).unwrap_or_default()
    }

    /// How many clients have a session there.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.keys().iter().filter(|key| key.starts_with(b"quorate:s:")).count()
    }

    /// The string stored at `key`, if any.
    ///
    /// # Panics
    ///
    /// If the server does not answer or the value is not a string.
    #[must_use]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        self.ask(cmd("GET").arg(key.as_ref()))
    }

    /// The milliseconds `key` has left: -1 if it never expires, -2 if it does not exist.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    #[must_use]
    pub fn pttl(&self, key: impl AsRef<[u8]>) -> i64 {
        self.ask(cmd("PTTL").arg(key.as_ref()))
    }

    /// Removes all keys of all databases.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    pub fn flush_all(&self) {
        self.ask::<()>(&cmd("FLUSHALL"));
    }

    /// How often the server has run a command since it was started, including for the testkit
    /// itself. Subcommands are counted on their own, as in `"client|setinfo"`.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    #[must_use]
    pub fn command_calls(&self, command: &str) -> u64 {
        let info: String = self.ask(cmd("INFO").arg("commandstats"));
        calls_by_command(&info).get(command.to_ascii_lowercase().as_str()).copied().unwrap_or(0)
    }

    /// How many commands the server has run since it was started, including those in scripts and
    /// those of the testkit itself.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    #[must_use]
    pub fn commands(&self) -> u64 {
        let info: String = self.ask(cmd("INFO").arg("commandstats"));
        calls_by_command(&info).values().sum()
    }

    /// A number of the server's INFO, such as `total_reads_processed`.
    ///
    /// # Panics
    ///
    /// If the server does not answer or has no such number.
    #[must_use]
    pub fn stat(&self, name: &str) -> u64 {
        let info: String = self.ask(cmd("INFO").arg("everything"));
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = line.and_then(|number| number.trim().parse().ok());
        number.unwrap_or_else(|| panic!("INFO has no number {name}"))
    }

    /// The server's clock, in microseconds since 1970.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    #[must_use]
    pub fn time_us(&self) -> u64 {
        let (seconds, microseconds): (u64, u64) = self.ask(&cmd("TIME"));
        seconds * 1_000_000 + microseconds
    }

    fn ask<T: FromRedisValue>(&self, command: &Cmd) -> T {
        command.query(&mut self.connection()).unwrap_or_else(|error| {
            let command = String::from_utf8_lossy(&command.get_packed_command()).into_owned();
            panic!("asking the server at {} {command:?}: {error}", self.url())
        })
    }

    fn try_connection(&self) -> redis::RedisResult<redis::Connection> {
        let client = redis::Client::open(self.url())?;
        let connection = client.get_connection_with_timeout(ANSWERS_WITHIN)?;
        connection.set_read_timeout(Some(ANSWERS_WITHIN))?;
        connection.set_write_timeout(Some(ANSWERS_WITHIN))?;
        Ok(connection)
    }
}

/// Everything that a server has stored at one moment.
#[derive(Clone, Eq, PartialEq)]
pub struct Contents {
    /// By key, as the server writes them to disk.
    keys: BTreeMap<String, Option<Vec<u8>>>,
    writes: u64,
}

impl fmt::Debug for Contents {
    /// The values are bytes that say nothing to people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} after {} writes", self.keys.keys(), self.writes)
    }
}

/// Reads lines such as `cmdstat_get:calls=3,usec=12,…`.
fn calls_by_command(info: &str) -> HashMap<&str, u64> {
    info.lines()
        .filter_map(|line| {
            let (name, figures) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let calls = figures.strip_prefix("calls=")?.split(',').next()?;
            Some((name, calls.parse().ok()?))
        })
        .collect()
}

const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
