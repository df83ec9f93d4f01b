//! How many nodes vote, and a list that goes on.

use std::process::{Command, Stdio};

use quorate_testkit::{Server, redis::cmd};
use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::{Fixture, Running};

#[test]
fn nodes_show_has_a_verdict_and_an_exit_code() {
    let fixture = Fixture::nodes(3);
    let check = |code: i32, verdict: &str, (votes, tolerated): (u64, u64)| {
        let shown = fixture.exec(["nodes", "show"]).assert_code(code);
        let text = format!("{}{}", shown.out(), shown.err());
        assert!(text.trim_start_matches("quorate: ").starts_with(verdict), "{text}");
        let shown = fixture.exec(["nodes", "show", "-o", "json"]).assert_code(code);
        let json: Value = serde_json::from_str(shown.out()).expect("JSON");
        assert_eq!((&json["schema_version"], &json["verdict"]), (&1.into(), &verdict.into()));
        assert_eq!(json["nodes_voting"], votes, "{json}");
        assert_eq!(json["failures_tolerated"], tolerated, "{json}");
        assert_eq!(json["has_quorum"], votes >= 2, "{json}");
        let nodes = json["nodes"].as_array().expect("a list");
        let voting = nodes.iter().filter(|node| node["votes"] == true).count();
        assert_eq!((nodes.len(), voting as u64), (3, votes), "{json}");
        shown
    };
    check(0, "3 of 3 vote; 1 more failure tolerated", (3, 1));
    fixture.servers[0].kill();
    check(1, "2 of 3 vote; no further failure tolerated", (2, 0));
    fixture.servers[1].kill();
    let shown = check(69, "1 of 3 vote; no majority (2 needed)", (1, 0));
    assert!(shown.err().starts_with(r#"{"error":{"code":69,"kind":"unavailable""#), "{shown:?}");
}

/// A full node renews the locks that it has, and grants no new ones.
#[test]
fn full_node_does_not_count_for_new_locks() {
    let fixture = Fixture::nodes(3);
    let holder = fixture.hold("kept");
    let fill = |node: usize| {
        let mut command = cmd("CONFIG");
        command.arg("SET").arg("maxmemory").arg("1mb");
        command.exec(&mut fixture.servers[node].connection()).expect("it is set");
    };
    let json = |code: i32| -> Value {
        let shown = fixture.exec(["nodes", "show", "-o", "json"]).assert_code(code);
        serde_json::from_str(shown.out()).expect("JSON")
    };
    fill(1);
    let shown = fixture.exec(["nodes", "show"]).assert_code(1);
    let verdict = "3 of 3 vote; 1 is full and grants no new locks; new locks tolerate no further \
                   failure";
    assert!(shown.out().starts_with(&format!("{verdict}\n")), "{shown:?}");
    let line = format!("{}: attached; its memory is full: ", fixture.servers[1].url());
    assert!(shown.out().contains(&line), "{shown:?}");
    let one = json(1);
    assert_eq!((&one["verdict"], &one["nodes_full"]), (&verdict.into(), &1.into()), "{one}");
    assert_eq!(one["grants_new_locks"], true);
    assert_eq!((&one["nodes_voting"], &one["failures_tolerated"]), (&3.into(), &0.into()));
    assert_eq!(
        (&one["nodes"][1]["is_full"], &one["nodes"][0]["is_full"]),
        (&true.into(), &false.into())
    );
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);

    fill(2);
    let shown = fixture.exec(["nodes", "show"]).assert_code(69);
    let verdict =
        "3 of 3 vote; 2 are full and grant no new locks; no majority for new locks (2 needed)";
    assert!(shown.err().starts_with(&format!("quorate: {verdict}\n")), "{shown:?}");
    let two = json(69);
    assert_eq!((&two["has_quorum"], &two["grants_new_locks"]), (&true.into(), &false.into()));
    fixture.run(["-n", "y", "true"]).assert_code(69).assert_stderr("memory is full");
    let shown = fixture.exec(["show", "kept"]).assert_code(0);
    assert!(shown.out().starts_with("kept: held by "), "{shown:?}");
    holder.close().assert_code(0);
}

/// The quarantine and the recovery after it are one time everywhere.
#[test]
fn remaining_quarantine_is_the_same_in_all_outputs() {
    let fixture = Fixture::with(Server::start_many(3), "");
    let shown = fixture.exec(["nodes", "show"]).assert_code(69);
    assert_eq!(shown.err().matches("in quarantine for 1 min 13 s more").count(), 4, "{shown:?}");
    let json = fixture.exec(["nodes", "show", "-o", "json"]).assert_code(69);
    let json: Value = serde_json::from_str(json.out()).expect("JSON");
    assert_eq!(json["votes_in_ms"], 73_200);
    assert!((0..3).all(|node| json["nodes"][node]["quarantined_for_ms"] == 73_200), "{json}");
    let doctor = fixture.exec(["doctor"]).assert_code(1);
    assert_eq!(doctor.out().matches("in quarantine for 1 min 13 s more").count(), 3, "{doctor:?}");
    let findings = doctor.out().matches("it does not vote for 1 min 13 s more: ").count();
    assert_eq!(findings, 3, "{doctor:?}");
}

#[test]
fn new_nodes_are_recognized_in_json() {
    let fixture = Fixture::with(Server::start_many(3), "");
    let shown = fixture.exec(["nodes", "show", "-o", "json"]).assert_code(69);
    let json: Value = serde_json::from_str(shown.out()).expect("JSON");
    assert_eq!((&json["is_admissible"], &json["nodes_voting"]), (&true.into(), &0.into()));
    assert!(json["votes_in_ms"].as_u64() > Some(60_000), "{json}");
    assert_eq!(json["nodes"][0]["state"], "quarantined");
}

#[test]
fn watched_list_is_written_when_it_changes() {
    let fixture = Fixture::one();
    let mut command = Command::new("sh");
    fixture.prepare(&mut command);
    let line = format!("exec {} ls --watch -o json job > list", env!("CARGO_BIN_EXE_quorate"));
    let watching = Running::start(command.args(["-c", &line]));
    let names = |line: &str| -> Vec<String> {
        let json: Value = serde_json::from_str(line).expect("one object, one line");
        let locks = json["locks"].as_array().expect("a list");
        locks.iter().map(|lock| lock["name"].as_str().expect("a name").to_owned()).collect()
    };
    let lists = || -> Vec<Vec<String>> { fixture.read("list").lines().map(names).collect() };
    fixture.await_that("the empty list is written", || lists() == [Vec::<String>::new()]);
    let holder = fixture.hold("job");
    fixture.await_that("the lock is listed", || lists() == [vec![], vec!["job".to_owned()]]);
    // A lock of another name is no change.
    fixture.run(["other", "true"]).assert_code(0);
    holder.close().assert_code(0);
    fixture.await_that("the lock is gone", || lists().len() == 3);
    // A server that is down for a moment does not end it.
    fixture.servers[0].kill();
    fixture.servers[0].restart();
    let holder = fixture.hold("job");
    fixture.await_that("the lock is listed again", || lists().len() == 4);
    holder.close().assert_code(0);
    watching.signal(Signal::TERM);
    assert_eq!(watching.close().0.status.code(), None, "the signal ended it");
}

#[test]
fn watched_list_ends_with_its_reader() {
    let fixture = Fixture::one();
    let mut command = Command::new("sh");
    fixture.prepare(&mut command);
    let line = format!("{} ls --watch -o json | head -n 1", env!("CARGO_BIN_EXE_quorate"));
    let ended = Running::start(command.args(["-c", &line]).stdin(Stdio::null())).close();
    assert_eq!(ended.assert_code(0).out().lines().count(), 1);
}
