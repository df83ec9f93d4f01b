//! Certificates and keys that cannot be used, and secrets that are not shown.

use quorate::{Client, Tls, error::ConfigError};

use super::certificates::Authority;

#[test]
fn unreadable_certificate_is_an_error_of_the_settings() {
    let authority = Authority::new("ours");
    let (me, other) = (authority.client(), authority.client());
    let broken = me.certificate.replace("-----END CERTIFICATE-----", "");
    let cases = [
        (Tls::new().ca_pem(""), "the CA: it contains no certificate"),
        (Tls::new().ca_pem("garbage"), "the CA: it contains no certificate"),
        (Tls::new().ca_pem(me.key.clone()), "the CA: it contains no certificate"),
        (Tls::new().ca_pem(broken), "the CA: "),
        (authority.trusted().identity_pem("", me.key.clone()), "the certificate of the identity"),
        (authority.trusted().identity_pem(me.certificate.clone(), ""), "the key of the identity"),
        (authority.trusted().identity_pem(me.certificate, other.key), "the identity: "),
    ];
    for (tls, expected) in cases {
        let built =
            Client::builder().quarantine(false).nodes(["rediss://localhost"]).tls(tls).build();
        let Err(ConfigError::InvalidTls { reason }) = &built else {
            panic!("{expected}: {built:?}");
        };
        assert!(reason.contains(expected), "{reason}");
        let text = built.unwrap_err().to_string();
        assert!(text.starts_with("TLS: ") && text.contains(expected), "{text}");
    }
}

#[test]
fn certificates_are_not_read_if_no_address_asks_for_them() {
    let settings = Client::builder().tls(Tls::new().ca_pem("garbage"));
    assert!(settings.nodes(["redis://localhost"]).build().is_ok());
}

#[test]
fn no_secret_is_shown() {
    let authority = Authority::new("ours");
    let me = authority.client();
    let secret = me.key.lines().nth(1).unwrap().to_owned();
    let tls = authority.trusted().identity_pem(me.certificate, me.key);
    let builder = Client::builder()
        .quarantine(false)
        .nodes(["rediss://app:hunter2@localhost"])
        .tls(tls.clone());
    let shown = [format!("{tls:?}"), format!("{builder:?}"), format!("{:?}", builder.build())];
    for shown in shown {
        assert!(!shown.contains(&secret) && !shown.contains("PRIVATE"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    assert_eq!(format!("{tls:?}"), "Tls { own_ca: true, identity: true }");
}
