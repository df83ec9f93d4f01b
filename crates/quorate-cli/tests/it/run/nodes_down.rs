//! A majority of the nodes is down: each subcommand reports this promptly, and names the nodes.

use quorate_testkit::{Fault, Proxy, Server};

use crate::fixture::{Ended, Fixture, Running};

#[test]
fn killed_nodes_are_named_and_the_healthy_one_is_attached() {
    let fixture = Fixture::nodes(3);
    let lease = fixture.exec(["acquire", "lease"]).assert_code(0).out().trim_end().to_owned();
    fixture.servers[1..].iter().for_each(Server::kill);
    check(&fixture, &urls(&fixture), &lease, "connection refused");
}

#[test]
fn stopped_nodes_are_named_and_the_healthy_one_is_attached() {
    let fixture = Fixture::nodes(3);
    let lease = fixture.exec(["acquire", "lease"]).assert_code(0).out().trim_end().to_owned();
    fixture.servers[1..].iter().for_each(Server::pause);
    check(&fixture, &urls(&fixture), &lease, "timed out");
    fixture.servers[1..].iter().for_each(Server::resume);
}

#[test]
fn unresponsive_nodes_are_named_and_the_healthy_one_is_attached() {
    let fixture = Fixture::without_servers();
    let servers = Server::start_many(3);
    let proxies: Vec<_> = servers.iter().map(|it| Proxy::start(&it.address())).collect();
    let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let nodes = |verb: &[&str]| -> Vec<String> {
        let (verb, rest) = verb.split_first().expect("a verb");
        let nodes = urls.iter().flat_map(|url| ["--node", url]);
        [*verb].into_iter().chain(nodes).chain(rest.iter().copied()).map(str::to_owned).collect()
    };
    let exec = |verb: &[&str]| fixture.exec(nodes(verb).iter().map(String::as_str));
    let mut admit = fixture.quorate(["nodes", "admit"]);
    let admit = admit.env("QUORATE_NODES", urls.join(","));
    Running::start(admit).close().assert_code(0);
    proxies[1..].iter().for_each(|proxy| proxy.set(Fault::BlackHole));
    for verb in [&["run", "-n", "x", "true"][..], &["acquire", "-n", "x"]] {
        check_one(exec(verb).assert_code(69), &urls, "timed out");
    }
}

/// The command has done its work, so its exit code is passed on.
#[test]
fn release_that_fails_is_reported_as_such() {
    let fixture = Fixture::one();
    let holder = fixture.hold_with(["--ttl", "60s", "x"], "holder");
    fixture.servers[0].kill();
    let ended = holder.close().assert_code(0);
    let url = fixture.servers[0].url();
    let text = "quorate: the release failed, so the lock expires after its ttl: no quorum for the \
                lock \"x\": ";
    assert!(ended.err().contains(&format!("{text}{url}: ")), "{ended:?}");
}

/// `-n` does not wait for unreachable nodes: it ends before a wait of seconds that began earlier.
#[test]
fn nonblock_does_not_wait_for_nodes_that_are_down() {
    let fixture = Fixture::nodes(3);
    let verbs: &[&[&str]] = &[
        &["run", "-n", "x", "true"],
        &["run", "-s", "-n", "x", "true"],
        &["run", "--permits", "2", "-n", "x", "true"],
        &["run", "-w", "0", "x", "true"],
        &["acquire", "-n", "x"],
    ];
    for take_down in [Server::pause as fn(&Server), Server::kill] {
        fixture.servers[1..].iter().for_each(take_down);
        let mut patient = fixture.start(["-w", "4.5", "y", "true"]);
        for running in start_all(&fixture, verbs) {
            running.close().assert_code(69);
        }
        assert!(!patient.has_ended(), "they took as long as a wait of 4.5 s");
        patient.end().assert_code(69);
    }
}

/// Right after the start there are no connections yet.
#[test]
fn nonblock_waits_for_initial_connections() {
    for fixture in Fixture::of_each_kind() {
        for _ in 0..10 {
            fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
        }
    }
    // Two of three nodes are enough, regardless of the third.
    let fixture = Fixture::nodes(3);
    fixture.servers[2].pause();
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
    fixture.servers[2].resume();
    fixture.servers[2].kill();
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
}

fn check(fixture: &Fixture, urls: &[String], lease: &str, node_error: &str) {
    let verbs: &[&[&str]] = &[
        &["run", "-n", "x", "true"],
        &["run", "-w", "3", "x", "true"],
        &["run", "-s", "-n", "x", "true"],
        &["run", "--permits", "2", "-n", "x", "true"],
        &["run", "x", "true"],
        &["acquire", "-n", "x"],
        &["acquire", "-w", "3", "x"],
        &["renew", lease],
        &["release", lease],
        &["show", "x"],
        &["ls"],
    ];
    for running in start_all(fixture, verbs) {
        check_one(running.close().assert_code(69), urls, node_error);
    }
}

/// Runs them concurrently, because each mostly waits.
fn start_all(fixture: &Fixture, verbs: &[&[&str]]) -> Vec<Running> {
    let start = |verb: &&[&str]| Running::start(&mut fixture.quorate(verb.iter().copied()));
    verbs.iter().map(start).collect()
}

fn check_one(ended: Ended, urls: &[String], node_error: &str) {
    let text = ended.err();
    assert!(!text.contains("not connected yet"), "{ended:?}");
    // A node that reports a lock is reachable too.
    let is_well = |state: &&str| text.contains(&format!("{}: {state}", urls[0]));
    let words = ["attached", "granted", "not waited for", "free"];
    assert!(words.iter().any(is_well), "{} is well: {ended:?}", urls[0]);
    for url in &urls[1..] {
        assert!(text.contains(&format!("{url}: {node_error}")), "{url} is down: {ended:?}");
    }
}

fn urls(fixture: &Fixture) -> Vec<String> {
    fixture.servers.iter().map(Server::url).collect()
}
