//! How a verb ends when it does not end well.

use std::process::ExitCode;

/// What went wrong, and whose mistake it is.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line makes no sense.
    Usage(String),
    /// The verb ran and found something wrong.
    Failed(String),
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Usage(message) | Self::Failed(message) => message,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(EX_USAGE),
            Self::Failed(_) => ExitCode::FAILURE,
        }
    }
}

/// From sysexits.h, so that a caller can tell a typing mistake from a failed check.
const EX_USAGE: u8 = 64;
