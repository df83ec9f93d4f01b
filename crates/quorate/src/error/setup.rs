//! Errors of clients: invalid settings, no connection, no answer to an inspection.

use thiserror::Error;

use super::{NameError, NodeAnswer, NodeReport, Reports, TtlError};

/// Why a client could not be built. Nothing was sent to any node.
///
/// # Examples
///
/// ```
/// use quorate::{Client, error::ConfigError};
///
/// let error = Client::builder().nodes(["http://10.0.0.1"]).build().unwrap_err();
/// assert!(matches!(error, ConfigError::InvalidUrl { node: 0, .. }));
/// assert_eq!(Client::builder().build().unwrap_err(), ConfigError::NoNodes);
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ConfigError {
    /// There are no nodes.
    #[error("no nodes are configured; give at least one, such as redis://127.0.0.1:6379")]
    NoNodes,
    /// There are more nodes than a client can have.
    #[error("{nodes} nodes are configured, and a client has at most {max}")]
    TooManyNodes {
        /// How many were given.
        nodes: usize,
        /// The most that are accepted.
        max: usize,
    },
    /// The address of a node is invalid.
    #[error("invalid address {url:?} of node {}: {reason}", .node + 1)]
    InvalidUrl {
        /// Which node, counted from 0.
        node: usize,
        /// The address as it was given, with its password masked.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Two addresses are those of the same server, whose vote would count twice.
    #[error(
        "nodes {} and {} are the same server, {label}: its vote would count twice",
        .first + 1,
        .second + 1
    )]
    SameServer {
        /// The first of them, counted from 0.
        first: usize,
        /// The second of them, counted from 0.
        second: usize,
        /// The address.
        label: String,
    },
    /// The default ttl is invalid.
    #[error(transparent)]
    InvalidTtl(#[from] TtlError),
    /// A setting is outside of its bounds.
    #[error("{setting} is {value:?}: {reason}")]
    InvalidSetting {
        /// The name of the setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A certificate or key cannot be used.
    #[error("TLS: {reason}")]
    InvalidTls {
        /// What is wrong.
        reason: String,
    },
    /// The folder of a local node cannot be used.
    #[error("{path}: {reason}")]
    Local {
        /// The folder, or the file in it.
        path: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// The system refused a thread or randomness.
    #[error("the system refused {what}: {reason}")]
    System {
        /// What was requested.
        what: &'static str,
        /// Its error.
        reason: String,
    },
}

/// Why a lock could not be inspected.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let nodes = quorate::memory::MemoryNodes::new(1);
/// # let client = quorate::Client::builder().memory(&nodes).build()?;
/// # use quorate::memory::Behaviour;
/// nodes.set(0, Behaviour::Fail);
/// let error = client.inspect("orders:42").await.unwrap_err();
/// assert_eq!(error.to_string(), "no node reports locks: memory:0: connection refused");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum InspectError {
    /// The name is invalid.
    #[error(transparent)]
    InvalidName(#[from] NameError),
    /// No node answered, or the nodes that answered do not vote yet.
    #[error("no node reports locks: {}", Reports(.nodes))]
    NoAnswer {
        /// What each node answered, in the order in which they were configured.
        nodes: Box<[NodeReport]>,
    },
    /// No node answered, and some denied the right to inspect.
    #[error("denied: {}", Reports(.nodes))]
    Denied {
        /// What each node answered, in the order in which they were configured.
        nodes: Box<[NodeReport]>,
    },
    /// The client was shut down.
    #[error("the client was shut down")]
    ShutDown,
}

impl InspectError {
    /// No node gave a usable answer.
    pub(crate) fn of(nodes: Box<[NodeReport]>) -> Self {
        let is_denied = nodes.iter().any(|report| match &report.answer {
            NodeAnswer::NodeError(node_error) => node_error.is_denial(),
            NodeAnswer::Attached
            | NodeAnswer::Granted
            | NodeAnswer::Refused
            | NodeAnswer::NotAwaited
            | NodeAnswer::Ready(_) => false,
        });
        if is_denied { Self::Denied { nodes } } else { Self::NoAnswer { nodes } }
    }
}

/// A blocking client would wait for an engine that runs on the runtime which it blocks.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use quorate::{Client, blocking, memory::MemoryNodes};
/// # let nodes = MemoryNodes::new(1);
/// let client = Client::builder().memory(&nodes).danger_engine_on_this_runtime().build()?;
/// let refused = blocking::Client::try_from(client).unwrap_err();
/// assert!(refused.to_string().contains("would never end"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error(
    "this client's engine runs on an async runtime, and a blocking call there would never end: \
     build it without danger_engine_on_this_runtime, or use it as an async client"
)]
#[non_exhaustive]
pub struct WouldDeadlock;

/// Why a client could not connect.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use quorate::{Client, error::ConnectError};
///
/// match Client::connect("http://10.0.0.1").await {
///     Err(ConnectError::Config(error)) => eprintln!("fix the settings: {error}"),
///     Err(error) => eprintln!("fix the servers: {error}"),
///     Ok(client) => println!("{} nodes", client.node_status().len()),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ConnectError {
    /// The settings are invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No majority of the nodes was attached in time.
    #[error("no quorum: {}", Reports(.nodes))]
    NoQuorum {
        /// What each node answered, in the order in which they were configured.
        nodes: Box<[NodeReport]>,
    },
}
