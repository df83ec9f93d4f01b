//! The files of the service: tokens and certificates, read again when they change.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use quorate_server::{Access, listen::Tls};
use tokio::signal::unix::Signal;

use super::Serve;
use crate::{
    exit::{CONFIG, Failure},
    reporter::Reporter,
};

/// Who may use the service, and its certificate.
pub(super) struct Files {
    pub(super) access: Access,
    pub(super) tls: Option<Tls>,
    tokens: Option<PathBuf>,
    /// What the files looked like before they were read.
    seen: Vec<Option<Stamp>>,
}

impl Files {
    pub(super) fn load(serve: &Serve) -> Result<Self, Failure> {
        let wrong = |error: &dyn std::fmt::Display| Failure::new(CONFIG, error.to_string());
        // Before reading: a file that changes while it is read is read again.
        let paths = [&serve.tokens, &serve.tls_cert, &serve.tls_key, &serve.tls_client_ca];
        let seen = stamps(paths.into_iter().flatten().map(PathBuf::as_path));
        let access = match &serve.tokens {
            Some(path) => Access::tokens(path).map_err(|error| wrong(&error))?,
            // Web pages whose names resolve to this address are rejected by host name, or by the
            // certificate.
            None if serve.listen.ip().is_loopback() && serve.tls_cert.is_none() => Access::local(),
            None => Access::open(),
        };
        let tls = match (&serve.tls_cert, &serve.tls_key) {
            (Some(certificate), Some(key)) => {
                let client_ca = serve.tls_client_ca.clone();
                Some(Tls::load(certificate, key, client_ca).map_err(|error| wrong(&error))?)
            }
            _ => None,
        };
        Ok(Self { access, tls, tokens: serve.tokens.clone(), seen })
    }

    /// Warns of files with secrets that other users can read: a program with the key of the
    /// certificate can pose as the service.
    pub(super) fn warn(&self, serve: &Serve, reporter: &Reporter) {
        for path in self.tokens.iter().chain(&serve.tls_key) {
            if fs::metadata(path).is_ok_and(|it| it.permissions().mode() & OTHERS_READ != 0) {
                let path = path.display();
                reporter.warn(&format!("other users can read {path}: use chmod o-r {path}"));
            }
        }
    }

    /// Reads the files again when they change, and on SIGHUP. Never returns.
    pub(super) async fn reload_on_change(self, mut hangup: Signal, reporter: Reporter) {
        let mut seen = self.seen.clone();
        loop {
            let is_asked = tokio::select! {
                _ = hangup.recv() => true,
                () = tokio::time::sleep(RELOAD_CHECK_EVERY) => false,
            };
            let now = self.stamps();
            if is_asked || now != seen {
                self.reload(&reporter);
                seen = now;
            }
        }
    }

    /// If a file is invalid, the previous contents stay in force.
    fn reload(&self, reporter: &Reporter) {
        if let Some(path) = &self.tokens {
            match self.access.reload(path) {
                Ok(()) => reporter.warn("reloaded the tokens"),
                Err(error) => reporter.error(&format!("keeping the current tokens: {error}")),
            }
        }
        if let Some(tls) = &self.tls {
            match tls.reload() {
                Ok(()) => reporter.warn("reloaded the certificate"),
                Err(error) => reporter.error(&format!("keeping the current certificate: {error}")),
            }
        }
    }

    fn stamps(&self) -> Vec<Option<Stamp>> {
        let certificates = self.tls.iter().flat_map(Tls::files);
        let tokens = self.tokens.as_deref().into_iter();
        stamps(tokens.chain(certificates))
    }
}

/// Changes when a file is written or replaced.
type Stamp = (SystemTime, u64, u64);

fn stamps<'a>(paths: impl Iterator<Item = &'a Path>) -> Vec<Option<Stamp>> {
    paths.map(|path| stamp(path).ok()).collect()
}

fn stamp(path: &Path) -> io::Result<Stamp> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.modified()?, metadata.len(), metadata.ino()))
}

/// The read permission of other users.
const OTHERS_READ: u32 = 0o004;

const RELOAD_CHECK_EVERY: Duration = Duration::from_secs(2);
