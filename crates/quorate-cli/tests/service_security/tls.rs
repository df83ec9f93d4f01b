//! HTTPS: which clients are served, and what happens to connections that are not TLS.

use std::{fs, io::Write as _, net::TcpStream, sync::Arc};

use quorate_testkit::eventually;
use rustix::process::Signal;
use ureq::{
    Agent,
    tls::{RootCerts, TlsConfig},
};

use crate::{
    certificates::{Authority, Identity},
    fixture::{Fixture, Instance, PATIENCE},
    raw::Raw,
};

/// An instance with a certificate of `authority`, which may also be required to sign client
/// certificates.
fn start(authority: &Authority, args: &[&str]) -> Fixture {
    let mut fixture = Fixture::start(0, 0, &[]);
    let (certificate, key) = authority.server().write(&fixture, "server");
    authority.write(&fixture, "ca");
    let folder = fixture.path("").display().to_string();
    let args: Vec<String> = args.iter().map(|arg| arg.replace("{folder}", &folder)).collect();
    let args = args.iter().map(String::as_str);
    let tls = ["--tls-cert", &certificate, "--tls-key", &key];
    let args: Vec<&str> = tls.into_iter().chain(args).collect();
    fixture.add(&args);
    fixture
}

/// The response to a client that trusts this authority and presents this certificate.
fn get(instance: &Instance, trusts: &Authority, shows: Option<&Identity>) -> Result<u16, String> {
    let roots = RootCerts::Specific(Arc::new(vec![trusts.certificate()]));
    let tls = TlsConfig::builder().root_certs(roots);
    let tls = tls.client_cert(shows.map(Identity::for_client)).build();
    let config = Agent::config_builder().http_status_as_error(false).tls_config(tls);
    let agent: Agent = config.timeout_global(Some(PATIENCE)).build().into();
    let response = agent.get(format!("{}/v1/locks", instance.url)).call();
    response.map(|response| response.status().as_u16()).map_err(|error| error.to_string())
}

#[test]
fn https_is_served_and_plain_http_is_not() {
    let authority = Authority::new("authority");
    let fixture = start(&authority, &[]);
    let instance = fixture.any();
    assert!(instance.url.starts_with("https://"), "{}", instance.url);
    assert_eq!(get(instance, &authority, None), Ok(200));
    assert!(get(instance, &Authority::new("other"), None).is_err());
    let plain = Raw::exchange(instance, "GET /v1/locks HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(!plain.contains("HTTP/1.1"), "{plain}");
    assert_eq!(get(instance, &authority, None), Ok(200));
}

#[test]
fn only_clients_with_a_valid_certificate_are_served() {
    let (authority, other) = (Authority::new("authority"), Authority::new("other"));
    let fixture = start(&authority, &["--tls-client-ca", "{folder}/ca.pem"]);
    let instance = fixture.any();
    let client = authority.client();
    assert_eq!(get(instance, &authority, Some(&client)), Ok(200));
    let namesake = Authority::new("authority");
    let refused = [
        ("none", None),
        ("of another authority", Some(other.client())),
        ("of an authority with the same name", Some(namesake.client())),
        ("expired", Some(authority.expired_client())),
        ("self-signed", Some(Identity::self_signed_client())),
        ("for another use", Some(authority.other_use())),
    ];
    for (what, identity) in &refused {
        let got = get(instance, &authority, identity.as_ref());
        assert!(got.is_err(), "{what}: {got:?}");
    }
    assert_eq!(get(instance, &authority, Some(&client)), Ok(200));
}

#[test]
fn replaced_certificate_serves_new_connections() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let fixture = start(&old, &[]);
    let instance = fixture.any();
    assert_eq!(get(instance, &old, None), Ok(200));
    // Without a signal.
    new.server().write(&fixture, "server");
    eventually("the new certificate", PATIENCE, || get(instance, &new, None) == Ok(200));
    assert!(get(instance, &old, None).is_err());
    // With a signal.
    old.server().write(&fixture, "server");
    instance.signal(Signal::HUP);
    eventually("the old certificate", PATIENCE, || get(instance, &old, None) == Ok(200));
}

#[test]
fn broken_certificate_leaves_the_old_one_in_force() {
    let authority = Authority::new("authority");
    let fixture = start(&authority, &[]);
    let instance = fixture.any();
    let [certificate, key] = ["server.pem", "server.key"].map(|name| fixture.path(name));
    let good = fs::read_to_string(&certificate).expect("a file");
    let broken = [
        String::new(),
        "hunter2".to_owned(),
        good.replace("BEGIN", "BEGUN"),
        good[..good.len() / 2].to_owned(),
        // Valid, but of another key.
        authority.server().certificate,
    ];
    let complaints = || instance.stderr().matches("keeping the current certificate").count();
    for text in broken {
        let before = complaints();
        fs::write(&certificate, &text).expect("a file");
        instance.signal(Signal::HUP);
        let what = format!("it complains about a file like {:?}", &text[..text.len().min(30)]);
        eventually(&what, PATIENCE, || complaints() > before);
        assert_eq!(get(instance, &authority, None), Ok(200));
    }
    fs::remove_file(&key).expect("a file");
    fs::write(&certificate, good).expect("a file");
    let before = complaints();
    instance.signal(Signal::HUP);
    eventually("it complains", PATIENCE, || complaints() > before);
    assert_eq!(get(instance, &authority, None), Ok(200));
    let stderr = instance.stderr();
    assert!(stderr.contains("server.pem") && stderr.contains("server.key"), "{stderr}");
    assert!(!stderr.contains("hunter2") && !stderr.contains("BEGIN"), "{stderr}");
}

#[test]
fn certificates_at_the_start_must_be_whole() {
    let fixture = Fixture::start(0, 0, &[]);
    let authority = Authority::new("authority");
    let (certificate, key) = authority.server().write(&fixture, "server");
    let (_, other_key) = authority.server().write(&fixture, "other");
    let missing = fixture.path("missing").display().to_string();
    let cases = [
        (&missing, &key, &missing),
        (&certificate, &missing, &missing),
        (&certificate, &other_key, &certificate),
        (&key, &key, &key),
        (&certificate, &certificate, &certificate),
    ];
    for (certificate, key, blamed) in cases {
        let args = ["serve", "--listen", "127.0.0.1:0", "--tls-cert", certificate];
        let args = [&args[..], &["--tls-key", key]].concat();
        let (code, told) = crate::exposure::run_to_end(&mut fixture.quorate(&args));
        assert_eq!(code, Some(78), "{told}");
        assert!(told.contains(&**blamed) && !told.contains("BEGIN"), "{told}");
    }
}

/// The beginning of a TLS handshake: a record of 512 bytes, of which a few come.
const HALF_HELLO: [u8; 11] = [22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];

#[test]
fn broken_and_slow_handshakes_end_and_leave_nothing() {
    let authority = Authority::new("authority");
    let fixture = start(&authority, &["--max-head-time", "1s", "--max-connections", "8"]);
    let instance = fixture.any();
    let garbage: Vec<u8> = (0..40_000_u32).map(|it| (it * 31 % 251) as u8).collect();
    for bytes in [&garbage[..], b"\x16\x03\x01\xff\xff", b"\x80\x2e\x01", b"\0", &HALF_HELLO] {
        let answer = Raw::exchange(instance, bytes);
        assert!(!answer.contains("HTTP"), "{answer}");
    }
    // Each of these occupies a connection until the handshake times out.
    let mut slow: Vec<Raw> = (0..8).map(|_| Raw::connect(instance)).collect();
    for raw in &mut slow {
        raw.send(HALF_HELLO);
    }
    for raw in &mut slow {
        raw.read_to_end();
    }
    // A slow trickle of bytes does not extend the time.
    let mut trickle = TcpStream::connect(instance.address).expect("it listens");
    eventually("a trickle is cut off", PATIENCE, || {
        std::thread::park_timeout(std::time::Duration::from_millis(50));
        trickle.write_all(&[22]).is_err()
    });
    let is_served = || get(instance, &authority, None) == Ok(200);
    eventually("all connections are free again", PATIENCE, is_served);
}
