//! TLS connections: trusted certificates and the client's certificate.

use std::{
    fmt, io,
    sync::Arc,
    time::{Duration, SystemTime},
};

use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, CertificateError, ClientConfig, RootCertStore,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
    },
};

use super::certificate::expiry;
use crate::error::NodeError;

/// The servers to trust over TLS, and the certificate of the client.
///
/// It applies to nodes with a `rediss://` address. The server's certificate must contain the name
/// or address in the URL. This check cannot be disabled.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use quorate::{Client, Tls};
///
/// let tls = Tls::new().ca_pem(std::fs::read("ca.pem")?);
/// let client = Client::builder().nodes(["rediss://10.0.0.1:6380"]).tls(tls).connect().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
#[must_use = "it does nothing until it is given to a builder"]
pub struct Tls {
    ca_pem: Option<Vec<u8>>,
    identity_pem: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    /// Trusts the certificates that the operating system trusts. Presents no client certificate.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # use quorate::{Client, Tls};
    /// // The same as without `tls`.
    /// let settings = Client::builder().nodes(["rediss://redis.example.com"]).tls(Tls::new());
    /// # Ok(()) }
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts only these certificates, in PEM form.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// let tls = quorate::Tls::new().ca_pem(std::fs::read("ca.pem")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca_pem = Some(pem.into());
        self
    }

    /// Presents this certificate (with its chain) to servers that request one. Both are in PEM
    /// form.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// let (chain, key) = (std::fs::read("client.pem")?, std::fs::read("client.key")?);
    /// let tls = quorate::Tls::new().identity_pem(chain, key);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn identity_pem(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.identity_pem = Some((chain.into(), key.into()));
        self
    }

    /// When the first certificate of the identity expires.
    pub(crate) fn identity_ends(&self) -> Option<SystemTime> {
        let (chain, _) = self.identity_pem.as_ref()?;
        let chain = certificates(chain, "the certificate of the identity").ok()?;
        chain.iter().filter_map(|certificate| expiry(certificate)).min()
    }

    pub(crate) fn connector(&self) -> Result<Connector, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let config = match &self.ca_pem {
            None => config.with_platform_verifier().map_err(|error| error.to_string())?,
            Some(pem) => config.with_root_certificates(roots(pem)?),
        };
        let config = match &self.identity_pem {
            None => config.with_no_client_auth(),
            Some((chain, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|error| format!("the key of the identity: {error}"))?;
                let chain = certificates(chain, "the certificate of the identity")?;
                config
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| format!("the identity: {error}"))?
            }
        };
        Ok(Connector(TlsConnector::from(Arc::new(config))))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("own_ca", &self.ca_pem.is_some())
            .field("identity", &self.identity_pem.is_some())
            .finish()
    }
}

/// Opens TLS streams.
#[derive(Clone)]
pub(crate) struct Connector(TlsConnector);

impl Connector {
    /// Also returns when the first certificate of the server's chain expires.
    pub(crate) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, Option<SystemTime>), NodeError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| NodeError::Tls(format!("{host:?} cannot be in a certificate")))?;
        match timeout(HANDSHAKE_TIMEOUT, self.0.connect(name, stream)).await {
            Ok(Ok(stream)) => {
                let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
                let ends = chain.iter().filter_map(|certificate| expiry(certificate)).min();
                Ok((stream, ends))
            }
            Ok(Err(error)) => Err(node_error(&error)),
            // A plain server may wait for the end of a line that never comes.
            Err(_) => Err(NodeError::Tls("no answer; does the server speak TLS there?".into())),
        }
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

/// Describes a TLS error and what to do.
pub(crate) fn node_error(error: &io::Error) -> NodeError {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let text = match cause {
        None => return NodeError::ConnectionLost(error.to_string()),
        Some(rustls::Error::InvalidCertificate(problem)) => match problem {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the server's certificate has expired".into()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the server's certificate is for another name".into()
            }
            CertificateError::UnknownIssuer => {
                "the server's certificate is not signed by a trusted authority".into()
            }
            other => format!("the server's certificate is invalid: {other:?}"),
        },
        Some(rustls::Error::InvalidMessage(_)) => {
            "the server does not speak TLS there; for a plain connection write redis://".into()
        }
        Some(rustls::Error::AlertReceived(alert)) => {
            format!("the server refused: {alert:?}; it may want a client certificate")
        }
        Some(other) => other.to_string(),
    };
    NodeError::Tls(text)
}

fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, "the CA")? {
        roots.add(certificate).map_err(|error| format!("the CA: {error}"))?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| format!("{what}: {error}"))?;
    if found.is_empty() { Err(format!("{what}: it contains no certificate")) } else { Ok(found) }
}

/// Shorter than the limit for connecting and attaching, so that the error names TLS as the cause.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(750);
