//! `quorate doctor` on servers with TLS.

use std::{
    net::TcpListener,
    time::{Duration, SystemTime},
};

use quorate_testkit::Server;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::{examine, findings};
use crate::fixture::Fixture;

const DAY: Duration = Duration::from_secs(86_400);

/// A server whose certificate ends at this time, and the address that uses TLS.
fn secured(ends: SystemTime) -> (Fixture, String) {
    let mut fixture = Fixture::with(Vec::new(), "tls_ca = \"ca.pem\"\n");
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    fixture.write("ca.pem", &params.self_signed(&key).expect("a certificate").pem());
    let issuer = Issuer::new(params, key);
    let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    params.not_after = ends.into();
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &issuer).expect("a certificate");
    fixture.write("server.pem", &certificate.pem());
    fixture.write("server.key", &key.serialize_pem());
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let path = |name| fixture.path(name).display().to_string();
    let server = Server::builder()
        .append_only()
        .config("tls-port", port.to_string())
        .config("tls-cert-file", path("server.pem"))
        .config("tls-key-file", path("server.key"))
        .config("tls-ca-cert-file", path("ca.pem"))
        .config("tls-auth-clients", "no")
        .start();
    fixture.servers.push(server);
    (fixture, format!("rediss://localhost:{port}"))
}

#[test]
fn expiring_certificate_is_found() {
    let now = SystemTime::now();
    for (ends, expected, text) in [
        (now + 60 * DAY, None, ""),
        (now + 10 * DAY, Some(false), "the server's certificate expires in "),
        (now + DAY, Some(true), "the server's certificate expires in "),
        (now - DAY, Some(true), "the server's certificate has expired"),
    ] {
        let (fixture, url) = secured(ends);
        let (_, json) = examine(&fixture, ["--node", &url]);
        let found = findings(&json);
        let of_tls = found.iter().find(|it| it.id == "tls");
        assert_eq!(of_tls.map(|it| it.is_error), expected, "{found:?}");
        assert!(of_tls.is_none_or(|it| it.message.contains(text) && it.node == url), "{found:?}");
    }
}
