//! Certificates that are created during the test.

use std::{fs, os::unix::fs::PermissionsExt as _};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use ureq::tls::{Certificate, ClientCert, PrivateKey};

use crate::fixture::Fixture;

/// Signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

/// A certificate and its key, in PEM form.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = params();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// For the service.
    pub(crate) fn server(&self) -> Identity {
        self.sign(&params())
    }

    /// For a client.
    pub(crate) fn client(&self) -> Identity {
        self.sign(&client_params())
    }

    /// For a client whose certificate was valid once.
    pub(crate) fn expired_client(&self) -> Identity {
        let mut params = client_params();
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.sign(&params)
    }

    /// For something that is not a client.
    pub(crate) fn other_use(&self) -> Identity {
        let mut params = params();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Identity { certificate, key: key.serialize_pem() }
    }

    /// Writes the certificate of the authority, and returns the path.
    pub(crate) fn write(&self, fixture: &Fixture, name: &str) -> String {
        write(fixture, &format!("{name}.pem"), &self.pem)
    }

    pub(crate) fn certificate(&self) -> Certificate<'static> {
        Certificate::from_pem(self.pem.as_bytes()).expect("a certificate")
    }
}

impl Identity {
    /// A self-signed client certificate.
    pub(crate) fn self_signed_client() -> Self {
        let key = KeyPair::generate().expect("a key");
        let certificate = client_params().self_signed(&key).expect("a certificate").pem();
        Self { certificate, key: key.serialize_pem() }
    }

    /// Writes certificate and key, and returns their paths.
    pub(crate) fn write(&self, fixture: &Fixture, name: &str) -> (String, String) {
        let certificate = write(fixture, &format!("{name}.pem"), &self.certificate);
        (certificate, write(fixture, &format!("{name}.key"), &self.key))
    }

    pub(crate) fn for_client(&self) -> ClientCert {
        let certificate = Certificate::from_pem(self.certificate.as_bytes());
        let key = PrivateKey::from_pem(self.key.as_bytes()).expect("a key");
        ClientCert::new_with_certs(&[certificate.expect("a certificate")], key)
    }
}

fn write(fixture: &Fixture, name: &str, text: &str) -> String {
    let path = fixture.path(name);
    fs::write(&path, text).expect("a folder");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("our file");
    path.display().to_string()
}

fn params() -> CertificateParams {
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    CertificateParams::new(names).expect("the names are fine")
}

fn client_params() -> CertificateParams {
    let mut params = params();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}
