//! Which addresses are served without authentication.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use quorate_testkit::eventually;

use crate::{
    certificates::Authority,
    fixture::{Fixture, Instance, PATIENCE},
    token_file::{self, Token},
};

/// Runs a command that ends by itself, and returns its exit code and standard error.
#[track_caller]
pub(crate) fn run_to_end(command: &mut Command) -> (Option<i32>, String) {
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it runs");
    let mut ended = None;
    let deadline = std::time::Instant::now() + PATIENCE;
    while ended.is_none() && std::time::Instant::now() < deadline {
        ended = child.try_wait().expect("it is ours");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    // The process may have ended.
    let _ = child.kill();
    let output = child.wait_with_output().expect("it is ours");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(ended.is_some(), "it goes on: {told}");
    (output.status.code(), told)
}

#[test]
fn default_address_is_loopback() {
    let fixture = Fixture::start(0, 0, &[]);
    let mut child = fixture.quorate(&["serve"]).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut told = String::new();
    let mut stderr = std::io::BufReader::new(child.stderr.take().expect("a pipe"));
    // The port may be in use on this machine. The message contains the address in either case.
    while !told.contains("listen") && std::io::BufRead::read_line(&mut stderr, &mut told).is_ok() {}
    child.kill().and_then(|()| child.wait()).expect("it is ours");
    assert!(told.contains("127.0.0.1:8420"), "{told}");
}

#[test]
fn public_address_without_authentication_is_refused() {
    let fixture = Fixture::start(0, 0, &[]);
    for address in ["0.0.0.0:0", "[::]:0"] {
        let (code, told) = run_to_end(&mut fixture.quorate(&["serve", "--listen", address]));
        assert_eq!(code, Some(78), "{told}");
        for part in [address, "without authentication", "--tokens", "--tls-client-ca"] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}

#[test]
fn certificate_alone_does_not_open_a_public_address() {
    let fixture = Fixture::start(0, 0, &[]);
    let authority = Authority::new("authority");
    let tls = authority.server().write(&fixture, "server");
    let args = ["serve", "--listen", "0.0.0.0:0", "--tls-cert", &tls.0, "--tls-key", &tls.1];
    let (code, told) = run_to_end(&mut fixture.quorate(&args));
    assert_eq!(code, Some(78), "{told}");
    assert!(told.contains("without authentication"), "{told}");
}

#[test]
fn each_kind_of_authentication_opens_a_public_address() {
    let fixture = Fixture::start(0, 0, &[]);
    let token = Token::new(&fixture, &["ci"]);
    let tokens = token_file::write(&fixture, &token.entry).display().to_string();
    let authority = Authority::new("authority");
    let ca = authority.write(&fixture, "ca");
    let (certificate, key) = authority.server().write(&fixture, "server");
    let all: [&[&str]; 3] = [
        &["--tokens", &tokens],
        &["--insecure-no-auth"],
        &["--tls-cert", &certificate, "--tls-key", &key, "--tls-client-ca", &ca],
    ];
    for args in all {
        let args = [&["serve", "--listen", "0.0.0.0:0"], args].concat();
        let instance = Instance::start(&mut fixture.quorate(&args));
        assert!(instance.url.contains("://0.0.0.0:"), "{}", instance.url);
    }
}

#[test]
fn broken_files_at_the_start_are_reported_with_file_and_line() {
    let fixture = Fixture::start(0, 0, &[]);
    let token = Token::new(&fixture, &["ci"]);
    let (secret, missing) = (&token.secret, fixture.path("missing").display().to_string());
    let cases = [
        (format!("[[token]]\nname = \"ci\"\nsha256 = \"{secret}\"\nscopes = [\"lock\"]"), "line 1"),
        (format!("{}\ntoken = {secret}\n", token.entry), "line 6"),
        (format!("\n\n{secret}"), "line 3"),
        (String::new(), "no [[token]]"),
    ];
    for (text, place) in cases {
        let path = token_file::write(&fixture, &text).display().to_string();
        let args = ["serve", "--listen", "127.0.0.1:0", "--tokens", &path];
        let (code, told) = run_to_end(&mut fixture.quorate(&args));
        assert_eq!(code, Some(78), "{told}");
        assert!(told.contains(&path) && told.contains(place), "{place}: {told}");
        assert!(!told.contains(&secret[..12]), "{told}");
    }
    let (code, told) = run_to_end(&mut fixture.quorate(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--tokens",
        &missing,
    ]));
    assert_eq!(code, Some(78), "{told}");
    assert!(told.contains(&missing), "{told}");
}

#[test]
fn files_that_other_users_can_read_cause_a_warning() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut fixture = Fixture::start(0, 0, &[]);
    let token = Token::new(&fixture, &["ci"]);
    let path = token_file::write(&fixture, &token.entry);
    let text = path.display().to_string();
    for (mode, is_warned) in [(0o600, false), (0o640, false), (0o644, true)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("our file");
        let instance = fixture.add(&["--tokens", &text]);
        let warning = format!("other users can read {text}");
        if is_warned {
            eventually("a warning", PATIENCE, || instance.stderr().contains(&warning));
        } else {
            assert!(!instance.stderr().contains("other users"), "{}", instance.stderr());
        }
    }
}

/// A browser sends requests of any page to this machine, with the origin of the page.
#[test]
fn web_pages_of_other_origins_cannot_use_a_service_without_tokens() {
    let fixture = Fixture::start(0, 1, &[]);
    let instance = fixture.any();
    for origin in ["https://evil.example", "http://127.0.0.1:1", "null"] {
        let sent = instance.acquire_with("a", &[("Origin", origin)], &serde_json::json!({}));
        sent.assert_problem(403, "forbidden");
    }
    let own = format!("http://{}", instance.address);
    let sent = instance.acquire_with("a", &[("Origin", &own)], &serde_json::json!({}));
    sent.assert_status(200);
}

/// A page of evil.example can point that name at this machine, and then has the same origin.
#[test]
fn domain_names_of_others_cannot_lead_to_a_service_without_tokens() {
    let fixture = Fixture::start(0, 1, &[]);
    let instance = fixture.any();
    let port = instance.address.port();
    for host in ["evil.example".to_owned(), format!("evil.example:{port}")] {
        let origin = format!("http://{host}");
        let headers = [("Host", &*host), ("Origin", &*origin)];
        let sent = instance.acquire_with("a", &headers, &serde_json::json!({}));
        sent.assert_problem(403, "forbidden");
        instance
            .send("GET", "/v1/locks", &[("Host", &*host)], None)
            .assert_problem(403, "forbidden");
    }
    for host in ["localhost".to_owned(), format!("LocalHost:{port}"), format!("[::1]:{port}")] {
        instance.send("GET", "/v1/locks", &[("Host", &*host)], None).assert_status(200);
    }
}

#[test]
fn web_pages_with_a_token_can_use_the_service() {
    let (fixture, [token]) = token_file::start([&["web"]], &[]);
    let mut headers = token.auth().to_vec();
    headers.push(("Origin", "https://dashboard.example"));
    fixture.any().acquire_with("a", &headers, &serde_json::json!({})).assert_status(200);
}
