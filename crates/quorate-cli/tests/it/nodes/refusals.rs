//! A command that refuses changes nothing on any node, and nobody's work ends by it.

use quorate_testkit::{Contents, Proxy, Server, redis::cmd};

use super::text;
use crate::rig::{Ended, Rig};

/// Nodes that have no restart guard: one, two, and three whose settings say so.
fn unguarded() -> [Rig; 3] {
    let settings = "restart_guard = false\nttl = \"1s\"\n";
    [(1, "ttl = \"1s\"\n"), (2, "ttl = \"1s\"\n"), (3, settings)]
        .map(|(nodes, settings)| Rig::with(Server::start_many(nodes), settings))
}

#[test]
fn nodes_without_the_guard_are_shown_as_such_and_have_nothing_to_admit() {
    for rig in unguarded() {
        store(&rig.servers[0], 7);
        for verb in ["admit", "vouch", "change"] {
            let ended = unchanged(&rig, &["nodes", verb]).assert_code(65);
            ended.assert_says("the restart guard is off");
        }
        let shown = unchanged(&rig, &["nodes", "show"]).assert_code(0);
        let expected = ": attached, without the restart guard\n";
        assert_eq!(shown.out().matches(expected).count(), rig.servers.len(), "{shown:?}");
        rig.run(["x", "true"]).assert_code(0);
    }
}

#[test]
fn refused_commands_do_not_end_a_job_where_there_is_no_guard() {
    for rig in unguarded() {
        let job = rig.hold("job");
        for verb in ["admit", "vouch", "change"] {
            rig.say(["nodes", verb]).assert_code(65);
        }
        outlives(&rig, "job");
        rig.run(["-n", "other", "true"]).assert_code(0);
        job.close().assert_code(0);
    }
}

#[test]
fn refused_commands_do_not_end_a_job_on_guarded_nodes() {
    let rig = Rig::with(Server::start_many(3), "ttl = \"1s\"\n");
    rig.say(["nodes", "admit"]).assert_code(0);
    let job = rig.hold("job");
    rig.servers[2].flush_all();
    rig.say(["nodes", "admit"]).assert_code(65).assert_says("some nodes are in use");
    rig.say(["nodes", "change"]).assert_code(65).assert_says("agreed on this list already");
    rig.servers[2].kill();
    let other = ["nodes", "vouch", "--max-ttl", "30s"];
    rig.say(other).assert_code(69).assert_says("a max_ttl of 60000 ms, this client has 30000 ms");
    outlives(&rig, "job");
    rig.run_until_answered(["-n", "other", "true"]).assert_code(0);
    job.close().assert_code(0);
}

/// Each with its reason, and on servers that were new a moment ago.
#[test]
fn a_refused_admission_writes_nothing() {
    let rig = Rig::with(Server::start_many(3), "");
    store(&rig.servers[1], 1);
    let expected = format!("{} holds 1 keys", rig.servers[1].url());
    unchanged(&rig, &["nodes", "admit"]).assert_code(65).assert_says(&expected);
    rig.servers[1].flush_all();

    let twin = Proxy::start(&rig.servers[1].address());
    let urls = [rig.servers[0].url(), rig.servers[1].url(), twin.url()];
    let ended = unchanged(&rig, &args_of("admit", &urls)).assert_code(69);
    ended.assert_says("is the same server as");

    rig.servers[2].kill();
    unchanged(&rig, &["nodes", "admit"]).assert_code(69).assert_says("connection refused");
    rig.servers[2].restart();
    assert!(rig.servers.iter().all(|server| server.keys().is_empty()));

    rig.say(["nodes", "admit"]).assert_code(0);
    let again = unchanged(&rig, &["nodes", "admit"]).assert_code(0);
    assert_eq!(again.out(), "3 nodes vote\n", "{again:?}");
    unchanged(&rig, &["nodes", "show"]).assert_code(0);
    rig.servers[2].flush_all();
    unchanged(&rig, &["nodes", "admit"]).assert_code(65).assert_says("some nodes are in use");
    let longer = ["nodes", "admit", "--max-ttl", "90s"];
    unchanged(&rig, &longer).assert_code(69).assert_says("this client has 90000 ms");
}

#[test]
fn a_refused_change_writes_nothing() {
    let mut servers = Server::start_many(5);
    let new = servers.split_off(3);
    let rig = Rig::with(servers, "max_ttl = \"1s\"\n");
    let urls = |nodes: &[&Server]| nodes.iter().map(|it| it.url()).collect::<Vec<_>>();
    let [a, b, c] = [0, 1, 2].map(|node| &rig.servers[node]);
    let (d, e) = (&new[0], &new[1]);
    let refused = |nodes: &[&Server], code: i32, expected: &str| {
        let all = [a, b, c, d, e];
        let ended = unchanged_on(&all, &rig, &args_of("change", &urls(nodes)));
        ended.assert_code(code).assert_says(expected);
    };
    refused(&[a, b, c], 65, "belongs to a set");
    rig.say(["nodes", "admit"]).assert_code(0);
    refused(&[a, b, c], 65, "agreed on this list already");
    refused(&[a, b, c, d, e], 65, "2 new and 0 gone");
    store(d, 1);
    refused(&[a, b, d], 65, "holds something");
    d.flush_all();
    // Clients with two nodes have the guard off, unless they say otherwise.
    refused(&[a, b], 65, "the restart guard is off");
    e.kill();
    let ended = unchanged(&rig, &args_of("change", &urls(&[a, b, e]))).assert_code(65);
    ended.assert_says("does not answer");
    e.restart();
    let changed = rig.say(args_of("change", &urls(&[a, b, d])).iter().copied()).assert_code(0);
    assert!(changed.out().starts_with("change 2: "), "{changed:?}");
    refused(&[a, b, e], 75, "was changed a short while ago");
}

/// What clients with the new list must have is not guessed.
#[test]
fn a_set_becomes_smaller_than_three_only_with_the_guard_in_the_settings() {
    let rig = Rig::with(Server::start_many(3), "");
    rig.write("guarded.toml", "restart_guard = true\n");
    rig.say(["nodes", "admit"]).assert_code(0);
    let urls: Vec<String> = rig.servers[..2].iter().map(Server::url).collect();
    let args = args_of("change", &urls);
    unchanged(&rig, &args).assert_code(65).assert_says("turn it on, for all clients");
    let guarded = ["--config", "guarded.toml"];
    let changed = rig.say(args.iter().copied().chain(guarded)).assert_code(0);
    assert!(changed.out().starts_with("change 2: "), "{changed:?}");
    let args = args_of("show", &urls);
    let shown = rig.say(args.iter().copied().chain(guarded)).assert_code(0);
    assert_eq!(shown.out().matches(": attached\n").count(), 2, "{shown:?}");
    rig.say(args).assert_code(69).assert_says("which this client has off");
}

#[test]
fn a_refused_vouch_writes_nothing() {
    let rig = Rig::with(Server::start_many(3), "max_ttl = \"1s\"\n");
    let [a, b, c] = [0, 1, 2].map(|node| &rig.servers[node]);
    rig.say(["nodes", "admit"]).assert_code(0);
    a.kill();
    c.flush_all();
    b.kill();
    // What is left is no majority.
    let ended = unchanged_on(&[c], &rig, &["nodes", "vouch"]).assert_code(69);
    ended.assert_says("connection refused");
    // Two that know nothing cannot tell of which set they are.
    b.restart();
    unchanged_on(&[b, c], &rig, &["nodes", "vouch"]).assert_code(69);
}

/// As an earlier version has left it on a single server.
#[test]
fn a_server_with_a_record_that_nobody_wants_says_how_to_be_rid_of_it() {
    let rig = Rig::with(vec![Server::start()], "");
    let server = &rig.servers[0];
    rig.write("guarded.toml", "restart_guard = true\n");
    rig.say(["nodes", "admit", "--config", "guarded.toml"]).assert_code(0);
    assert_eq!(server.keys(), [b"quorate:node"]);
    let way_out = "stop all clients of this node and delete quorate:node";
    unchanged(&rig, &["nodes", "show"]).assert_code(69).assert_says(way_out);
    unchanged(&rig, &["show", "x"]).assert_code(69).assert_says(way_out);
    rig.run(["-n", "x", "true"]).assert_code(69).assert_says(way_out);
    unchanged(&rig, &["nodes", "admit"]).assert_code(65).assert_says("the restart guard is off");
    rig.run(["--config", "guarded.toml", "x", "true"]).assert_code(0);
    cmd("DEL").arg("quorate:node").exec(&mut server.connection()).expect("it is deleted");
    let shown = rig.say(["nodes", "show"]).assert_code(0);
    assert!(shown.out().ends_with(": attached, without the restart guard\n"), "{shown:?}");
    rig.run(["-n", "x", "true"]).assert_code(0);
}

/// Runs a command that writes nothing to the servers of this place.
#[track_caller]
fn unchanged(rig: &Rig, args: &[&str]) -> Ended {
    unchanged_on(&rig.servers.iter().filter(|it| is_up(it)).collect::<Vec<_>>(), rig, args)
}

#[track_caller]
fn unchanged_on(servers: &[&Server], rig: &Rig, args: &[&str]) -> Ended {
    let contents = || servers.iter().map(|it| it.contents()).collect::<Vec<Contents>>();
    let before = contents();
    let ended = rig.say(args.iter().copied());
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
fn outlives(rig: &Rig, name: &str) {
    let held_ms = || {
        let ended = rig.say(["show", name, "-o", "json"]);
        let json: serde_json::Value = serde_json::from_str(ended.out()).ok()?;
        json["holder"]["held_for_ms"].as_u64()
    };
    let before = held_ms().expect("it is held");
    rig.await_that("it was renewed", || {
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
