//! `quorate nodes` on real servers.

mod read_only;
mod refusals;

use std::process::{Command, Output};

use quorate_testkit::{Fault, Proxy, Server, eventually, redis::cmd};

use crate::fixture::{PATIENCE, Running};

#[test]
fn new_nodes_are_shown_admitted_and_shown_again() {
    let servers = Server::start_many(3);
    let shown = quorate("show", &servers);
    assert_eq!(shown.status.code(), Some(69), "{shown:?}");
    assert!(text(&shown.stderr).contains("in quarantine for "), "{shown:?}");
    assert!(servers.iter().all(|server| server.keys().is_empty()), "it only looks");
    let admitted = quorate("admit", &servers);
    assert_eq!(text(&admitted.stdout), "3 nodes vote\n", "{admitted:?}");
    let shown = quorate("show", &servers);
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    assert_eq!(text(&shown.stdout).matches(": attached\n").count(), 3, "{shown:?}");
}

/// The first status of a node may differ from its settled status.
#[test]
fn slow_nodes_are_waited_for() {
    let servers = Server::start_many(3);
    let slow = Proxy::start(&servers[2].address());
    let urls = [servers[0].url(), servers[1].url(), slow.url()];
    let admitted = Running::start(&mut command("admit", &urls)).close().0;
    assert!(admitted.status.success(), "{admitted:?}");
    // On a busy machine, the node may answer only after the command has given it up.
    eventually("it is waited for", PATIENCE, || {
        slow.set(Fault::BlackHole);
        let before = slow.connections();
        let showing = Running::start(&mut command("show", &urls));
        // One connection asks for the memory of the server. This client has already seen the other
        // one fail.
        eventually("it tries again", PATIENCE, || slow.connections() > before + 2);
        slow.set(Fault::Pass);
        let shown = showing.close().0;
        text(&shown.stdout).matches(": attached\n").count() == 3
    });
}

#[test]
fn nodes_that_are_not_empty_are_not_admitted() {
    let servers = Server::start_many(3);
    cmd("SET").arg("a").arg("b").exec(&mut servers[1].connection()).expect("it is stored");
    let refused = quorate("admit", &servers);
    assert_eq!(refused.status.code(), Some(65), "{refused:?}");
    let expected = format!("quorate: {} is not empty (keys: 1)", servers[1].url());
    assert!(text(&refused.stderr).starts_with(&expected), "{refused:?}");
}

#[test]
fn killed_node_can_be_replaced() {
    let mut servers = Server::start_many(4);
    let new = servers.pop().expect("there are four");
    assert!(quorate("admit", &servers).status.success());
    let dead = servers.pop().expect("there are three");
    dead.kill();
    servers.push(new);
    let changed = quorate("change", &servers);
    assert!(text(&changed.stdout).starts_with("change 2: the nodes are "), "{changed:?}");
    assert!(text(&changed.stdout).contains("; the new one votes in "), "{changed:?}");
    let again = quorate("change", &servers);
    assert_eq!(again.status.code(), Some(65), "{again:?}");
    assert!(text(&again.stderr).contains("agreed on this list already"), "{again:?}");
}

#[test]
fn node_that_forgot_the_set_rejoins_after_vouch() {
    let servers = Server::start_many(3);
    assert!(quorate("admit", &servers).status.success());
    servers[0].kill();
    servers[2].flush_all();
    let place = || -> Option<String> {
        let read = cmd("HGET").arg("quorate:node").arg("enrolled").clone();
        read.query(&mut servers[2].connection()).expect("it answers")
    };
    assert_eq!(quorate("admit", &servers).status.code(), Some(69));
    assert_eq!(place(), None);
    // The other node alone cannot know whether the set was changed without it.
    let vouched = quorate("vouch", &servers);
    assert!(text(&vouched.stderr).contains("in quarantine for "), "{vouched:?}");
    assert_eq!(place().as_deref(), Some("1"));
}

#[test]
fn invalid_arguments_are_explained() {
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        Running::start(command.env_remove("QUORATE_NODES").args(args)).close().0
    };
    for (args, code, expected) in [
        (&["nodes", "show"][..], 64, "no nodes given"),
        (
            &["nodes", "show", "--node", "redis://h", "--max-ttl", "soon"],
            64,
            "use a number followed by ms, s, m or h",
        ),
        (&["nodes", "show", "--node", "ftp://user:secret@h"], 78, "node 1"),
        (&["nodes", "fly"], 64, "fly"),
        (&[], 64, "Usage"),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let error = text(&output.stderr);
        assert!(error.contains(expected) && !error.contains("secret"), "{error}");
    }
    assert!(run(&["--help"]).status.success());
}

/// Runs a subcommand of `nodes` on these servers, with a short quarantine.
fn quorate(subcommand: &str, servers: &[Server]) -> Output {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    Running::start(&mut command(subcommand, &urls)).close().0
}

fn command(verb: &str, urls: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(["nodes", verb, "--max-ttl", "1s"]).env("QUORATE_NODES", urls.join(","));
    command
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("text")
}
