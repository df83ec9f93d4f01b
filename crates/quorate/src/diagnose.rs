//! What a diagnosis of the nodes starts from: facts, without a judgement.
//!
//! [`ClientBuilder::diagnose`](crate::ClientBuilder::diagnose) gathers them. `quorate doctor` turns
//! them into findings and remedies.
//!
//! # Examples
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let facts = quorate::Client::builder().nodes(["redis://10.0.0.1"]).diagnose().await?;
//! for right in facts.servers[0].missing_rights.iter().flatten() {
//!     println!("the user needs {}", right.rule);
//! }
//! # Ok(()) }
//! ```

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use crate::{error::NodeError, node_error::votes_in};

/// What is known of all nodes of a client.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use quorate::{Client, memory::MemoryNodes};
///
/// let facts = Client::builder().memory(&MemoryNodes::new(3)).diagnose().await?;
/// assert!(facts.servers.is_empty(), "there is nothing to know about nodes in memory");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Facts {
    /// Each server, in the order of the addresses.
    pub servers: Vec<ServerFacts>,
    /// The folder of local locks.
    pub folder: Option<FolderFacts>,
    /// When the certificate that the client presents to servers expires.
    pub client_certificate_ends: Option<SystemTime>,
}

/// What one server reported about itself. A server that stopped answering leaves the later parts
/// empty.
///
/// # Examples
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// for server in quorate::Client::builder().nodes(["redis://10.0.0.1"]).diagnose().await?.servers {
///     println!("{}: {:?}", server.node, server.info.get("redis_version"));
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ServerFacts {
    /// The address, without user and password.
    pub node: String,
    /// The user that the client logs in as.
    pub user: String,
    /// Why the server could not be asked, or not everything.
    pub node_error: Option<NodeError>,
    /// The fields of `INFO`.
    pub info: BTreeMap<String, String>,
    /// The values of some settings, if the user may read them.
    pub settings: BTreeMap<String, String>,
    /// Some fields of the record that the server keeps of itself as a node. The lists `members` and
    /// `before` have a line for each node: its name, a space, its address.
    pub record: BTreeMap<String, String>,
    /// The number of keys in its database, without the record.
    pub keys: Option<u64>,
    /// Why the server ran no script, if it did not.
    pub script_error: Option<NodeError>,
    /// The rights in [`RIGHTS`] that the user lacks. `None` if the server cannot tell.
    pub missing_rights: Option<Vec<&'static Right>>,
    /// The calls in the server's log of slow calls, without the scripts that clients of Quorate
    /// load when they connect. `None` if the user may not read it.
    pub slow_calls: Option<Vec<SlowCall>>,
    /// Readings of the server's clock, spread over about a second.
    pub clock: Vec<ClockReading>,
    /// When the first certificate of the server's chain expires, if the connection uses TLS.
    pub certificate_ends: Option<SystemTime>,
}

impl ServerFacts {
    /// How long it takes until the node votes again after it was restarted: its quarantine, and the
    /// time after that in which holders renew their leases. `None` if its record does not tell.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use quorate::diagnose::ServerFacts;
    ///
    /// let mut server = ServerFacts::default();
    /// server.record.insert("quarantine_ms".into(), "68200".into());
    /// assert_eq!(server.votes_after(), Some(Duration::from_millis(73_200)));
    /// ```
    #[must_use]
    pub fn votes_after(&self) -> Option<Duration> {
        self.record.get("quarantine_ms")?.parse().ok().map(votes_in)
    }
}

/// One reading of a server's clock.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use quorate::diagnose::ClockReading;
///
/// let (asked, answered) = (Duration::from_micros(10), Duration::from_micros(30));
/// let reading = ClockReading { asked, answered, wall_ms: 5_000, server_us: 5_100_010 };
/// assert_eq!(reading.ahead_ms(), 100);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClockReading {
    /// When it was requested, by a clock of this machine that is never set.
    pub asked: Duration,
    /// When the answer arrived, by the same clock.
    pub answered: Duration,
    /// What the wall clock of this machine showed when it was requested, in milliseconds.
    pub wall_ms: u64,
    /// What the server's clock showed, in microseconds.
    pub server_us: u64,
}

impl ClockReading {
    /// How far the server's clock is ahead of this machine's, in milliseconds. It may be wrong by
    /// half of the round trip.
    ///
    /// # Examples
    ///
    /// See [`ClockReading`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use quorate::diagnose::ClockReading;
    /// # let (asked, answered) = (Duration::ZERO, Duration::from_millis(2));
    /// let reading = ClockReading { asked, answered, wall_ms: 5_000, server_us: 4_001_000 };
    /// assert_eq!(reading.ahead_ms(), -1_000);
    /// ```
    #[must_use]
    pub fn ahead_ms(&self) -> i64 {
        let half = self.answered.saturating_sub(self.asked) / 2;
        let wall_us = i128::from(self.wall_ms) * 1_000 + half.as_micros().cast_signed();
        let ahead_us = i128::from(self.server_us) - wall_us;
        i64::try_from(ahead_us / 1_000).unwrap_or(if ahead_us < 0 { i64::MIN } else { i64::MAX })
    }
}

/// A call in a server's log of slow calls.
///
/// # Examples
///
/// ```no_run
/// # fn show(server: &quorate::diagnose::ServerFacts) {
/// for call in server.slow_calls.iter().flatten() {
///     println!("{} took {:?}, {:?} ago", call.command, call.took, call.age);
/// }
/// # }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct SlowCall {
    /// The command without its arguments, which may be secret.
    pub command: String,
    /// How long the server executed it.
    pub took: Duration,
    /// How long ago.
    pub age: Duration,
}

impl SlowCall {
    /// A call of a command.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use quorate::diagnose::SlowCall;
    ///
    /// let call = SlowCall::new("KEYS", Duration::from_millis(90), Duration::from_secs(60));
    /// assert_eq!(call.command, "KEYS");
    /// ```
    #[must_use]
    pub fn new(command: impl Into<String>, took: Duration, age: Duration) -> Self {
        Self { command: command.into(), took, age }
    }
}

/// What is known of a folder of local locks.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # #[cfg(feature = "local")] {
/// let facts = quorate::Client::builder().local("/nonexistent/locks").diagnose().await?;
/// let folder = facts.folder.expect("the locks are local");
/// assert!(!folder.exists);
/// # }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FolderFacts {
    /// The folder.
    pub path: PathBuf,
    /// Whether the folder exists. The first client creates it.
    pub exists: bool,
    /// Why the folder cannot be used, and what to do.
    pub problem: Option<String>,
    /// The file with the locks, if it exists.
    pub file: Option<PathBuf>,
    /// How many bytes this user can still write to the disk.
    pub free_bytes: Option<u64>,
    /// How many files can still be created on the disk. File systems without a limit report zero
    /// files in total, which is `None` here.
    pub free_files: Option<u64>,
    /// The processes that have kept the folder locked for the whole time of the diagnosis. All
    /// others wait for them.
    pub blockers: Vec<Blocker>,
}

/// A process that keeps a folder locked.
///
/// # Examples
///
/// ```
/// use quorate::diagnose::Blocker;
///
/// let blocker = Blocker::new(811, "backup", true);
/// assert!(blocker.is_stopped);
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Blocker {
    /// The process id.
    pub pid: u32,
    /// The name of the program; empty if it is unknown.
    pub command: String,
    /// Whether the process was stopped by a signal or a debugger.
    pub is_stopped: bool,
}

impl Blocker {
    /// A process.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(quorate::diagnose::Blocker::new(811, "backup", false).pid, 811);
    /// ```
    #[must_use]
    pub fn new(pid: u32, command: impl Into<String>, is_stopped: bool) -> Self {
        Self { pid, command: command.into(), is_stopped }
    }
}

/// A command that a server's user must be allowed to call.
///
/// # Examples
///
/// ```
/// use quorate::diagnose::RIGHTS;
///
/// let rules: Vec<&str> = RIGHTS.iter().map(|right| right.rule).collect();
/// println!("ACL SETUSER app {}", rules.join(" "));
/// assert!(rules.contains(&"+evalsha"));
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Right {
    /// The rule that grants it, as for `ACL SETUSER`.
    pub rule: &'static str,
    /// What needs it.
    pub purpose: Purpose,
    /// The words of a call. `{key}` and `{channel}` are replaced by names with Quorate's prefix.
    pub(crate) call: &'static str,
}

/// What needs a right.
///
/// # Examples
///
/// ```
/// use quorate::diagnose::{Purpose, RIGHTS};
///
/// let listing = RIGHTS.iter().find(|right| right.purpose == Purpose::Listing);
/// assert_eq!(listing.map(|right| right.rule), Some("+scan"));
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Purpose {
    /// Every client.
    Locks,
    /// Listing locks: [`Client::locks`](crate::Client::locks).
    Listing,
    /// [`ClientBuilder::durable_nodes`](crate::ClientBuilder::durable_nodes).
    Durability,
}

/// All commands that a server's user must be allowed to call.
///
/// # Examples
///
/// See [`Right`].
///
/// ```
/// assert!(quorate::diagnose::RIGHTS.len() > 30);
/// ```
pub const RIGHTS: &[Right] = &[
    of_locks("+hello", "HELLO 3"),
    of_locks("+auth", "AUTH x"),
    of_locks("+client|setname", "CLIENT SETNAME x"),
    of_locks("+select", "SELECT 0"),
    of_locks("+info", "INFO server"),
    of_locks("+script|load", "SCRIPT LOAD x"),
    of_locks("+eval", "EVAL x 0"),
    of_locks("+evalsha", "EVALSHA x 0"),
    of_locks("+subscribe", "SUBSCRIBE {channel}"),
    of_locks("+publish", "PUBLISH {channel} x"),
    of_locks("+time", "TIME"),
    of_locks("+get", "GET {key}"),
    of_locks("+mget", "MGET {key}"),
    of_locks("+set", "SET {key} x"),
    of_locks("+del", "DEL {key}"),
    of_locks("+exists", "EXISTS {key}"),
    of_locks("+type", "TYPE {key}"),
    of_locks("+pttl", "PTTL {key}"),
    of_locks("+pexpire", "PEXPIRE {key} 1"),
    of_locks("+zadd", "ZADD {key} 1 x"),
    of_locks("+zrem", "ZREM {key} x"),
    of_locks("+zrange", "ZRANGE {key} 0 0"),
    of_locks("+zrank", "ZRANK {key} x"),
    of_locks("+zpopmin", "ZPOPMIN {key}"),
    of_locks("+hmget", "HMGET {key} x"),
    of_locks("+hset", "HSET {key} x x"),
    of_locks("+hget", "HGET {key} x"),
    of_locks("+hdel", "HDEL {key} x"),
    of_locks("+hlen", "HLEN {key}"),
    of_locks("+hgetall", "HGETALL {key}"),
    of_locks("+hrandfield", "HRANDFIELD {key}"),
    of_locks("+pexpireat", "PEXPIREAT {key} 1"),
    of_locks("+dbsize", "DBSIZE"),
    Right { rule: "+scan", purpose: Purpose::Listing, call: "SCAN 0" },
    Right { rule: "+config|get", purpose: Purpose::Durability, call: "CONFIG GET save" },
];

const fn of_locks(rule: &'static str, call: &'static str) -> Right {
    Right { rule, purpose: Purpose::Locks, call }
}
