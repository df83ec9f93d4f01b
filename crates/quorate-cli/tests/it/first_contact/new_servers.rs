//! Three new servers: each subcommand says what is happening, how long it takes and what ends it.

use std::process::Command;

use quorate_testkit::{Server, redis::cmd};
use rustix::process::Signal;

use crate::fixture::{Fixture, Running};

const SENTENCE: &str = "all 3 nodes are in quarantine for ";
/// Settings with which no quarantine ends during a test.
const LONG_QUARANTINE: &str = "max_ttl = \"1h\"\n";

const REMEDY: &str = "if they are new, `quorate nodes admit` lets them vote at once";

#[test]
fn new_servers_are_explained_by_every_subcommand() {
    let lease = Fixture::one().exec(["acquire", "x"]).assert_code(0).out().trim_end().to_owned();
    let fixture = Fixture::with(Server::start_many(3), LONG_QUARANTINE);
    for args in [
        &["run", "-n", "x", "true"][..],
        &["run", "-n", "-s", "x", "true"],
        &["run", "-n", "--permits", "2", "x", "true"],
        &["run", "-n", "-l", "a", "b", "true"],
        &["run", "-w", "0.2", "x", "true"],
        &["acquire", "-n", "x"],
        &["renew", &lease],
        &["release", &lease],
        &["ls"],
        &["show", "x"],
        &["nodes", "show"],
    ] {
        let ended = fixture.exec(args.iter().copied()).assert_code(69);
        assert_eq!(ended.err().matches(SENTENCE).count(), 1, "{args:?}: {ended:?}");
        assert_eq!(ended.err().matches(REMEDY).count(), 1, "{args:?}: {ended:?}");
    }
    fixture.exec(["nodes", "admit"]).assert_code(0);
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
}

#[test]
fn service_explains_new_servers_when_it_starts() {
    let fixture = Fixture::with(Server::start_many(3), "");
    let mut command = Command::new("sh");
    fixture.prepare(&mut command);
    let quorate = env!("CARGO_BIN_EXE_quorate");
    let line = format!("exec {quorate} serve --listen 127.0.0.1:0 2> log");
    let service = Running::start(command.args(["-c", &line]));
    let is_explained = |log: &str| log.contains(SENTENCE) && log.contains(REMEDY);
    fixture.await_that("the service explains it", || is_explained(&fixture.read("log")));
    service.signal(Signal::TERM);
    service.close().assert_code(0);
}

/// A key that is no lock, and a server that is down: `admit` refuses both.
#[test]
fn admission_is_suggested_only_where_it_succeeds() {
    let fixture = Fixture::with(Server::start_many(3), LONG_QUARANTINE);
    let server = &fixture.servers[1];
    let check = |code: i32| {
        for args in [
            &["run", "-n", "x", "true"][..],
            &["run", "-w", "1", "x", "true"],
            &["acquire", "-n", "x"],
            &["show", "x"],
            &["nodes", "show"],
        ] {
            let ended = fixture.exec(args.iter().copied()).assert_code(69);
            assert!(!ended.err().contains("nodes admit"), "{args:?}: {ended:?}");
            assert!(ended.err().contains("in quarantine for "), "{args:?}: {ended:?}");
        }
        fixture.exec(["nodes", "admit"]).assert_code(code);
    };
    cmd("SET").arg("a").arg("b").exec(&mut server.connection()).expect("it is stored");
    check(65);
    server.flush_all();
    server.kill();
    check(69);
    server.restart();
    fixture.exec(["nodes", "admit"]).assert_code(0);
}

/// One of three nodes has lost its data, and another one is down. Only the time helps.
#[test]
fn end_of_a_quarantine_is_reported_without_a_command() {
    let fixture = Fixture::nodes(3);
    fixture.servers[1].flush_all();
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
    fixture.servers[2].kill();
    let ended = fixture.run(["-n", "x", "true"]).assert_code(69);
    assert!(!ended.err().contains("nodes admit"), "{ended:?}");
    ended.assert_stderr("a majority of the nodes votes in ");
}
