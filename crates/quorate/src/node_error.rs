//! What one node said, or why it said nothing.

use std::{fmt, time::Duration};

use quorate_core::quorum::Vote;
use thiserror::Error;

/// What one node said in one round, or what is wrong with it when the report is made.
///
/// # Examples
///
/// ```
/// # let nodes = quorate::memory::MemoryNodes::new(1);
/// # let client = quorate::Client::builder().memory(&nodes).build()?;
/// let report = &client.node_status()[0];
/// assert_eq!(report.node, "memory:0");
/// assert_eq!(report.to_string(), "memory:0: attached");
/// # Ok::<(), quorate::error::ConfigError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct NodeReport {
    /// The node's address, without user and password.
    pub node: String,
    /// What it said.
    pub answer: NodeAnswer,
}

impl NodeReport {
    pub(crate) fn new(node: &str, answer: NodeAnswer) -> Self {
        Self { node: node.to_owned(), answer }
    }
}

impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.node)?;
        match &self.answer {
            NodeAnswer::Attached => f.write_str("attached"),
            NodeAnswer::Granted => f.write_str("granted"),
            NodeAnswer::Refused => f.write_str("refused"),
            NodeAnswer::NotAwaited => f.write_str("not waited for"),
            NodeAnswer::Ready(why) => f.write_str(why),
            NodeAnswer::NodeError(node_error) => write!(f, "{node_error}"),
        }
    }
}

/// A node's answer.
///
/// # Examples
///
/// ```
/// # let nodes = quorate::memory::MemoryNodes::new(1);
/// # let client = quorate::Client::builder().memory(&nodes).build()?;
/// use quorate::error::NodeAnswer;
///
/// for report in client.node_status() {
///     if let NodeAnswer::NodeError(node_error) = report.answer {
///         eprintln!("{} cannot vote: {node_error}", report.node);
///     }
/// }
/// # Ok::<(), quorate::error::ConfigError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NodeAnswer {
    /// It is connected and may vote. In an error: it was not asked, or its answer was lost with an
    /// earlier connection.
    Attached,
    /// It did what was asked.
    Granted,
    /// It plainly refused: the key is another's, or not there.
    Refused,
    /// The outcome was clear before it answered.
    NotAwaited,
    /// It is connected, and votes soon after the next client connects: this one [only
    /// looks](crate::ClientBuilder::read_only). The text says what it waits for.
    Ready(String),
    /// No usable answer: what was asked may have happened or not.
    NodeError(NodeError),
}

impl NodeAnswer {
    /// The same in the words of the core.
    pub(crate) fn of(vote: Vote, node_error: Option<&NodeError>) -> Self {
        match (vote, node_error) {
            (Vote::Grant, _) => Self::Granted,
            (Vote::Refuse, _) => Self::Refused,
            (Vote::Unknown, Some(node_error)) => Self::NodeError(node_error.clone()),
            (Vote::Unknown, None) => Self::NodeError(NodeError::TimedOut),
        }
    }
}

/// Why a node gave no usable answer.
///
/// # Examples
///
/// ```
/// # let nodes = quorate::memory::MemoryNodes::new(1);
/// # let client = quorate::Client::builder().memory(&nodes).build()?;
/// use quorate::{error::{NodeAnswer, NodeError}, memory::Behaviour};
///
/// nodes.set(0, Behaviour::Fail);
/// assert_eq!(client.node_status()[0].answer, NodeAnswer::NodeError(NodeError::ConnectionRefused));
/// # Ok::<(), quorate::error::ConfigError>(())
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum NodeError {
    /// No answer came within the vote timeout.
    #[error("timed out")]
    TimedOut,
    /// Nothing listens at the address.
    #[error("connection refused")]
    ConnectionRefused,
    /// The connection was lost while the answer was awaited.
    #[error("connection lost: {0}")]
    ConnectionLost(String),
    /// The address cannot be reached.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// There is no connection yet.
    #[error("not connected yet")]
    Connecting,
    /// User or password were refused, or are needed.
    #[error("authentication failed: {0}")]
    Auth(String),
    /// The user lacks a right on that server.
    #[error("no permission: {0}")]
    NoPermission(String),
    /// The server is a replica. A replica's vote does not count.
    #[error("is a read-only replica")]
    ReadOnly,
    /// The server is still reading its data.
    #[error("is loading its data")]
    Loading,
    /// The server is full: it keeps the locks that it has, and stores no new one.
    #[error("memory is full: the server answers OOM to new locks; free memory or raise maxmemory")]
    OutOfMemory,
    /// The key has a type that the command cannot handle.
    #[error("the key has another type")]
    WrongType,
    /// The server is busy with somebody's script.
    #[error("busy with a script")]
    Busy,
    /// It is the same server as another node, so its vote would count twice.
    #[error("is the same server as {0}")]
    SameServer(String),
    /// No trusted connection could be made.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The server cannot do what is needed.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// The server said something that makes no sense.
    #[error("protocol error: {0}")]
    Protocol(String),
    /// Another error of the server.
    #[error("server error: {0}")]
    Server(String),
    /// This client has too many requests to the node that are not answered.
    #[error("too many requests are waiting")]
    Overloaded,
    /// The server does not know the client's session any more: it has forgotten, or was not heard
    /// of for too long. The connection is made anew.
    #[error("the session was lost")]
    SessionLost,
    /// The server may have forgotten locks, and does not vote until they would be over.
    #[error("in quarantine for {} more: {why}", shown(*left))]
    Quarantined {
        /// For how much longer.
        left: Duration,
        /// Why it may have forgotten.
        why: String,
    },
    /// The nodes and this client do not mean the same set of nodes.
    #[error("disagreement: {0}")]
    Disagreement(String),
    /// The server throws keys away when its memory is full, locks too. This is its policy.
    #[error("it may evict locks: its maxmemory-policy is {0}; set noeviction")]
    Evicts(String),
    /// The server's clock does not go on, so that no lock would ever end there.
    #[error("its clock stands still")]
    ClockStandsStill,
    /// What the server keeps about itself as a node makes no sense: somebody has changed it.
    #[error(
        "the node's record {key} is damaged: {what}, delete it and the node is quarantined anew"
    )]
    DamagedRecord {
        /// Where it is.
        key: String,
        /// What is wrong with it.
        what: String,
    },
    /// A node that was to be admitted holds so many keys.
    #[error("is not empty: it holds {0} keys")]
    NotEmpty(u64),
    /// The operating system gives no random bytes, without which no session can begin.
    #[error("the operating system gives no random bytes: {0}")]
    NoRandomness(String),
    /// The folder of a local node cannot be used right now: its path, and what is wrong.
    #[error("{0}")]
    Storage(String),
    /// The client was shut down.
    #[error("the client was shut down")]
    ShutDown,
}

/// To a tenth of a second, and never less than is left.
fn shown(left: Duration) -> String {
    let tenths = left.as_millis().div_ceil(100);
    format!("{}.{} s", tenths / 10, tenths % 10)
}

impl NodeError {
    /// What a server's error reply means. Replies begin with a word in capitals that says it.
    pub(crate) fn from_reply(text: &str) -> Self {
        let text = printable(text);
        let code = text.split(' ').next().unwrap_or_default();
        match code {
            "NOAUTH" | "WRONGPASS" => Self::Auth(text),
            "NOPERM" => Self::NoPermission(text),
            // What a command inside of a script is told.
            "ERR" if text.contains("user executing the script can't") => Self::NoPermission(text),
            // Redis 6 tells what a script was answered within a text of its own.
            "ERR" if text.contains("-OOM ") => Self::OutOfMemory,
            "READONLY" => Self::ReadOnly,
            "LOADING" => Self::Loading,
            "OOM" => Self::OutOfMemory,
            "WRONGTYPE" => Self::WrongType,
            "BUSY" => Self::Busy,
            "NOPROTO" => Self::Unsupported(text),
            _ => Self::Server(text),
        }
    }

    /// What a server's error means that was asked for the record of a node.
    pub(crate) fn of_record(self, prefix: &str) -> Self {
        let what = match &self {
            Self::WrongType => "it has another type",
            Self::Protocol(_) => "it cannot be understood",
            Self::Server(text) => match text.strip_prefix("DAMAGED ") {
                Some(what) => what,
                None => return self,
            },
            _ => return self,
        };
        Self::DamagedRecord { key: format!("{prefix}node"), what: what.to_owned() }
    }

    pub(crate) fn from_connect(error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::ConnectionRefused => Self::ConnectionRefused,
            std::io::ErrorKind::TimedOut => Self::TimedOut,
            _ => Self::Unreachable(error.to_string()),
        }
    }

    /// One word for labels.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::error::NodeError;
    ///
    /// assert_eq!(NodeError::Auth("WRONGPASS invalid password".into()).kind(), "auth");
    /// ```
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::ConnectionRefused => "connection_refused",
            Self::ConnectionLost(_) => "connection_lost",
            Self::Unreachable(_) => "unreachable",
            Self::Connecting => "connecting",
            Self::Auth(_) => "auth",
            Self::NoPermission(_) => "no_permission",
            Self::ReadOnly => "read_only",
            Self::Loading => "loading",
            Self::OutOfMemory => "out_of_memory",
            Self::WrongType => "wrong_type",
            Self::Busy => "busy",
            Self::SameServer(_) => "same_server",
            Self::Tls(_) => "tls",
            Self::Unsupported(_) => "unsupported",
            Self::Protocol(_) => "protocol",
            Self::Server(_) => "server",
            Self::Overloaded => "overloaded",
            Self::SessionLost => "session_lost",
            Self::Quarantined { .. } => "quarantined",
            Self::Disagreement(_) => "disagreement",
            Self::Evicts(_) => "evicts",
            Self::ClockStandsStill => "clock_stands_still",
            Self::DamagedRecord { .. } => "damaged_record",
            Self::NotEmpty(_) => "not_empty",
            Self::NoRandomness(_) => "no_randomness",
            Self::Storage(_) => "storage",
            Self::ShutDown => "shut_down",
        }
    }

    /// True if trying again will not help until somebody changes something.
    pub(crate) const fn is_lasting(&self) -> bool {
        matches!(
            self,
            Self::Auth(_)
                | Self::NoPermission(_)
                | Self::SameServer(_)
                | Self::Tls(_)
                | Self::Unsupported(_)
                | Self::Disagreement(_)
                | Self::Evicts(_)
                | Self::NotEmpty(_)
        )
    }

    pub(crate) const fn is_denial(&self) -> bool {
        matches!(self, Self::Auth(_) | Self::NoPermission(_))
    }
}

/// A server's text, fit for a log: no control characters, and no more than a line of it.
fn printable(text: &str) -> String {
    const TEXT_LEN_MAX: usize = 200;
    text.chars().filter(|c| !c.is_control()).take(TEXT_LEN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_a_server_has_its_own_name() {
        let cases = [
            ("NOAUTH Authentication required.", "authentication failed: NOAUTH"),
            ("WRONGPASS invalid username-password pair", "authentication failed"),
            ("NOPERM this user has no permissions", "no permission"),
            ("READONLY You can't write against a read only replica.", "read-only replica"),
            ("LOADING Redis is loading the dataset in memory", "is loading its data"),
            ("OOM command not allowed when used memory > 'maxmemory'.", "memory is full"),
            ("ERR Error running script (call to f_0): @user_script:20: -OOM command", "is full"),
            ("WRONGTYPE Operation against a key", "the key has another type"),
            ("BUSY Redis is busy running a script.", "busy with a script"),
            ("MISCONF Redis is configured to save", "server error: MISCONF"),
            ("", "server error: "),
        ];
        for (reply, expected) in cases {
            let text = NodeError::from_reply(reply).to_string();
            assert!(text.contains(expected), "{reply} -> {text}");
        }
    }

    #[test]
    fn a_hostile_server_cannot_write_to_the_terminal() {
        let text = NodeError::from_reply(&format!("ERR \x1b[31m\n{}", "x".repeat(999))).to_string();
        assert!(text.len() < 250 && !text.contains('\x1b') && !text.contains('\n'), "{text}");
    }
}
