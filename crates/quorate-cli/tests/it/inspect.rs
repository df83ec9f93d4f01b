//! `quorate ls` and `quorate show`.

use quorate_testkit::{Server, eventually};

use crate::fixture::{Ended, Fixture, PATIENCE, Running};

#[track_caller]
fn exec<'a>(fixture: &Fixture, args: impl IntoIterator<Item = &'a str>) -> Ended {
    fixture.exec(args)
}

fn on_each_kind_of_place(body: impl Fn(&Fixture)) {
    Fixture::of_each_kind().iter().for_each(body);
}

#[test]
fn ls_reports_holder_and_queue() {
    on_each_kind_of_place(|fixture| {
        let ended = exec(fixture, ["ls"]).assert_code(0);
        assert!(ended.out().is_empty() && ended.err().contains("quorate run demo"), "{ended:?}");
        let holder = fixture.hold("job:1");
        let other = fixture.hold("other");
        let waiting = fixture.start(["job:1", "true"]);
        let pid = holder.pid().as_raw_nonzero();
        let is_listed = || {
            let ended = exec(fixture, ["ls"]).assert_code(0);
            let lines: Vec<&str> = ended.out().lines().collect();
            let row: Vec<&str> = lines[1].split_whitespace().collect();
            assert!(lines[0].starts_with("NAME "), "{ended:?}");
            assert!(lines.len() == 3 && lines[2].starts_with("other "), "{ended:?}");
            assert!(row[0] == "job:1" && row[1].ends_with(&format!("/{pid}")), "{ended:?}");
            row.last() == Some(&"1")
        };
        eventually("one waits", PATIENCE, is_listed);
        let ended = exec(fixture, ["ls", "job"]).assert_code(0);
        assert_eq!(ended.out().lines().count(), 2, "{ended:?}");
        let json = json(&exec(fixture, ["ls", "job", "-o", "json"]).assert_code(0));
        assert_eq!(json["locks"][0]["name"], "job:1");
        assert_eq!(json["locks"][0]["waiting_total"], 1);
        assert_eq!(json["is_complete"], true);
        holder.close();
        other.close();
        waiting.end().assert_code(0);
    });
}

#[test]
fn show_reports_the_queue_and_the_nodes() {
    on_each_kind_of_place(|fixture| {
        let ended = exec(fixture, ["show", "x"]).assert_code(0);
        assert!(ended.out().starts_with("x: free\n"), "{ended:?}");
        let holder = fixture.hold("x");
        let waiting = fixture.start(["x", "true"]);
        let is_shown = || exec(fixture, ["show", "x"]).out().contains(", 1 waiting\n");
        eventually("one waits", PATIENCE, is_shown);
        let ended = exec(fixture, ["show", "x"]).assert_code(0);
        let nodes = fixture.servers.len().max(1);
        let lines: Vec<&str> = ended.out().lines().collect();
        assert!(lines[0].starts_with("x: held by quorate/"), "{ended:?}");
        assert!(lines[1].starts_with("fence ") && lines[2].starts_with("  1. quorate/"));
        assert_eq!(lines.len(), 3 + nodes, "{ended:?}");
        let json = json(&exec(fixture, ["show", "x", "-o", "json"]).assert_code(0));
        assert_eq!((&json["schema_version"], &json["is_held"]), (&1.into(), &true.into()));
        let holder_json = json["holder"].as_object().expect("a holder");
        let keys: Vec<&str> = holder_json.keys().map(String::as_str).collect();
        let expected = [
            "expires_in_ms",
            "fence",
            "held_for_ms",
            "identity",
            "is_foreign",
            "is_shared",
            "owner_prefix",
            "who",
        ];
        assert_eq!(keys, expected);
        assert_eq!(json["nodes"].as_array().map(Vec::len), Some(nodes));
        assert_eq!(json["nodes"][0]["state"], "held");
        assert!(json["waiting"][0]["waiting_for_ms"].is_u64(), "{json}");
        holder.close();
        waiting.end().assert_code(0);
    });
}

#[test]
fn all_shared_holders_are_shown() {
    on_each_kind_of_place(|fixture| {
        let holders =
            ["one", "two", "three"].map(|it| fixture.hold_with(["-s", "--who", it, "x"], it));
        let ended = exec(fixture, ["show", "x"]).assert_code(0);
        let lines: Vec<&str> = ended.out().lines().collect();
        let first = lines[0].strip_prefix("x: held by ").expect("a holder");
        assert!(first.ends_with(", shared with 2 others"), "{ended:?}");
        let others = lines[1..3].iter().map(|it| it.strip_prefix("shared with ").expect("another"));
        let whos = [first].into_iter().chain(others);
        let whos = whos.map(|it| it.split_once(" for ").expect("a time").0);
        assert_eq!(sorted(whos), ["one", "three", "two"], "{ended:?}");
        assert!(!ended.out().contains("fence"), "{ended:?}");
        let ended = exec(fixture, ["ls"]).assert_code(0);
        assert!(ended.out().contains(" and 2 others  "), "{ended:?}");
        let json = json(&exec(fixture, ["ls", "-o", "json"]).assert_code(0));
        let lock = &json["locks"][0];
        let others = lock["shared_with"].as_array().expect("a list");
        let told = [&lock["holder"]].into_iter().chain(others);
        assert!(told.clone().all(|it| it["is_shared"] == true && it["fence"].is_null()), "{json}");
        let whos = told.map(|it| it["who"].as_str().expect("a text"));
        assert_eq!(sorted(whos), ["one", "three", "two"], "{json}");
        assert_eq!(lock["is_held"], true);
        let [one, two, three] = holders;
        three.close().assert_code(0);
        let ended = exec(fixture, ["ls"]).assert_code(0);
        assert!(ended.out().contains(" and 1 other  "), "{ended:?}");
        two.close().assert_code(0);
        let ended = exec(fixture, ["show", "x"]).assert_code(0);
        assert!(ended.out().contains("\nshared, with one holder\n"), "{ended:?}");
        one.close().assert_code(0);
    });
}

#[test]
fn failed_inspection_is_reported_as_text_and_json() {
    let fixture = Fixture::one();
    exec(&fixture, ["show", ""]).assert_code(64).assert_stderr("empty");
    fixture.servers[0].kill();
    for verb in [&["ls"][..], &["show", "x"]] {
        let args = || verb.iter().copied();
        exec(&fixture, args()).assert_code(69).assert_stderr("connection refused");
        let ended = exec(&fixture, args().chain(["-o", "json"])).assert_code(69);
        let expected = r#"{"error":{"code":69,"kind":"unavailable","message":"#;
        assert!(ended.err().starts_with(expected), "{ended:?}");
    }
}

/// They have answered, so the error must not report them as unreachable.
#[test]
fn quarantined_nodes_do_not_report_locks() {
    let mut fixture = Fixture::without_servers();
    fixture.servers = Server::start_many(3);
    for verb in [&["ls"][..], &["show", "x"]] {
        let ended = exec(&fixture, verb.iter().copied()).assert_code(69);
        assert!(ended.err().starts_with("quorate: no node reports locks: "), "{ended:?}");
        ended.assert_stderr("in quarantine for ");
    }
    assert!(fixture.servers.iter().all(|server| server.keys().is_empty()), "it only looks");
}

#[test]
fn unreachable_node_is_reported() {
    let fixture = Fixture::nodes(3);
    let holder = fixture.hold("x");
    fixture.servers[2].kill();
    let ended = exec(&fixture, ["show", "x"]).assert_code(0);
    assert!(ended.out().starts_with("x: held by "), "{ended:?}");
    assert!(ended.out().contains("connection refused"), "{ended:?}");
    let ended = exec(&fixture, ["ls"]).assert_code(0);
    assert!(ended.out().contains("\nx "), "{ended:?}");
    holder.close();
}

/// Partial answers are shown, and marked as incomplete.
#[test]
fn state_is_unknown_if_too_few_nodes_answer() {
    let fixture = Fixture::nodes(3);
    // The lease is not lost before its end.
    let holder = fixture.hold_with(["--ttl", "60s", "x"], "holder");
    let known = json(&exec(&fixture, ["show", "x", "-o", "json"]).assert_code(0));
    assert_eq!((&known["is_known"], &known["is_held"]), (&true.into(), &true.into()));
    // A majority stores it, possibly without a node that was reached later.
    let has_it = |server: &Server| {
        let asked = quorate_testkit::redis::cmd("EXISTS").arg("x").query(&mut server.connection());
        asked.expect("it answers")
    };
    let kept = fixture.servers.iter().position(has_it).expect("a majority has it");
    fixture.servers[(kept + 1) % 3].kill();
    let known = json(&exec(&fixture, ["show", "y", "-o", "json"]).assert_code(0));
    assert_eq!((&known["is_known"], &known["is_held"]), (&true.into(), &false.into()));
    fixture.servers[(kept + 2) % 3].kill();
    let ended = exec(&fixture, ["show", "x"])
        .assert_code(69)
        .assert_stderr("the state of \"x\" is unknown: ");
    assert!(ended.out().contains(", on 1 of 3 nodes only\n"), "{ended:?}");
    let ended =
        exec(&fixture, ["show", "y"]).assert_code(69).assert_stderr("too few nodes answered: ");
    assert!(ended.out().starts_with("y: not known: "), "{ended:?}");
    let ended = exec(&fixture, ["ls"]).assert_code(69).assert_stderr("some locks may be missing: ");
    assert!(ended.out().contains("\nx "), "{ended:?}");
    for args in
        [&["show", "x", "-o", "json"][..], &["ls", "-o", "json"], &["ls", "y", "-o", "json"]]
    {
        let ended = exec(&fixture, args.iter().copied()).assert_code(69);
        let expected = r#"{"error":{"code":69,"kind":"unavailable","message":"#;
        assert!(ended.err().starts_with(expected), "{ended:?}");
        let told = json(&ended);
        let key = if args[0] == "show" { "is_known" } else { "is_complete" };
        assert_eq!(told[key], false, "{ended:?}");
    }
    let ended = exec(&fixture, ["ls", "y"]).assert_code(69);
    assert!(!ended.err().contains("no locks"), "{ended:?}");
    // The holder has lost its lock.
    holder.signal(rustix::process::Signal::TERM);
    holder.close();
}

/// The full value could release the lock.
#[test]
fn only_the_beginning_of_a_foreign_value_is_shown() {
    let fixture = Fixture::one();
    let value = "0a1b2c3d4e5f-of-another";
    let mut steal = quorate_testkit::redis::cmd("SET");
    steal.arg("x").arg(value).exec(&mut fixture.servers[0].connection()).expect("it is set");
    let waiting = fixture.start(["-v", "x", "true"]);
    fixture.await_waiting("x", 1);
    for (args, code) in [
        (&["run", "-n", "x", "true"][..], 75),
        (&["run", "-n", "-s", "x", "true"], 75),
        (&["run", "-w", "0.3", "x", "true"], 75),
        (&["acquire", "-n", "x"], 75),
        (&["acquire", "-n", "x", "--format", "json"], 75),
        (&["show", "x"], 0),
        (&["show", "x", "-o", "json"], 0),
        (&["ls"], 0),
        (&["ls", "-o", "json"], 0),
    ] {
        let ended = fixture.exec_until_answered(args.iter().copied()).assert_code(code);
        let told = format!("{}{}", ended.out(), ended.err());
        assert!(told.contains("0a1b2c3d…") && !told.contains("0a1b2c3d4"), "{args:?}: {ended:?}");
    }
    waiting.signal(rustix::process::Signal::TERM);
    waiting.end().assert_code(143);
}

/// `script` makes a terminal.
#[test]
fn table_head_is_bold_on_a_capable_terminal() {
    let fixture = Fixture::without_servers();
    let screen = |variables: &[(&str, &str)]| {
        let mut command = std::process::Command::new("script");
        fixture.prepare(&mut command);
        let line = format!("{} config", env!("CARGO_BIN_EXE_quorate"));
        command.args(["-qec", &line, "screen"]).envs(variables.iter().copied());
        Running::start(&mut command).close().assert_code(0);
        fixture.read("screen")
    };
    for (variables, is_bold) in [
        (&[("TERM", "xterm")][..], true),
        (&[("TERM", "xterm"), ("NO_COLOR", "")], true),
        (&[("TERM", "xterm"), ("NO_COLOR", "1")], false),
        (&[("TERM", "dumb")], false),
    ] {
        let screen = screen(variables);
        assert!(screen.contains("SETTING"), "{screen:?}");
        assert_eq!(screen.contains('\x1b'), is_bold, "{variables:?}: {screen:?}");
    }
}

/// A node that answered late may change which holder is first.
fn sorted<'a>(whos: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut whos: Vec<&str> = whos.collect();
    whos.sort_unstable();
    whos
}

fn json(ended: &Ended) -> serde_json::Value {
    serde_json::from_str(ended.out()).expect("JSON")
}
