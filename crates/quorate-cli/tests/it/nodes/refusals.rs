//! A command that refuses changes nothing on any node, and nobody's work ends by it.

use quorate_testkit::{Contents, Proxy, Server, redis::cmd};

use super::text;
use crate::fixture::{Ended, Fixture};

/// Nodes that have no restart guard: one, two, and three whose settings say so.
fn unprotected() -> [Fixture; 3] {
    let settings = "quarantine = false\nttl = \"1s\"\n";
    [(1, "ttl = \"1s\"\n"), (2, "ttl = \"1s\"\n"), (3, settings)]
        .map(|(nodes, settings)| Fixture::with(Server::start_many(nodes), settings))
}

#[test]
fn nodes_without_the_guard_are_shown_as_such_and_have_nothing_to_admit() {
    for fixture in unprotected() {
        store(&fixture.servers[0], 7);
        for verb in ["admit", "vouch", "change"] {
            let ended = unchanged(&fixture, &["nodes", verb]).assert_code(65);
            ended.assert_says("quarantine is off");
        }
        let shown = unchanged(&fixture, &["nodes", "show"]).assert_code(0);
        let expected = ": attached, without quarantine\n";
        assert_eq!(shown.out().matches(expected).count(), fixture.servers.len(), "{shown:?}");
        fixture.run(["x", "true"]).assert_code(0);
    }
}

#[test]
fn refused_commands_do_not_end_a_job_where_there_is_no_guard() {
    for fixture in unprotected() {
        let job = fixture.hold("job");
        for verb in ["admit", "vouch", "change"] {
            fixture.say(["nodes", verb]).assert_code(65);
        }
        outlives(&fixture, "job");
        fixture.run(["-n", "other", "true"]).assert_code(0);
        job.close().assert_code(0);
    }
}

#[test]
fn refused_commands_do_not_end_a_job_on_guarded_nodes() {
    let fixture = Fixture::with(Server::start_many(3), "ttl = \"1s\"\n");
    fixture.say(["nodes", "admit"]).assert_code(0);
    let job = fixture.hold("job");
    fixture.servers[2].flush_all();
    fixture.say(["nodes", "admit"]).assert_code(65).assert_says("some nodes are in use");
    fixture.say(["nodes", "change"]).assert_code(65).assert_says("agreed on this list already");
    fixture.servers[2].kill();
    let other = ["nodes", "vouch", "--max-ttl", "30s"];
    fixture
        .say(other)
        .assert_code(69)
        .assert_says("a max_ttl of 60000 ms, this client has 30000 ms");
    outlives(&fixture, "job");
    fixture.run_until_answered(["-n", "other", "true"]).assert_code(0);
    job.close().assert_code(0);
}

/// Each with its reason, and on servers that were new a moment ago.
#[test]
fn a_refused_admission_writes_nothing() {
    let fixture = Fixture::with(Server::start_many(3), "");
    store(&fixture.servers[1], 1);
    let expected = format!("{} holds 1 keys", fixture.servers[1].url());
    unchanged(&fixture, &["nodes", "admit"]).assert_code(65).assert_says(&expected);
    fixture.servers[1].flush_all();

    let twin = Proxy::start(&fixture.servers[1].address());
    let urls = [fixture.servers[0].url(), fixture.servers[1].url(), twin.url()];
    let ended = unchanged(&fixture, &args_of("admit", &urls)).assert_code(69);
    ended.assert_says("is the same server as");

    fixture.servers[2].kill();
    unchanged(&fixture, &["nodes", "admit"]).assert_code(69).assert_says("connection refused");
    fixture.servers[2].restart();
    assert!(fixture.servers.iter().all(|server| server.keys().is_empty()));

    fixture.say(["nodes", "admit"]).assert_code(0);
    let again = unchanged(&fixture, &["nodes", "admit"]).assert_code(0);
    assert_eq!(again.out(), "3 nodes vote\n", "{again:?}");
    unchanged(&fixture, &["nodes", "show"]).assert_code(0);
    fixture.servers[2].flush_all();
    unchanged(&fixture, &["nodes", "admit"]).assert_code(65).assert_says("some nodes are in use");
    let longer = ["nodes", "admit", "--max-ttl", "90s"];
    unchanged(&fixture, &longer).assert_code(69).assert_says("this client has 90000 ms");
}

#[test]
fn a_refused_change_writes_nothing() {
    let mut servers = Server::start_many(5);
    let new = servers.split_off(3);
    let fixture = Fixture::with(servers, "max_ttl = \"1s\"\n");
    let urls = |nodes: &[&Server]| nodes.iter().map(|it| it.url()).collect::<Vec<_>>();
    let [a, b, c] = [0, 1, 2].map(|node| &fixture.servers[node]);
    let (d, e) = (&new[0], &new[1]);
    let refused = |nodes: &[&Server], code: i32, expected: &str| {
        let all = [a, b, c, d, e];
        let ended = unchanged_on(&all, &fixture, &args_of("change", &urls(nodes)));
        ended.assert_code(code).assert_says(expected);
    };
    refused(&[a, b, c], 65, "belongs to a set");
    fixture.say(["nodes", "admit"]).assert_code(0);
    refused(&[a, b, c], 65, "agreed on this list already");
    refused(&[a, b, c, d, e], 65, "2 nodes added and 0 removed");
    store(d, 1);
    refused(&[a, b, d], 65, "has keys");
    d.flush_all();
    // Clients with two nodes have the guard off, unless they say otherwise.
    refused(&[a, b], 65, "quarantine is off");
    e.kill();
    let ended = unchanged(&fixture, &args_of("change", &urls(&[a, b, e]))).assert_code(65);
    ended.assert_says("does not answer");
    e.restart();
    let changed = fixture.say(args_of("change", &urls(&[a, b, d])).iter().copied()).assert_code(0);
    assert!(changed.out().starts_with("change 2: "), "{changed:?}");
    refused(&[a, b, e], 75, "was changed a short while ago");
}

/// What clients with the new list must have is not guessed.
#[test]
fn a_set_becomes_smaller_than_three_only_with_the_guard_in_the_settings() {
    let fixture = Fixture::with(Server::start_many(3), "");
    fixture.write("quarantined.toml", "quarantine = true\n");
    fixture.say(["nodes", "admit"]).assert_code(0);
    let urls: Vec<String> = fixture.servers[..2].iter().map(Server::url).collect();
    let args = args_of("change", &urls);
    unchanged(&fixture, &args).assert_code(65).assert_says("turn it on, for all clients");
    let quarantined = ["--config", "quarantined.toml"];
    let changed = fixture.say(args.iter().copied().chain(quarantined)).assert_code(0);
    assert!(changed.out().starts_with("change 2: "), "{changed:?}");
    let args = args_of("show", &urls);
    let shown = fixture.say(args.iter().copied().chain(quarantined)).assert_code(0);
    assert_eq!(shown.out().matches(": attached\n").count(), 2, "{shown:?}");
    fixture.say(args).assert_code(69).assert_says("which is disabled in this client");
}

#[test]
fn a_refused_vouch_writes_nothing() {
    let fixture = Fixture::with(Server::start_many(3), "max_ttl = \"1s\"\n");
    let [a, b, c] = [0, 1, 2].map(|node| &fixture.servers[node]);
    fixture.say(["nodes", "admit"]).assert_code(0);
    a.kill();
    c.flush_all();
    b.kill();
    // What is left is no majority.
    let ended = unchanged_on(&[c], &fixture, &["nodes", "vouch"]).assert_code(69);
    ended.assert_says("connection refused");
    // Two that know nothing cannot tell of which set they are.
    b.restart();
    unchanged_on(&[b, c], &fixture, &["nodes", "vouch"]).assert_code(69);
}

/// As an earlier version has left it on a single server.
#[test]
fn a_server_with_a_record_that_nobody_wants_says_how_to_be_rid_of_it() {
    let fixture = Fixture::with(vec![Server::start()], "");
    let server = &fixture.servers[0];
    fixture.write("quarantined.toml", "quarantine = true\n");
    fixture.say(["nodes", "admit", "--config", "quarantined.toml"]).assert_code(0);
    assert_eq!(server.keys(), [b"quorate:node"]);
    let way_out = "stop all clients of this node and delete quorate:node";
    unchanged(&fixture, &["nodes", "show"]).assert_code(69).assert_says(way_out);
    unchanged(&fixture, &["show", "x"]).assert_code(69).assert_says(way_out);
    fixture.run(["-n", "x", "true"]).assert_code(69).assert_says(way_out);
    unchanged(&fixture, &["nodes", "admit"]).assert_code(65).assert_says("quarantine is off");
    fixture.run(["--config", "quarantined.toml", "x", "true"]).assert_code(0);
    cmd("DEL").arg("quorate:node").exec(&mut server.connection()).expect("it is deleted");
    let shown = fixture.say(["nodes", "show"]).assert_code(0);
    assert!(shown.out().ends_with(": attached, without quarantine\n"), "{shown:?}");
    fixture.run(["-n", "x", "true"]).assert_code(0);
}

/// Runs a command that writes nothing to the servers of this place.
#[track_caller]
fn unchanged(fixture: &Fixture, args: &[&str]) -> Ended {
    unchanged_on(&fixture.servers.iter().filter(|it| is_up(it)).collect::<Vec<_>>(), fixture, args)
}

#[track_caller]
fn unchanged_on(servers: &[&Server], fixture: &Fixture, args: &[&str]) -> Ended {
    let contents = || servers.iter().map(|it| it.contents()).collect::<Vec<Contents>>();
    let before = contents();
    let ended = fixture.say(args.iter().copied());
    assert_eq!(contents(), before, "{args:?}: {}", text(&ended.0.stderr));
    ended
}

fn is_up(server: &Server) -> bool {
    std::net::TcpStream::connect(server.address()).is_ok()
}

fn args_of<'a>(verb: &'a str, urls: &'a [String]) -> Vec<&'a str> {
    let nodes = urls.iter().flat_map(|url| ["--node", url.as_str()]);
    ["nodes", verb].into_iter().chain(nodes).collect()
}

/// Waits until the lock has been held for another three times its ttl.
#[track_caller]
fn outlives(fixture: &Fixture, name: &str) {
    let held_ms = || {
        let ended = fixture.say(["show", name, "-o", "json"]);
        let json: serde_json::Value = serde_json::from_str(ended.out()).ok()?;
        json["holder"]["held_for_ms"].as_u64()
    };
    let before = held_ms().expect("it is held");
    fixture.await_that("it was renewed", || {
        held_ms().unwrap_or_else(|| panic!("{name} was lost")) > before + 3_000
    });
}

/// Keys that are nobody's lock.
fn store(server: &Server, count: usize) {
    for number in 0..count {
        let key = format!("key-{number}");
        cmd("SET").arg(key).arg("x").exec(&mut server.connection()).expect("it is stored");
    }
}
