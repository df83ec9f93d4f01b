//! `quorate doctor` on real servers in the states that it must find.

mod local;
mod sick;
mod tls;
mod untouched;

use quorate_testkit::{Flavour, Server};
use serde_json::Value;

use crate::fixture::{Ended, Fixture, Running};

/// Something that is wrong.
#[derive(Debug)]
struct Finding {
    id: String,
    is_error: bool,
    node: String,
    message: String,
    remedy: String,
}

/// Runs `quorate doctor -o json` with these arguments to its end, and again if a server took too
/// long to answer, as on a busy machine.
#[track_caller]
fn examine<'a>(fixture: &Fixture, args: impl IntoIterator<Item = &'a str>) -> (Ended, Value) {
    let args: Vec<&str> = args.into_iter().collect();
    let mut examined = examine_once(fixture, &args);
    fixture.await_that("every server answers", || {
        let is_late = examined.1["nodes"].as_array().expect("a list").iter().any(|node| {
            let error = node["node_error"].as_str().unwrap_or_default();
            ["timed out", "not connected yet"].contains(&error)
        });
        if is_late {
            examined = examine_once(fixture, &args);
        }
        !is_late
    });
    examined
}

/// The same, with servers that do not answer.
#[track_caller]
fn examine_once(fixture: &Fixture, args: &[&str]) -> (Ended, Value) {
    let ended = fixture.exec(["doctor", "-o", "json"].into_iter().chain(args.iter().copied()));
    let json: Value = serde_json::from_str(ended.out()).unwrap_or_else(|_| panic!("{ended:?}"));
    let code = if json["is_healthy"] == true { 0 } else { 1 };
    (ended.assert_code(code), json)
}

/// Everything that is wrong, except that the machine is slow.
fn findings(json: &Value) -> Vec<Finding> {
    let mut found = all_findings(json);
    found.retain(|it| !["round-trip", "slow-scripts"].contains(&&*it.id) || it.is_error);
    found
}

/// Everything that is wrong.
fn all_findings(json: &Value) -> Vec<Finding> {
    let checks = json["checks"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let finding = |check: &Value| {
        let see = text(&check["see"]);
        assert!(see.ends_with(&format!("docs/runbook.md#{}", text(&check["id"]))), "{check}");
        Finding {
            id: text(&check["id"]),
            is_error: check["status"] == "error",
            node: text(&check["node"]),
            message: text(&check["message"]),
            remedy: text(&check["remedy"]),
        }
    };
    checks.filter(|check| check["status"] != "ok").map(finding).collect()
}

/// Doctor finds an error of this check about this node, with this text in it. Returns everything
/// that it finds.
#[track_caller]
fn finds(fixture: &Fixture, id: &str, node: &str, text: &str) -> Vec<Finding> {
    finds_in(examine(fixture, []), id, node, text)
}

#[track_caller]
fn finds_in(examined: (Ended, Value), id: &str, node: &str, text: &str) -> Vec<Finding> {
    let (ended, json) = examined;
    let found = findings(&json);
    let is_it = |it: &Finding| {
        it.is_error && it.id == id && it.node.ends_with(node) && it.message.contains(text)
    };
    assert!(found.iter().any(is_it), "{id}: {found:?}");
    assert!(found.iter().all(|it| !it.remedy.is_empty()), "{found:?}");
    assert_eq!(ended.code(), 1);
    found
}

/// The ids of what is wrong, without the quorum.
fn ids(found: &[Finding]) -> Vec<&str> {
    found.iter().map(|it| &*it.id).filter(|id| *id != "quorum").collect()
}

#[test]
fn healthy_set_has_no_findings() {
    let fixture = Fixture::nodes(3);
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
    let (ended, json) = examine(&fixture, []);
    assert_eq!(findings(&json).len(), 0, "{json:#}");
    assert_eq!((&json["errors"], &json["warnings"]), (&0.into(), &0.into()));
    assert_eq!((&json["quorum"]["voting"], &json["quorum"]["may_fail"]), (&3.into(), &1.into()));
    ended.assert_code(0);

    let mut command = fixture.quorate(["doctor"]);
    let ended = Running::start(command.env("LC_ALL", "C.UTF-8")).close();
    let ended = ended.assert_code(0);
    let out = ended.out();
    assert!(out.starts_with("●●|●  3 of 3 vote, 2 needed: 1 more may fail\n"), "{out}");
    assert_eq!(out.matches("\n  ● redis://").count(), 3, "{out}");
    assert!(out.matches("\n✓ ").count() >= 16, "{out}");
    // Slowness of the machine is a warning.
    assert!(out.ends_with("\nno findings\n") || out.contains("\n0 errors, "), "{out}");
    assert!(!out.contains("\x1b"), "no colours without a terminal: {out:?}");
    let ascii = fixture.exec(["doctor"]).assert_code(0);
    assert!(ascii.out().is_ascii() && ascii.out().starts_with("**|*  3 of 3"), "{ascii:?}");
}

#[test]
fn durable_single_server_has_no_findings() {
    for flavour in Flavour::ALL {
        let server = Server::builder().flavour(flavour).append_only().start();
        let fixture = Fixture::with(vec![server], "");
        let (_, json) = examine(&fixture, []);
        assert_eq!(findings(&json).len(), 0, "{json:#}");
        let server = json["nodes"][0]["server"].as_str().expect("it is known");
        assert!(server.starts_with(&format!("{flavour:?} ")), "{server}");
    }
}

#[test]
fn wrong_arguments_are_not_findings() {
    let fixture = Fixture::one();
    fixture.exec(["doctor", "--fly"]).assert_code(64);
    let ended = fixture.exec(["doctor", "--node", "ftp://user:secret@h", "-o", "json"]);
    let ended = ended.assert_code(78);
    assert!(ended.err().contains(r#""kind":"config""#) && !ended.err().contains("secret"));
    let url = fixture.servers[0].url();
    let ended = fixture.exec(["doctor", "--node", &url, "--node", &url]);
    ended.assert_code(78).assert_stderr("same server");
}
