//! How the command ends. The numbers are part of its interface.

use std::{fmt, process::ExitCode};

use quorate::error::{
    AdmitError, ChangeError, ConfigError, ConnectError, InspectError, LeaseError, LockError,
    NodeAnswer, NodeError, NodeReport,
};

/// Why it did not do what it was told.
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

    /// The system has refused something: what could not be done for that, and what it says.
    pub(crate) fn system(what: &str, error: impl fmt::Display) -> Self {
        Self::new(SOFTWARE, format!("{what}: {error}"))
    }

    /// One word for what the code means.
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
        Self::new(of_settings(&error), error.to_string())
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let code = match &error {
            ConnectError::NoQuorum { nodes } => silence(nodes),
            ConnectError::Config(error) => of_settings(error),
            _ => CONFIG,
        };
        Self::new(code, error.to_string())
    }
}

/// No setting can help where the system refuses a thread.
const fn of_settings(error: &ConfigError) -> u8 {
    match error {
        ConfigError::System { .. } => SOFTWARE,
        _ => CONFIG,
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        let code = match &error {
            LockError::Timeout { .. } => BUSY,
            LockError::NoQuorum { nodes, .. } => silence(nodes),
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
            InspectError::NoAnswer { .. } => UNAVAILABLE,
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
            LeaseError::NoQuorum { nodes, .. } => silence(nodes),
            LeaseError::InvalidTtl(_) | LeaseError::OtherMode => USAGE,
            _ => SOFTWARE,
        };
        Self::new(code, error.to_string())
    }
}

impl From<AdmitError> for Failure {
    fn from(error: AdmitError) -> Self {
        let code = match error {
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
        let code = match error {
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

/// Too few nodes answered; if that is because they turned us away, it is no use to try again.
pub(crate) fn silence(nodes: &[NodeReport]) -> u8 {
    let node_error = |report: &NodeReport| match &report.answer {
        NodeAnswer::NodeError(node_error) => Some(node_error.clone()),
        _ => None,
    };
    too_few(nodes.iter().map(node_error))
}

/// The same, of what each node was in trouble with.
pub(crate) fn too_few(node_errors: impl ExactSizeIterator<Item = Option<NodeError>>) -> u8 {
    let nodes = node_errors.len();
    let is_denied = |node_error: &Option<NodeError>| {
        matches!(node_error, Some(NodeError::Auth(_) | NodeError::NoPermission(_)))
    };
    let denied = node_errors.filter(is_denied).count();
    if denied > 0 && nodes - denied < majority(nodes) { DENIED } else { UNAVAILABLE }
}

/// How many of so many nodes decide.
pub(crate) const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// The arguments make no sense.
pub(crate) const USAGE: u8 = 64;

/// It would not be safe, or there is nothing to do.
pub(crate) const REFUSED: u8 = 65;

/// Too few nodes answered.
pub(crate) const UNAVAILABLE: u8 = 69;

/// A bug, or a system that refuses what every system gives.
pub(crate) const SOFTWARE: u8 = 70;

/// What it has to say could not be written.
pub(crate) const IO: u8 = 74;

/// Another has the lock; or not yet: the same later.
pub(crate) const BUSY: u8 = 75;

/// The nodes refused user, password or rights.
pub(crate) const DENIED: u8 = 77;

/// The settings are wrong.
pub(crate) const CONFIG: u8 = 78;

/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 79;

/// The command could not be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;

/// There is no such command.
pub(crate) const NOT_FOUND: u8 = 127;

/// Added to the number of the signal that ended the command.
pub(crate) const BY_SIGNAL: u8 = 128;

/// What the codes of `run` mean, and of the whole command.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  the command's   it ran; 128 + N if signal N ended it
  64              the arguments make no sense
  65              it would not be safe, or is done already (nodes)
  69              too few nodes answered
  70              a bug, or a system that refuses a process
  74              what it has to say could not be written
  75              another has the lock, or all permits are in use, or not yet
  77              the nodes refused user, password or rights
  78              the settings are wrong
  79              the lock was lost while the command ran
  126, 127        the command cannot be executed, is not there";

/// Those of `acquire`.
pub(crate) const EXIT_CODES_OF_ACQUIRE: &str = "\
Exit codes:
  0               the lock is taken
  64              the arguments make no sense
  69              too few nodes answered
  70              a bug, or a system that refuses what it needs
  74              the lease could not be written, or nobody could read it
  75              another has the lock, or all permits are in use
  77              the nodes refused user, password or rights
  78              the settings are wrong
  128 + N         signal N ended the wait";

/// Those of `renew` and `release`.
pub(crate) const EXIT_CODES_OF_LEASES: &str = "\
Exit codes:
  0               it is done
  64              the arguments make no sense
  69              too few nodes answered
  70              a bug, or a system that refuses what it needs
  77              the nodes refused user, password or rights
  78              the settings are wrong
  79              the lease is over";

/// Those of `ls` and `show`.
pub(crate) const EXIT_CODES_OF_LOOKS: &str = "\
Exit codes:
  0               it is shown
  64              the arguments make no sense
  69              too few nodes answered
  70              a bug, or a system that refuses what it needs
  74              what it has to say could not be written
  77              the nodes refused user, password or rights
  78              the settings are wrong";

/// Those of `nodes`.
pub(crate) const EXIT_CODES_OF_NODES: &str = "\
Exit codes:
  0               it is done
  64              the arguments make no sense
  65              it would not be safe, is done already, or there is no restart guard
  69              too few nodes answered, or no majority votes
  70              a bug, or a system that refuses what it needs
  74              what it has to say could not be written
  75              not yet: the same later
  78              the settings are wrong";

/// Those of `serve`.
pub(crate) const EXIT_CODES_OF_SERVE: &str = "\
Exit codes:
  0               the service was asked to stop, and stopped
  64              invalid arguments
  70              a bug, or the system refuses what the service needs
  78              invalid configuration, or the address is in use";

/// Those of what only writes a text.
pub(crate) const EXIT_CODES_OF_TEXTS: &str = "\
Exit codes:
  0               it is written
  64              the arguments make no sense
  74              it could not be written
  78              the settings are wrong";
