//! TLS, with certificates that can be reloaded.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use thiserror::Error;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::aws_lc_rs::default_provider,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::WebPkiClientVerifier,
        version::{TLS12, TLS13},
    },
};

/// The certificate of a service, and the authority of client certificates, if they are required.
#[derive(Clone, Debug)]
pub struct Tls {
    files: Files,
    config: Arc<RwLock<Arc<ServerConfig>>>,
}

#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

/// Why a certificate or a key is invalid.
#[derive(Debug, Error)]
#[error("cannot use {}: {what}", path.display())]
pub struct TlsError {
    path: PathBuf,
    what: String,
}

impl Tls {
    /// Reads the PEM files of the certificate chain and its key. With `client_ca` every client must
    /// have a certificate of that authority.
    ///
    /// # Errors
    ///
    /// [`TlsError`] describes what is wrong with which file.
    pub fn load(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        client_ca: Option<PathBuf>,
    ) -> Result<Self, TlsError> {
        let files = Files { certificate: certificate.into(), key: key.into(), client_ca };
        let config = Arc::new(RwLock::new(Arc::new(files.read()?)));
        Ok(Self { files, config })
    }

    /// Reads the files again, for new connections. If they are invalid, the previous ones stay in
    /// use.
    ///
    /// # Errors
    ///
    /// [`TlsError`] describes what is wrong with which file.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = Arc::new(self.files.read()?);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// True if clients must have a certificate.
    #[must_use]
    pub const fn asks_for_certificates(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// The files of the certificate, the key and the authority.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let Files { certificate, key, client_ca } = &self.files;
        [certificate, key].into_iter().chain(client_ca).map(PathBuf::as_path)
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone().into()
    }
}

impl Files {
    fn read(&self) -> Result<ServerConfig, TlsError> {
        let wrong = |path: &Path| {
            let path = path.to_owned();
            move |error: &dyn std::fmt::Display| TlsError { path, what: error.to_string() }
        };
        let chain = certificates(&self.certificate)?;
        let key =
            PrivateKeyDer::from_pem_file(&self.key).map_err(|error| wrong(&self.key)(&error))?;
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| wrong(&self.certificate)(&error))?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| wrong(path)(&error))?;
                }
                let provider = Arc::new(default_provider());
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .map_err(|error| wrong(path)(&error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| wrong(&self.certificate)(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |what: String| TlsError { path: path.to_owned(), what };
    let read = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
    let found: Result<Vec<_>, _> = read.collect();
    let found = found.map_err(|error| wrong(error.to_string()))?;
    match found.is_empty() {
        true => Err(wrong("there is no certificate in it".to_owned())),
        false => Ok(found),
    }
}
