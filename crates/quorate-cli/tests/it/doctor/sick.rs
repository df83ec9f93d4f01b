//! One server in each state that is a fault.

use std::time::Duration;

use quorate_testkit::{Server, redis::cmd};
use serde_json::Value;

use super::{all_findings, examine, examine_once, findings, finds, finds_in, ids};
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
    // Every other command exits with 78, so the headline counts no votes.
    let verdict = "no lock can be acquired: two addresses lead to one server, ";
    let quorum = found.iter().find(|it| it.id == "quorum").expect("it is an error");
    assert!(quorum.is_error && quorum.message.starts_with(verdict), "{found:?}");
    assert!(json["quorum"]["may_fail"].is_null(), "{json:#}");
    let text = fixture.exec(["doctor"].into_iter().chain(args)).assert_code(1);
    let headline = text.out().lines().next().unwrap_or_default();
    assert!(headline.contains(verdict) && !headline.contains(" vote"), "{headline}");
    fixture.run(["-n"].into_iter().chain(args).chain(["x", "true"])).assert_code(78);
}

/// The other nodes are examined as if all were well.
#[test]
fn node_that_does_not_answer_is_found_and_delays_no_other() {
    let (fixture, address) = three();
    fixture.servers[1].pause();
    let mut examined = examine_once(&fixture, &[]);
    let is_reached = |json: &Value, node: usize| json["nodes"][node]["round_trip_us"].is_u64();
    fixture.await_that("the others answer", || {
        let have_answered = [0, 2].iter().all(|node| is_reached(&examined.1, *node));
        if !have_answered {
            examined = examine_once(&fixture, &[]);
        }
        have_answered
    });
    assert!(!is_reached(&examined.1, 1), "{:#}", examined.1);
    assert_eq!(examined.1["quorum"]["may_fail"], 0);
    let found = finds_in(examined, "reachable", &address, "timed out");
    assert_eq!(ids(&found), ["reachable"], "{found:?}");
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
    for (rule, id, text, remedy) in [
        ("-zpopmin", "rights", "the user may not call zpopmin", "ACL SETUSER app +zpopmin "),
        ("-eval", "rights", "'eval'", "ACL SETUSER app +eval"),
        ("-info", "rights", "'info'", "ACL SETUSER app +info"),
        ("resetchannels", "rights", "subscribe, publish with ", " &quorate:c:*"),
        ("resetkeys", "rights", "no permission: ", "ACL SETUSER app ~quorate:*;"),
        (">other", "login", "", "correct user and password"),
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
        assert!(finding.remedy.contains(remedy), "{rule}: {found:?}");
        if rule == "-zpopmin" {
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

/// The set was changed on another host, and this one still has the old list.
#[test]
fn outdated_list_of_nodes_is_found_with_the_agreed_list() {
    let fixture = Fixture::nodes(3);
    let new = Server::start();
    fixture.servers[1].kill();
    let agreed = [fixture.servers[0].url(), fixture.servers[2].url(), new.url()];
    let list = agreed.join(",");
    fixture.exec(["nodes", "change", "--node", &list]).assert_code(0);
    let address = fixture.servers[1].address();
    // The replaced server is down, and then up again with its old record.
    for is_up in [false, true] {
        if is_up {
            fixture.servers[1].restart();
        }
        let found = finds(&fixture, "membership", &address, "it is not one of the agreed nodes");
        assert_eq!(ids(&found), ["membership"], "{found:?}");
        assert!(found[0].message.contains("(change 2): "), "{found:?}");
        let remedy = "update the list of nodes in $QUORATE_NODES: ";
        assert!(found[0].remedy.starts_with(remedy), "{found:?}");
        for url in &agreed {
            assert!(found[0].message.contains(url) && found[0].remedy.contains(url), "{found:?}");
        }
        let text = fixture.exec(["doctor"]).assert_code(1);
        assert!(!text.out().contains("start the server"), "{text:?}");
        assert!(text.out().contains(", not an agreed node"), "{text:?}");
    }
}

#[test]
fn full_memory_is_found() {
    let (fixture, address) = three();
    tell(&fixture.servers[1], &["CONFIG", "SET", "maxmemory", "1mb"]);
    let found = finds(&fixture, "memory", &address, "memory is full (1.00M)");
    assert_eq!(ids(&found), ["memory"], "{found:?}");
    let verdict = "3 of 3 vote, 2 needed; 1 is full and grants no new locks: no further failure";
    finds(&fixture, "quorum", "", verdict);
    let (_, json) = examine(&fixture, []);
    assert_eq!((&json["quorum"]["full"], &json["quorum"]["may_fail"]), (&1.into(), &0.into()));
    assert_eq!(json["nodes"][1]["is_full"], true, "{json:#}");
}

/// Every client loads its scripts when it connects.
#[test]
fn scripts_that_clients_load_are_not_slow_calls() {
    let fixture = Fixture::one();
    let server = &fixture.servers[0];
    let mut connection = server.connection();
    let slow_calls = || {
        let (_, json) = examine(&fixture, []);
        let found = all_findings(&json).into_iter().filter(|it| it.id == "slow-scripts");
        found.map(|it| it.message).collect::<Vec<String>>().concat()
    };
    for (client, is_found) in [("quorate-0a1b2c3d", false), ("app", true)] {
        cmd("CLIENT").arg("SETNAME").arg(client).exec(&mut connection).expect("a valid name");
        // A script that takes longer to compile than all calls that a busy machine delays.
        let mut len = 250_000;
        let is_slow = || {
            let log = cmd("SLOWLOG").arg("GET").arg(1).clone();
            let log: Vec<(u64, u64, u64, Vec<String>, String, String)> =
                log.query(&mut server.connection()).expect("a log");
            log.iter().any(|(_, _, took_us, words, _, name)| {
                *took_us >= 50_000 && words[0] == "SCRIPT" && name == client
            })
        };
        tell(server, &["SLOWLOG", "RESET"]);
        while !is_slow() {
            let text = "x=1\n".repeat(len);
            cmd("SCRIPT").arg("LOAD").arg(text).exec(&mut connection).expect("it is compiled");
            len *= 2;
        }
        assert_eq!(slow_calls().contains("SCRIPT blocked the server"), is_found, "{client}");
    }
}

#[test]
fn slow_call_and_busy_server_are_found() {
    let servers = Server::builder().config("enable-debug-command", "local").start_many(3);
    let fixture = Fixture::with(servers, "");
    fixture.exec(["nodes", "admit"]).assert_code(0);
    let (server, address) = (&fixture.servers[1], fixture.servers[1].address());
    tell(server, &["DEBUG", "SLEEP", "0.2"]);
    let (_, json) = examine(&fixture, []);
    let found = all_findings(&json);
    let is_it =
        |it: &super::Finding| it.id == "slow-scripts" && it.message.starts_with("DEBUG blocked");
    let slow = found.iter().find(|it| is_it(it)).unwrap_or_else(|| panic!("{found:?}"));
    assert!(!slow.is_error && slow.node.ends_with(&address), "{found:?}");
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
