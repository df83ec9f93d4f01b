//! One server in each state that is a fault.

use std::time::Duration;

use quorate_testkit::{Server, redis::cmd};

use super::{examine, findings, finds, ids};
use crate::fixture::Fixture;

/// Sends a command to a server.
fn tell(server: &Server, words: &[&str]) {
    let (name, args) = words.split_first().expect("a command");
    cmd(name).arg(args).exec(&mut server.connection()).expect("it is accepted");
}

/// A fixture with three nodes that vote, and the address of the second.
fn three() -> (Fixture, String) {
    let fixture = Fixture::nodes(3);
    let address = fixture.servers[1].address();
    (fixture, address)
}

#[test]
fn replica_is_found() {
    let (fixture, address) = three();
    let master = Server::start();
    tell(&fixture.servers[1], &["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    let found = finds(&fixture, "role", &address, "it is a replica of 127.0.0.1");
    assert!(found.iter().all(|it| it.id == "quorum" || it.node.ends_with(&address)), "{found:?}");
}

#[test]
fn evicting_server_is_found() {
    let (fixture, address) = three();
    tell(&fixture.servers[1], &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let (_, json) = examine(&fixture, []);
    let found = findings(&json);
    assert_eq!(ids(&found), ["eviction"], "{found:?}");
    assert!(!found[0].is_error, "it has no limit yet: {found:?}");
    tell(&fixture.servers[1], &["CONFIG", "SET", "maxmemory", "100mb"]);
    let found = finds(&fixture, "eviction", &address, "allkeys-lru evicts locks");
    assert_eq!(ids(&found), ["eviction"], "{found:?}");
}

#[test]
fn one_server_under_two_addresses_is_found() {
    let mut fixture = Fixture::nodes(3);
    fixture.servers.truncate(2);
    let [first, second] = [0, 1].map(|at| fixture.servers[at].url());
    let alias = second.replace("127.0.0.1", "localhost");
    let args = ["--node", &first, "--node", &second, "--node", &alias];
    let (_, json) = examine(&fixture, args);
    let found = findings(&json);
    let twin = found.iter().find(|it| it.id == "same-server").expect("it is found");
    assert!(twin.is_error && twin.node.contains("localhost"), "{found:?}");
    assert!(twin.message.contains(&fixture.servers[1].address()), "{found:?}");
}

/// The other nodes are examined as if all were well.
#[test]
fn node_that_does_not_answer_is_found_and_delays_no_other() {
    let (fixture, address) = three();
    fixture.servers[1].pause();
    let found = finds(&fixture, "reachable", &address, "timed out");
    assert_eq!(ids(&found), ["reachable"], "{found:?}");
    let (_, json) = examine(&fixture, []);
    for (node, is_reached) in [(0, true), (1, false), (2, true)] {
        let round_trip = &json["nodes"][node]["round_trip_us"];
        assert_eq!(round_trip.is_u64(), is_reached, "{json:#}");
    }
    assert_eq!(json["quorum"]["may_fail"], 0);
    fixture.servers[1].resume();
    fixture.servers[1].kill();
    let found = finds(&fixture, "reachable", &address, "connection refused");
    assert_eq!(ids(&found), ["reachable"], "{found:?}");
    fixture.servers[0].kill();
    finds(&fixture, "quorum", "", "1 of 3 vote, 2 needed: no lock can be acquired");
}

#[test]
fn missing_right_is_found() {
    let servers = Server::start_many(3);
    for server in &servers {
        tell(server, &["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"]);
    }
    let fixture = Fixture::with(servers, "");
    fixture.exec(["nodes", "admit"]).assert_code(0);
    let urls: Vec<String> =
        fixture.servers.iter().map(|server| server.url_with("app", "secret", 0)).collect();
    let args = || urls.iter().flat_map(|url| ["--node", url]);
    let (_, json) = examine(&fixture, args());
    assert_eq!(findings(&json).len(), 0, "{json:#}");

    let server = &fixture.servers[1];
    let of_denials = ["ACL", "LOG"];
    for (rule, id, text) in [
        ("-zpopmin", "rights", "the user may not call zpopmin"),
        ("-eval", "rights", "'eval'"),
        ("-info", "rights", "'info'"),
        ("resetchannels", "rights", "subscribe, publish with "),
        ("resetkeys", "rights", "no permission: "),
        (">other", "login", ""),
    ] {
        tell(server, &["ACL", "SETUSER", "app", rule]);
        if rule == ">other" {
            tell(server, &["ACL", "SETUSER", "app", "<secret"]);
        }
        tell(server, &["ACL", "LOG", "RESET"]);
        let (ended, json) = examine(&fixture, args());
        let found = findings(&json);
        let found_it =
            |it: &&super::Finding| it.is_error && it.id == id && it.message.contains(text);
        let finding = found.iter().find(found_it);
        let finding = finding.unwrap_or_else(|| panic!("{rule}: {found:?}"));
        assert!(finding.node.ends_with(&server.address()), "{rule}: {found:?}");
        assert!(!ended.out().contains("secret"), "no password: {ended:?}");
        if rule == "-zpopmin" {
            assert!(finding.remedy.contains("+zpopmin "), "{found:?}");
            let log: Vec<quorate_testkit::redis::Value> = cmd(of_denials[0])
                .arg(of_denials[1])
                .query(&mut server.connection())
                .expect("a log");
            assert!(log.is_empty(), "reading rights is not an attempt: {log:?}");
        }
        tell(server, &["ACL", "SETUSER", "app", "on", "resetpass", ">secret", "+@all"]);
        tell(server, &["ACL", "SETUSER", "app", "allkeys", "allchannels"]);
    }
}

#[test]
fn stepped_clock_is_found() {
    let servers = Server::builder().own_clock().start_many(3);
    let fixture = Fixture::with(servers, "");
    fixture.exec(["nodes", "admit"]).assert_code(0);
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
    let clock = fixture.servers[1].clock();
    let address = fixture.servers[1].address();
    clock.forward(Duration::from_secs(60));
    let found = finds(&fixture, "clock-step", &address, "its clock was set forward by ");
    assert!(found.iter().any(|it| it.id == "clock-offset" && it.message.contains("ahead of")));
    assert!(found.iter().any(|it| it.id == "quarantine" && it.node.ends_with(&address)));
    clock.back(Duration::from_secs(90));
    finds(&fixture, "clock-offset", &address, "behind this machine's");
    finds(&fixture, "clock-step", &address, "set back by ");
    clock.forward(Duration::from_secs(30));
    clock.stop();
    finds(&fixture, "clock-rate", &address, "its clock stands still");
}

#[test]
fn quarantined_node_is_found() {
    let (fixture, address) = three();
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
    fixture.servers[1].flush_all();
    let found = finds(&fixture, "quarantine", &address, " more: it knows nothing of earlier locks");
    assert_eq!(ids(&found), ["quarantine"], "{found:?}");
    assert!(found.iter().all(|it| !it.remedy.contains("admit")), "it is refused: {found:?}");
    fixture.exec(["nodes", "admit"]).assert_code(65);
}

#[test]
fn new_servers_are_found_with_the_command_that_admits_them() {
    let fixture = Fixture::with(Server::start_many(3), "");
    let (_, json) = examine(&fixture, []);
    let found = findings(&json);
    let new: Vec<_> = found.iter().filter(|it| it.id == "quarantine").collect();
    assert!(new.len() == 3 && new.iter().all(|it| it.remedy.contains("nodes admit")), "{found:?}");
    fixture.exec(["nodes", "admit"]).assert_code(0);
    let (_, json) = examine(&fixture, []);
    assert_eq!(findings(&json).len(), 0, "{json:#}");
}

#[test]
fn disagreement_about_the_set_is_found() {
    let (fixture, address) = three();
    let (_, json) = examine(&fixture, ["--max-ttl", "30s"]);
    let found = findings(&json);
    assert_eq!(ids(&found), ["membership"; 3], "{found:?}");
    assert!(found[0].message.starts_with("disagreement: "), "{found:?}");
    // A client without quarantine would use nodes that have forgotten locks.
    fixture.write("off.toml", "quarantine = false\n");
    let (_, json) = examine(&fixture, ["--config", "off.toml"]);
    let found = findings(&json);
    assert!(
        found.iter().filter(|it| it.id == "membership" && it.is_error).count() == 3,
        "{found:?}"
    );
    tell(&fixture.servers[1], &["HSET", "quorate:node", "since", "x", "seen", "x"]);
    finds(&fixture, "membership", &address, "is damaged");
}

#[test]
fn full_memory_is_found() {
    let (fixture, address) = three();
    tell(&fixture.servers[1], &["CONFIG", "SET", "maxmemory", "1mb"]);
    let found = finds(&fixture, "memory", &address, "memory is full (1.00M)");
    assert_eq!(ids(&found), ["memory"], "{found:?}");
}

#[test]
fn slow_call_and_busy_server_are_found() {
    let servers = Server::builder().config("enable-debug-command", "local").start_many(3);
    let fixture = Fixture::with(servers, "");
    fixture.exec(["nodes", "admit"]).assert_code(0);
    let (server, address) = (&fixture.servers[1], fixture.servers[1].address());
    tell(server, &["DEBUG", "SLEEP", "0.2"]);
    let (_, json) = examine(&fixture, []);
    let found = findings(&json);
    assert_eq!(ids(&found), ["slow-scripts"], "{found:?}");
    assert!(!found[0].is_error && found[0].message.starts_with("DEBUG blocked"), "{found:?}");
    tell(server, &["CONFIG", "SET", "busy-reply-threshold", "10"]);
    let mut connection = server.connection();
    let endless = std::thread::spawn(move || {
        cmd("EVAL").arg("while true do end").arg(0).exec(&mut connection)
    });
    // While the server is busy, it answers a ping with an error.
    fixture
        .await_that("the server is busy", || cmd("PING").exec(&mut server.connection()).is_err());
    finds(&fixture, "slow-scripts", &address, "busy with a script");
    tell(server, &["SCRIPT", "KILL"]);
    endless.join().expect("no panic").expect_err("it was killed");
}
