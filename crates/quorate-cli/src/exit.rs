//! The exit codes and the failures behind them. The numbers are part of the interface.

use std::{fmt, process::ExitCode};

use quorate::error::{
    AdmitError, ChangeError, ConfigError, ConnectError, InspectError, LeaseError, LockError,
    NodeAnswer, NodeError, NodeReport,
};

/// Why the command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(USAGE, text)
    }

    /// The operating system refused a request: what failed, and its error.
    pub(crate) fn system(what: &str, error: impl fmt::Display) -> Self {
        Self::new(SOFTWARE, format!("{what}: {error}"))
    }

    /// The name of the exit code in JSON.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.code {
            USAGE => "usage",
            REFUSED => "refused",
            UNAVAILABLE => "unavailable",
            SOFTWARE => "software",
            IO => "io",
            BUSY => "busy",
            DENIED => "denied",
            CONFIG => "config",
            LOST => "lost",
            _ => "other",
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(settings_error_code(&error), error.to_string())
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let code = match &error {
            ConnectError::NoQuorum { nodes } => quorum_failure_code(nodes),
            ConnectError::Config(error) => settings_error_code(error),
            _ => CONFIG,
        };
        Self::new(code, error.to_string())
    }
}

/// A refused thread is a failure of the system, not of the settings.
const fn settings_error_code(error: &ConfigError) -> u8 {
    match error {
        ConfigError::System { .. } => SOFTWARE,
        _ => CONFIG,
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        let code = match &error {
            LockError::Timeout { .. } => BUSY,
            LockError::NoQuorum { nodes, .. } => quorum_failure_code(nodes),
            LockError::Denied { .. } => DENIED,
            LockError::InvalidName(_)
            | LockError::InvalidTtl(_)
            | LockError::NotShared { .. }
            | LockError::NotReentrant { .. }
            | LockError::InvalidIdentity { .. }
            | LockError::NoNames
            | LockError::TooManyNames { .. }
            | LockError::InvalidPermits { .. }
            | LockError::InvalidCount { .. } => USAGE,
            _ => SOFTWARE,
        };
        Self::new(code, error.to_string())
    }
}

impl From<InspectError> for Failure {
    fn from(error: InspectError) -> Self {
        let code = match &error {
            InspectError::InvalidName(_) => USAGE,
            InspectError::NoAnswer { nodes } => quorum_failure_code(nodes),
            InspectError::Denied { .. } => DENIED,
            _ => SOFTWARE,
        };
        Self::new(code, error.to_string())
    }
}

impl From<LeaseError> for Failure {
    fn from(error: LeaseError) -> Self {
        let code = match &error {
            LeaseError::Lost(_) => LOST,
            LeaseError::NoQuorum { nodes, .. } => quorum_failure_code(nodes),
            LeaseError::InvalidTtl(_) | LeaseError::OtherMode => USAGE,
            _ => SOFTWARE,
        };
        Self::new(code, error.to_string())
    }
}

impl From<AdmitError> for Failure {
    fn from(error: AdmitError) -> Self {
        let code = match &error {
            AdmitError::Unavailable { nodes } => unavailable_code(nodes),
            AdmitError::NotEmpty { .. }
            | AdmitError::InUse { .. }
            | AdmitError::NotNew { .. }
            | AdmitError::QuarantineIsOff => REFUSED,
            _ => UNAVAILABLE,
        };
        Self::new(code, error.to_string())
    }
}

impl From<ChangeError> for Failure {
    fn from(error: ChangeError) -> Self {
        let code = match &error {
            ChangeError::NoQuorum { nodes } => unavailable_code(nodes),
            ChangeError::TooSoon { .. } | ChangeError::NotYet(_) => BUSY,
            ChangeError::Impossible(_) | ChangeError::QuarantineIsOff => REFUSED,
            _ => UNAVAILABLE,
        };
        Self::new(code, error.to_string())
    }
}

impl From<Failure> for ExitCode {
    fn from(failure: Failure) -> Self {
        failure.code.into()
    }
}

/// The code for too few votes: `CONFIG` if two addresses lead to one server, and `DENIED` if the
/// nodes that did not reject the credentials are no majority. A retry cannot help then.
pub(crate) fn quorum_failure_code(nodes: &[NodeReport]) -> u8 {
    let node_error = |report: &NodeReport| match &report.answer {
        NodeAnswer::NodeError(node_error) => Some(node_error.clone()),
        _ => None,
    };
    node_failure_code(nodes.iter().map(node_error))
}

/// Fails if two addresses lead to one server: its vote would count twice.
pub(crate) fn check_distinct(nodes: &[NodeReport]) -> Result<(), Failure> {
    let is_twin =
        |it: &&NodeReport| matches!(it.answer, NodeAnswer::NodeError(NodeError::SameServer(_)));
    let twin = nodes.iter().find(is_twin);
    twin.map_or(Ok(()), |twin| Err(Failure::new(CONFIG, twin.to_string())))
}

/// The code for an operator command to which a node gave no usable answer.
fn unavailable_code(nodes: &[NodeReport]) -> u8 {
    check_distinct(nodes).map_or_else(|failure| failure.code, |()| UNAVAILABLE)
}

/// The same, from the error of each node.
pub(crate) fn node_failure_code(node_errors: impl Iterator<Item = Option<NodeError>>) -> u8 {
    let node_errors: Vec<Option<NodeError>> = node_errors.collect();
    let is_twin =
        |node_error: &Option<NodeError>| matches!(node_error, Some(NodeError::SameServer(_)));
    if node_errors.iter().any(is_twin) {
        return CONFIG;
    }
    let nodes = node_errors.len();
    let is_denied = |node_error: &Option<NodeError>| {
        matches!(node_error, Some(NodeError::Auth(_) | NodeError::NoPermission(_)))
    };
    let denied = node_errors.iter().filter(|it| is_denied(it)).count();
    if denied > 0 && nodes - denied < majority(nodes) { DENIED } else { UNAVAILABLE }
}

/// The size of a majority of this many nodes.
pub(crate) const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// A majority of the nodes votes, but not all of them.
pub(crate) const DEGRADED: u8 = 1;

/// `doctor` has found an error.
pub(crate) const FAULT: u8 = 1;

/// Invalid arguments.
pub(crate) const USAGE: u8 = 64;

/// The change would be unsafe, or there is nothing to do.
pub(crate) const REFUSED: u8 = 65;

/// Too few nodes answered.
pub(crate) const UNAVAILABLE: u8 = 69;

/// A bug, or the system refused a resource.
pub(crate) const SOFTWARE: u8 = 70;

/// The output could not be written.
pub(crate) const IO: u8 = 74;

/// The lock is held, or the change must be retried later.
pub(crate) const BUSY: u8 = 75;

/// The nodes rejected the user, the password or the permissions.
pub(crate) const DENIED: u8 = 77;

/// Invalid settings.
pub(crate) const CONFIG: u8 = 78;

/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 79;

/// The command is not executable.
pub(crate) const NOT_EXECUTABLE: u8 = 126;

/// The command was not found.
pub(crate) const NOT_FOUND: u8 = 127;

/// Added to the number of the signal that ended the command.
pub(crate) const BY_SIGNAL: u8 = 128;

/// Exit codes of all subcommands.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  the command's   run: the command ran; 128 + N if signal N ended it
  1               nodes show: a majority votes, but not all nodes do
  64              invalid arguments
  65              nodes: refused, because it is unsafe or already done
  69              too few nodes answered
  70              a bug, or the system refused a resource
  74              the output could not be written
  75              the lock is held, or all permits are in use; nodes: too early
  77              the nodes rejected the user, password or permissions
  78              invalid settings, or two addresses of one server
  79              the lock was lost while the command ran, or the lease has ended
  126, 127        run: the command is not executable, was not found";

/// Exit codes of `run`.
pub(crate) const EXIT_CODES_OF_RUN: &str = "\
Exit codes:
  the command's   the command ran; 128 + N if signal N ended it
  64              invalid arguments
  69              too few nodes answered
  70              a bug, or the system refused a resource
  75              the lock is held, or all permits are in use
  77              the nodes rejected the user, password or permissions
  78              invalid settings, or two addresses of one server
  79              the lock was lost while the command ran
  126, 127        the command is not executable, was not found";

/// Exit codes of `acquire`.
pub(crate) const EXIT_CODES_OF_ACQUIRE: &str = "\
Exit codes:
  0               the lock was acquired
  64              invalid arguments
  69              too few nodes answered
  70              a bug, or the system refused a resource
  74              the lease could not be written, or its reader is gone
  75              the lock is held, or all permits are in use
  77              the nodes rejected the user, password or permissions
  78              invalid settings, or two addresses of one server
  128 + N         signal N ended the wait";

/// Exit codes of `renew` and `release`.
pub(crate) const EXIT_CODES_OF_LEASES: &str = "\
Exit codes:
  0               the lease was renewed or released
  64              invalid arguments
  69              too few nodes answered
  70              a bug, or the system refused a resource
  77              the nodes rejected the user, password or permissions
  78              invalid settings, or two addresses of one server
  79              the lease has expired or was released";

/// Exit codes of `ls` and `show`.
pub(crate) const EXIT_CODES_OF_INSPECTION: &str = "\
Exit codes:
  0               success
  64              invalid arguments
  69              too few nodes answered
  70              a bug, or the system refused a resource
  74              the output could not be written
  77              the nodes rejected the user, password or permissions
  78              invalid settings, or two addresses of one server";

/// Exit codes of `nodes`.
pub(crate) const EXIT_CODES_OF_NODES: &str = "\
Exit codes:
  0               success
  64              invalid arguments
  65              refused: unsafe, already done, or quarantine is off
  69              too few nodes answered, or no majority votes
  70              a bug, or the system refused a resource
  74              the output could not be written
  75              too early: try again later
  78              invalid settings, or two addresses of one server";

/// Exit codes of `nodes show`.
pub(crate) const EXIT_CODES_OF_NODES_SHOW: &str = "\
Exit codes:
  0               all nodes vote and grant new locks
  1               degraded: a majority does, but not all nodes
  64              invalid arguments
  69              no majority votes, or has memory for new locks
  70              a bug, or the system refused a resource
  74              the output could not be written
  77              the nodes rejected the user, password or permissions
  78              invalid settings, or two addresses of one server";

/// Exit codes of `doctor`.
pub(crate) const EXIT_CODES_OF_DOCTOR: &str = "\
Exit codes:
  0               no errors; there may be warnings
  1               at least one error was found
  64              invalid arguments
  70              a bug, or the system refused a resource
  74              the output could not be written
  78              invalid settings";

/// Exit codes of `serve`.
pub(crate) const EXIT_CODES_OF_SERVE: &str = "\
Exit codes:
  0               the service was asked to stop, and stopped
  64              invalid arguments
  70              a bug, or the system refused a resource
  78              invalid settings, or the address is in use";

/// Exit codes of subcommands that only print text.
pub(crate) const EXIT_CODES_OF_TEXTS: &str = "\
Exit codes:
  0               success
  64              invalid arguments
  74              the output could not be written
  78              invalid settings";
