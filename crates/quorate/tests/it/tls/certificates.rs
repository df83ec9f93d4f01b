//! Certificates that are made when the test runs, and servers that show them.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    sync::atomic::{AtomicU32, Ordering},
};

use quorate::{Client, ClientBuilder, Tls};
use quorate_testkit::Server;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use tempfile::TempDir;

use crate::faults::fixture::PATIENCE;

/// Signs certificates.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) pem: String,
}

/// A certificate and its key, in PEM form.
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Authority {
    /// With a name of its own, by which clients first look up the signer of a certificate.
    pub(super) fn new(name: &str) -> Self {
        let mut params = params(&[]);
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// For a server with these names and addresses.
    pub(super) fn server(&self, names: &[&str]) -> Identity {
        self.sign(params(names))
    }

    /// For a server whose certificate has expired.
    pub(super) fn expired(&self, names: &[&str]) -> Identity {
        let mut params = params(names);
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.sign(params)
    }

    /// For a client.
    pub(super) fn client(&self) -> Identity {
        let mut params = params(&[]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Identity { certificate, key: key.serialize_pem() }
    }

    /// Trusts this authority and no other.
    pub(super) fn trusted(&self) -> Tls {
        Tls::new().ca_pem(self.pem.clone())
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).expect("the names are fine")
}

/// A server with TLS on one port, and plain text on the one that the testkit uses.
pub(super) struct SecureServer {
    pub(super) plain: Server,
    port: u16,
    _files: TempDir,
}

impl SecureServer {
    /// Shows `identity`, and asks clients for no certificate.
    pub(super) fn start(authority: &Authority, identity: &Identity) -> Self {
        Self::start_with(authority, identity, "no")
    }

    /// Shows `identity`, and wants a certificate of `authority` from clients.
    pub(super) fn start_strict(authority: &Authority, identity: &Identity) -> Self {
        Self::start_with(authority, identity, "yes")
    }

    fn start_with(authority: &Authority, identity: &Identity, auth_clients: &str) -> Self {
        let files = tempfile::tempdir().expect("a folder for certificates");
        let file = |name: &str, text: &str| {
            let path = files.path().join(name);
            fs::write(&path, text).expect("the file is written");
            path.display().to_string()
        };
        let port = free_port();
        let plain = Server::builder()
            .config("tls-port", port.to_string())
            .config("tls-cert-file", file("server.pem", &identity.certificate))
            .config("tls-key-file", file("server.key", &identity.key))
            .config("tls-ca-cert-file", file("ca.pem", &authority.pem))
            .config("tls-auth-clients", auth_clients)
            .start();
        Self { plain, port, _files: files }
    }

    pub(super) fn url(&self, scheme: &str, host: &str) -> String {
        format!("{scheme}://{host}:{}", self.port)
    }

    /// The settings of a client that connects to `localhost` by TLS.
    pub(super) fn client(&self, tls: Tls) -> ClientBuilder {
        let urls = [self.url("rediss", "localhost")];
        Client::builder().quarantine(false).nodes(urls).tls(tls).vote_timeout(PATIENCE)
    }
}

/// A port that the system does not give to other programs: it is below those.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(31);
    (0..1_000)
        .map(|_| start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000 + 20_000)
        .filter_map(|port| u16::try_from(port).ok())
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("a free port")
}
