//! Token files that change while the service runs.

use std::fs;

use quorate_testkit::eventually;
use rustix::process::Signal;

use crate::{
    fixture::{Instance, PATIENCE},
    raw::Raw,
    token_file::{self, Token},
};

fn is_accepted(instance: &Instance, token: &Token) -> bool {
    let response = instance.send("GET", "/v1/locks", &token.auth(), None);
    assert!([200, 401].contains(&response.status), "{response:?}");
    response.status == 200
}

#[test]
fn changed_token_file_is_read_without_a_signal() {
    let (fixture, [old]) = token_file::start([&["old"]], &[]);
    let fresh = Token::new(&fixture, &["fresh"]);
    let instance = fixture.any();
    assert!(is_accepted(instance, &old) && !is_accepted(instance, &fresh));
    token_file::write(&fixture, &fresh.entry);
    eventually("the new token is accepted", PATIENCE, || is_accepted(instance, &fresh));
    assert!(!is_accepted(instance, &old), "revoked");
}

#[test]
fn hangup_reads_the_tokens_at_once() {
    let (fixture, [old]) = token_file::start([&["old"]], &[]);
    let fresh = Token::new(&fixture, &["fresh"]);
    let instance = fixture.any();
    token_file::write(&fixture, &fresh.entry);
    instance.signal(Signal::HUP);
    eventually("the new token is accepted", PATIENCE, || is_accepted(instance, &fresh));
    assert!(!is_accepted(instance, &old), "revoked");
    // A signal without a change does not end the service.
    instance.signal(Signal::HUP);
    let reloads = || instance.stderr().matches("reloaded the tokens").count();
    eventually("it reads the file again", PATIENCE, || reloads() >= 2);
    assert!(is_accepted(instance, &fresh));
}

#[test]
fn broken_token_file_leaves_the_old_tokens_in_force() {
    let (fixture, [old]) = token_file::start([&["old"]], &[]);
    let instance = fixture.any();
    let secret = &old.secret;
    let broken = [
        format!("{secret}\n"),
        format!("[[token]]\n{secret} = 1\n"),
        format!("[[token]]\nname = \"a\"\nsha256 = \"b\"\nscopes = [\"{secret}\"]\n"),
        format!("{}sha256 = \"{secret}\"\n", old.entry),
        String::new(),
        "\0\u{7f}".to_owned(),
    ];
    let complaints = || instance.stderr().matches("keeping the current tokens").count();
    for text in &broken {
        let before = complaints();
        token_file::write(&fixture, text);
        instance.signal(Signal::HUP);
        eventually("it complains", PATIENCE, || complaints() > before);
        assert!(is_accepted(instance, &old));
    }
    let before = complaints();
    fs::remove_file(fixture.path("tokens.toml")).expect("it is there");
    instance.signal(Signal::HUP);
    eventually("it complains", PATIENCE, || complaints() > before);
    assert!(is_accepted(instance, &old));
    let stderr = instance.stderr();
    assert!(!stderr.contains(&secret[3..15]), "{stderr}");
    assert!(stderr.contains("tokens.toml: line 1: "), "{stderr}");
    token_file::write(&fixture, &old.entry);
    eventually("the file is good again", PATIENCE, || {
        stderr.len() < instance.stderr().len()
            && instance.stderr().ends_with("reloaded the tokens\n")
    });
}

#[test]
fn token_expires_while_the_service_runs() {
    let (fixture, [old]) = token_file::start([&["old"]], &[]);
    let instance = fixture.any();
    let soon = std::time::SystemTime::now() + std::time::Duration::from_secs(2);
    let seconds = soon.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let date = std::process::Command::new("date")
        .args(["-u", "-d", &format!("@{seconds}"), "+%Y-%m-%dT%H:%M:%SZ"])
        .output()
        .expect("date runs");
    let date = String::from_utf8(date.stdout).expect("text");
    let short = Token::new(&fixture, &["short", "--expires", date.trim()]);
    token_file::write(&fixture, &format!("{}{}", old.entry, short.entry));
    instance.signal(Signal::HUP);
    eventually("the file is read", PATIENCE, || instance.stderr().contains("reloaded the tokens"));
    eventually("it expires", PATIENCE, || !is_accepted(instance, &short));
    let response = instance.send("GET", "/v1/locks", &short.auth(), None);
    assert!(response.body["detail"].as_str().is_some_and(|it| it.contains("expired")));
    assert!(is_accepted(instance, &old));
}

#[test]
fn removed_token_loses_its_stream_of_events() {
    let (fixture, [old]) = token_file::start([&["old"]], &[]);
    let fresh = Token::new(&fixture, &["fresh"]);
    let instance = fixture.any();
    let mut stream = Raw::connect(instance);
    let [(name, value)] = old.auth();
    stream.send(format!("GET /v1/events HTTP/1.1\r\nHost: localhost\r\n{name}: {value}\r\n\r\n"));
    stream.read_until("snapshot");
    token_file::write(&fixture, &fresh.entry);
    eventually("the new token is accepted", PATIENCE, || is_accepted(instance, &fresh));
    let request = serde_json::json!({ "who": "later" });
    instance.acquire_with("secret", &fresh.auth(), &request).assert_status(200);
    let rest = stream.read_to_end();
    assert!(!rest.contains("later") && !rest.contains("secret"), "{rest}");
}
