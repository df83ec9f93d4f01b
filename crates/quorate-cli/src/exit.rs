//! How the command ends. The numbers are part of its interface.

use std::process::ExitCode;

use quorate::error::{AdmitError, ChangeError, ConfigError};

/// Why it did not do what it was told.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { code: USAGE, text: text.into() }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self { code: CONFIG, text: error.to_string() }
    }
}

impl From<AdmitError> for Failure {
    fn from(error: AdmitError) -> Self {
        let code = match error {
            AdmitError::NotEmpty { .. } | AdmitError::InUse { .. } | AdmitError::NotNew { .. } => {
                REFUSED
            }
            AdmitError::GuardIsOff => CONFIG,
            _ => UNAVAILABLE,
        };
        Self { code, text: error.to_string() }
    }
}

impl From<ChangeError> for Failure {
    fn from(error: ChangeError) -> Self {
        let code = match error {
            ChangeError::TooSoon { .. } | ChangeError::NotYet(_) => TRY_AGAIN,
            ChangeError::Impossible(_) => REFUSED,
            ChangeError::GuardIsOff => CONFIG,
            _ => UNAVAILABLE,
        };
        Self { code, text: error.to_string() }
    }
}

impl From<Failure> for ExitCode {
    fn from(failure: Failure) -> Self {
        failure.code.into()
    }
}

/// The arguments make no sense.
pub(crate) const USAGE: u8 = 64;

/// It would not be safe, or is done already.
pub(crate) const REFUSED: u8 = 65;

/// Too few nodes answered.
pub(crate) const UNAVAILABLE: u8 = 69;

/// A bug.
pub(crate) const SOFTWARE: u8 = 70;

/// Not yet: the same later.
pub(crate) const TRY_AGAIN: u8 = 75;

/// The settings are wrong.
pub(crate) const CONFIG: u8 = 78;
