//! A refused command changes nothing on any node, and disturbs no running job.

use quorate_testkit::{Contents, Proxy, Server, redis::cmd};

use super::text;
use crate::fixture::{Ended, Fixture};

/// Nodes without quarantine: one, two, and three whose settings disable it.
fn unprotected() -> [Fixture; 3] {
    let settings = "quarantine = false\nttl = \"1s\"\n";
    [(1, "ttl = \"1s\"\n"), (2, "ttl = \"1s\"\n"), (3, settings)]
        .map(|(nodes, settings)| Fixture::with(Server::start_many(nodes), settings))
}

#[test]
fn nodes_without_quarantine_need_no_admission() {
    for fixture in unprotected() {
        store(&fixture.servers[0], 7);
        for verb in ["admit", "vouch", "change"] {
            let ended = unchanged(&fixture, &["nodes", verb]).assert_code(65);
            ended.assert_stderr("quarantine is off");
        }
        let shown = unchanged(&fixture, &["nodes", "show"]).assert_code(0);
        let expected = ": attached, without quarantine\n";
        assert_eq!(shown.out().matches(expected).count(), fixture.servers.len(), "{shown:?}");
        fixture.run(["x", "true"]).assert_code(0);
    }
}

#[test]
fn refused_commands_do_not_disturb_a_job_without_quarantine() {
    for fixture in unprotected() {
        let job = fixture.hold("job");
        for verb in ["admit", "vouch", "change"] {
            fixture.exec(["nodes", verb]).assert_code(65);
        }
        outlives(&fixture, "job");
        fixture.run_until_answered(["-n", "other", "true"]).assert_code(0);
        job.close().assert_code(0);
    }
}

#[test]
fn refused_commands_do_not_disturb_a_job_on_nodes_with_quarantine() {
    let fixture = Fixture::with(Server::start_many(3), "ttl = \"1s\"\n");
    fixture.exec(["nodes", "admit"]).assert_code(0);
    let job = fixture.hold("job");
    fixture.servers[2].flush_all();
    fixture.exec(["nodes", "admit"]).assert_code(65).assert_stderr("some nodes are in use");
    fixture.exec(["nodes", "change"]).assert_code(65).assert_stderr("agreed on this list already");
    fixture.servers[2].kill();
    let other = ["nodes", "vouch", "--max-ttl", "30s"];
    fixture.exec(other).assert_code(69).assert_stderr("a max_ttl of 1 min, this client has 30 s");
    outlives(&fixture, "job");
    fixture.run_until_answered(["-n", "other", "true"]).assert_code(0);
    job.close().assert_code(0);
}

/// Each refusal has its own reason, even on servers that are almost new.
#[test]
fn refused_admission_writes_nothing() {
    let fixture = Fixture::with(Server::start_many(3), "");
    store(&fixture.servers[1], 1);
    let expected = format!("{} is not empty (keys: 1)", fixture.servers[1].url());
    unchanged(&fixture, &["nodes", "admit"]).assert_code(65).assert_stderr(&expected);
    fixture.servers[1].flush_all();

    let twin = Proxy::start(&fixture.servers[1].address());
    let urls = [fixture.servers[0].url(), fixture.servers[1].url(), twin.url()];
    let ended = unchanged(&fixture, &args_of("admit", &urls)).assert_code(78);
    ended.assert_stderr("is the same server as");

    fixture.servers[2].kill();
    unchanged(&fixture, &["nodes", "admit"]).assert_code(69).assert_stderr("connection refused");
    fixture.servers[2].restart();
    assert!(fixture.servers.iter().all(|server| server.keys().is_empty()));

    fixture.exec(["nodes", "admit"]).assert_code(0);
    let again = unchanged(&fixture, &["nodes", "admit"]).assert_code(0);
    assert_eq!(again.out(), "3 nodes vote\n", "{again:?}");
    unchanged(&fixture, &["nodes", "show"]).assert_code(0);
    fixture.servers[2].flush_all();
    unchanged(&fixture, &["nodes", "admit"]).assert_code(65).assert_stderr("some nodes are in use");
    let longer = ["nodes", "admit", "--max-ttl", "90s"];
    unchanged(&fixture, &longer).assert_code(69).assert_stderr("this client has 1 min 30 s");
}

#[test]
fn refused_change_writes_nothing() {
    let mut servers = Server::start_many(5);
    let new = servers.split_off(3);
    let fixture = Fixture::with(servers, "max_ttl = \"1s\"\n");
    let urls = |nodes: &[&Server]| nodes.iter().map(|it| it.url()).collect::<Vec<_>>();
    let [a, b, c] = [0, 1, 2].map(|node| &fixture.servers[node]);
    let (d, e) = (&new[0], &new[1]);
    let refused = |nodes: &[&Server], code: i32, expected: &str| {
        let all = [a, b, c, d, e];
        let ended = unchanged_on(&all, &fixture, &args_of("change", &urls(nodes)));
        ended.assert_code(code).assert_stderr(expected);
    };
    refused(&[a, b, c], 65, "belongs to a set");
    fixture.exec(["nodes", "admit"]).assert_code(0);
    refused(&[a, b, c], 65, "agreed on this list already");
    refused(&[a, b, c, d, e], 65, "2 nodes added and 0 removed");
    store(d, 1);
    refused(&[a, b, d], 65, "has keys");
    d.flush_all();
    // Clients with two nodes have quarantine off by default.
    refused(&[a, b], 65, "quarantine is off");
    e.kill();
    let ended = unchanged(&fixture, &args_of("change", &urls(&[a, b, e]))).assert_code(65);
    ended.assert_stderr("does not answer");
    e.restart();
    let changed = fixture.exec(args_of("change", &urls(&[a, b, d])).iter().copied()).assert_code(0);
    assert!(changed.out().starts_with("change 2: "), "{changed:?}");
    refused(&[a, b, e], 75, "was changed a short while ago");
}

/// The quarantine setting of clients with the new list must be explicit.
#[test]
fn set_smaller_than_three_requires_quarantine_in_the_settings() {
    let fixture = Fixture::with(Server::start_many(3), "");
    fixture.write("quarantined.toml", "quarantine = true\n");
    fixture.exec(["nodes", "admit"]).assert_code(0);
    let urls: Vec<String> = fixture.servers[..2].iter().map(Server::url).collect();
    let args = args_of("change", &urls);
    unchanged(&fixture, &args).assert_code(65).assert_stderr("turn it on for all clients");
    let quarantined = ["--config", "quarantined.toml"];
    let changed = fixture.exec(args.iter().copied().chain(quarantined)).assert_code(0);
    assert!(changed.out().starts_with("change 2: "), "{changed:?}");
    let args = args_of("show", &urls);
    let shown = fixture.exec(args.iter().copied().chain(quarantined)).assert_code(0);
    assert_eq!(shown.out().matches(": attached\n").count(), 2, "{shown:?}");
    fixture.exec(args).assert_code(69).assert_stderr("which is disabled in this client");
}

#[test]
fn refused_vouch_writes_nothing() {
    let fixture = Fixture::with(Server::start_many(3), "max_ttl = \"1s\"\n");
    let [a, b, c] = [0, 1, 2].map(|node| &fixture.servers[node]);
    fixture.exec(["nodes", "admit"]).assert_code(0);
    a.kill();
    c.flush_all();
    b.kill();
    // The remaining nodes are no majority.
    let ended = unchanged_on(&[c], &fixture, &["nodes", "vouch"]).assert_code(69);
    ended.assert_stderr("connection refused");
    // Two nodes without records cannot know their set.
    b.restart();
    unchanged_on(&[b, c], &fixture, &["nodes", "vouch"]).assert_code(69);
}

/// A record that an earlier version left on a single server.
#[test]
fn server_with_a_stale_record_explains_how_to_remove_it() {
    let fixture = Fixture::with(vec![Server::start()], "");
    let server = &fixture.servers[0];
    fixture.write("quarantined.toml", "quarantine = true\n");
    fixture.exec(["nodes", "admit", "--config", "quarantined.toml"]).assert_code(0);
    assert_eq!(server.keys(), [b"quorate:node"]);
    let way_out = "stop all clients of this node and delete quorate:node";
    unchanged(&fixture, &["nodes", "show"]).assert_code(69).assert_stderr(way_out);
    unchanged(&fixture, &["show", "x"]).assert_code(69).assert_stderr(way_out);
    fixture.run(["-n", "x", "true"]).assert_code(69).assert_stderr(way_out);
    unchanged(&fixture, &["nodes", "admit"]).assert_code(65).assert_stderr("quarantine is off");
    fixture.run(["--config", "quarantined.toml", "x", "true"]).assert_code(0);
    cmd("DEL").arg("quorate:node").exec(&mut server.connection()).expect("it is deleted");
    let shown = fixture.exec(["nodes", "show"]).assert_code(0);
    assert!(shown.out().ends_with(": attached, without quarantine\n"), "{shown:?}");
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
}

/// Runs a command, and checks that it writes nothing to the servers of this fixture.
#[track_caller]
fn unchanged(fixture: &Fixture, args: &[&str]) -> Ended {
    unchanged_on(&fixture.servers.iter().filter(|it| is_up(it)).collect::<Vec<_>>(), fixture, args)
}

#[track_caller]
fn unchanged_on(servers: &[&Server], fixture: &Fixture, args: &[&str]) -> Ended {
    let contents = || servers.iter().map(|it| it.contents()).collect::<Vec<Contents>>();
    let before = contents();
    let ended = fixture.exec(args.iter().copied());
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

/// Waits until the lock has been held for another three ttls.
#[track_caller]
fn outlives(fixture: &Fixture, name: &str) {
    let held_ms = || {
        let ended = fixture.exec(["show", name, "-o", "json"]);
        let json: serde_json::Value = serde_json::from_str(ended.out()).ok()?;
        json["holder"]["held_for_ms"].as_u64()
    };
    let before = held_ms().expect("it is held");
    fixture.await_that("it was renewed", || {
        held_ms().unwrap_or_else(|| panic!("{name} was lost")) > before + 3_000
    });
}

/// Keys that are not locks.
fn store(server: &Server, count: usize) {
    for number in 0..count {
        let key = format!("key-{number}");
        cmd("SET").arg(key).arg("x").exec(&mut server.connection()).expect("it is stored");
    }
}
