//! What one node answered, or why it did not answer.

use std::{fmt, time::Duration};

use quorate_core::{membership::SESSION_LIFE_MS, quorum::Vote, time_text::TimeText};
use thiserror::Error;

/// What one node answered in one round, or what is wrong with it when the report is made.
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
    /// The node's answer.
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
    /// The node is connected and may vote. In an error: it was not asked, or its answer was lost
    /// with an earlier connection.
    Attached,
    /// The node executed the request.
    Granted,
    /// The node refused: the key has another owner, or does not exist.
    Refused,
    /// The outcome was clear before the node answered.
    NotAwaited,
    /// The node is connected, and votes soon after the next read-write client connects. This client
    /// is [read-only](crate::ClientBuilder::read_only). The text states the reason.
    Ready(String),
    /// No usable answer: the node may or may not have executed the request.
    NodeError(NodeError),
}

impl NodeAnswer {
    /// Converts a vote of the core.
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
    /// The connection was lost before the answer arrived.
    #[error("connection lost: {0}")]
    ConnectionLost(String),
    /// The address cannot be reached.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// There is no connection yet.
    #[error("not connected yet")]
    Connecting,
    /// The server rejected user or password, or requires them.
    #[error("authentication failed: {0}")]
    Auth(String),
    /// The user lacks a permission on the server.
    #[error("no permission: {0}")]
    NoPermission(String),
    /// The server is a replica. A replica's vote does not count.
    #[error("is a read-only replica")]
    ReadOnly,
    /// The server is still loading its data.
    #[error("is loading its data")]
    Loading,
    /// The server is full: it keeps the existing locks, and stores no new one.
    #[error("memory is full: the server answers OOM to new locks; free memory or raise maxmemory")]
    OutOfMemory,
    /// The key has a type that the command cannot handle.
    #[error("the key has another type")]
    WrongType,
    /// The server is busy with a script of another client.
    #[error("busy with a script")]
    Busy,
    /// It is the same server as another node, so its vote would count twice.
    #[error("is the same server as {0}, and would vote twice: remove one of the two addresses")]
    SameServer(String),
    /// No trusted TLS connection could be established.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The server lacks a required feature.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// The server sent a reply that cannot be understood.
    #[error("protocol error: {0}")]
    Protocol(String),
    /// Another error of the server.
    #[error("server error: {0}")]
    Server(String),
    /// Too many requests of this client to the node are unanswered.
    #[error("too many requests are waiting")]
    Overloaded,
    /// The server does not have the client's session: it has forgotten it, or the session has
    /// expired. The client reconnects.
    #[error("the session was lost")]
    SessionLost,
    /// The server may have forgotten locks, and does not vote until these have expired.
    #[error("in quarantine for {} more: {why}", TimeText(*left))]
    Quarantined {
        /// The time until the server votes. It includes the time in which holders renew their
        /// leases first.
        left: Duration,
        /// Why the server may have forgotten locks.
        why: String,
        /// The same, for programs.
        cause: QuarantineCause,
    },
    /// The nodes and this client disagree about the set of nodes.
    #[error("disagreement: {0}")]
    Disagreement(String),
    /// The server's policy evicts keys when its memory is full, including locks.
    #[error("it may evict locks: its maxmemory-policy is {0}; set noeviction")]
    Evicts(String),
    /// The server's clock does not advance, so a lock would never expire there.
    #[error("its clock stands still")]
    ClockStandsStill,
    /// The server's record of itself as a node is invalid: another program has changed it.
    #[error(
        "the node's record {key} is damaged: {what}, delete it and the node is quarantined anew"
    )]
    DamagedRecord {
        /// The key of the record.
        key: String,
        /// What is wrong with it.
        what: String,
    },
    /// A node that was to be admitted holds this number of keys.
    #[error("is not empty: it holds {0} keys")]
    NotEmpty(u64),
    /// The operating system provides no random bytes. A session cannot begin without them.
    #[error("the operating system gives no random bytes: {0}")]
    NoRandomness(String),
    /// The folder of a local node cannot be used right now: its path and the reason.
    #[error("{0}")]
    Storage(String),
    /// The client was shut down.
    #[error("the client was shut down")]
    ShutDown,
}

/// Why a node does not vote, although it could be a node.
///
/// # Examples
///
/// ```
/// use quorate::error::{NodeAnswer, NodeError, NodeReport, QuarantineCause};
///
/// fn is_new(report: &NodeReport) -> bool {
///     match &report.answer {
///         NodeAnswer::NodeError(NodeError::Quarantined { cause, .. }) => {
///             *cause == QuarantineCause::New
///         }
///         _ => false,
///     }
/// }
/// # let client = quorate::Client::memory();
/// assert!(!is_new(&client.node_status()[0]));
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum QuarantineCause {
    /// The node knows no lock and is empty: it is new, or has lost all its data.
    New,
    /// The node may have forgotten locks.
    Forgotten,
    /// The set of nodes was changed a short while ago, or is being changed.
    SetChanged,
    /// The quarantine has ended, and holders renew their leases first.
    Recovering,
}

impl NodeError {
    /// Converts an error reply of a server. The first word of a reply, in capitals, is its code.
    pub(crate) fn from_reply(text: &str) -> Self {
        let text = printable(text);
        let code = text.split(' ').next().unwrap_or_default();
        match code {
            "NOAUTH" | "WRONGPASS" => Self::Auth(text),
            "NOPERM" => Self::NoPermission(text),
            // The reply to a command inside a script.
            "ERR" if text.contains("user executing the script can't") => Self::NoPermission(text),
            // Redis 6 embeds the error of a command inside a script in a text of its own.
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

    /// Converts an error reply to a request for the record of a node.
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

    /// One word for metric labels.
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

    /// True if retrying does not help until the configuration or the server is changed.
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

/// How long it takes until a node votes that is in quarantine for `left_ms` more: it recovers after
/// that.
pub(crate) const fn votes_in(left_ms: u64) -> Duration {
    Duration::from_millis(left_ms.saturating_add(SESSION_LIFE_MS))
}

/// A server's text, safe for a log: no control characters, and limited to whole sentences.
fn printable(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    let Some((end, _)) = plain.char_indices().nth(TEXT_LEN_MAX) else { return plain };
    let start = &plain[..end];
    // The end of the last sentence, or of the last word.
    match (start.rfind(". "), start.rfind(' ')) {
        (Some(sentence), _) => start[..=sentence].to_owned(),
        (None, Some(word)) => format!("{}…", &start[..word]),
        (None, None) => format!("{start}…"),
    }
}

/// The longest text of a server, in characters. The longest common error has 350.
const TEXT_LEN_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_reply_has_its_own_variant() {
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
    fn hostile_server_cannot_write_to_the_terminal() {
        let text = NodeError::from_reply(&format!("ERR \x1b[31m\n{}", "x".repeat(999))).to_string();
        assert!(
            text.len() < TEXT_LEN_MAX + 50 && !text.contains('\x1b') && !text.contains('\n'),
            "{text}"
        );
    }

    #[test]
    fn long_server_texts_end_with_a_sentence() {
        let text = NodeError::from_reply(MISCONF).to_string();
        assert!(text.ends_with("details about the RDB error."), "{text}");
        let sentence = "Redis is running in protected mode. ";
        let text = NodeError::from_reply(&format!("DENIED {}", sentence.repeat(40))).to_string();
        assert!(text.ends_with("protected mode.") && text.len() > 450, "{text}");
        let text = NodeError::from_reply(&format!("ERR {}", "word ".repeat(200))).to_string();
        assert!(text.ends_with(" word…"), "{text}");
    }

    const MISCONF: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently \
        unable to persist to disk. Commands that may modify the data set are disabled, because \
        this instance is configured to report errors during writes if RDB snapshotting fails \
        (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the \
        RDB error.";
}
