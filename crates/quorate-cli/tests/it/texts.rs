//! Help, man pages and JSON match their approved texts, and completions exist. `QUORATE_APPROVE=1
//! cargo test` writes them anew.

use std::{env, fs, path::Path};

use quorate_testkit::eventually;
use serde_json::Value;

use crate::fixture::{Fixture, PATIENCE, Running};

#[test]
fn help_matches_the_approved_text() {
    for (name, args) in [
        ("help.txt", &["--help"][..]),
        ("help-run.txt", &["run", "--help"]),
        ("help-acquire.txt", &["acquire", "--help"]),
        ("help-renew.txt", &["renew", "--help"]),
        ("help-release.txt", &["release", "--help"]),
        ("help-ls.txt", &["ls", "--help"]),
        ("help-show.txt", &["show", "--help"]),
        ("help-config.txt", &["config", "--help"]),
        ("help-nodes.txt", &["nodes", "--help"]),
        ("help-up.txt", &["up", "--help"]),
        ("help-down.txt", &["down", "--help"]),
        ("help-doctor.txt", &["doctor", "--help"]),
        ("help-serve.txt", &["serve", "--help"]),
        ("help-token.txt", &["token", "--help"]),
    ] {
        approve(name, args);
    }
}

#[test]
fn man_pages_match_the_approved_text() {
    approve("quorate.1", &["man"]);
    approve("quorate-run.1", &["man", "run"]);
    approve("quorate-acquire.1", &["man", "acquire"]);
    approve("quorate-nodes.1", &["man", "nodes"]);
    approve("quorate-nodes-change.1", &["man", "nodes", "change"]);
    approve("quorate-up.1", &["man", "up"]);
    approve("quorate-down.1", &["man", "down"]);
    approve("quorate-doctor.1", &["man", "doctor"]);
    approve("quorate-serve.1", &["man", "serve"]);
    approve("quorate-token.1", &["man", "token"]);
    let fixture = Fixture::without_servers();
    let ended = fixture.exec(["man", "fly"]);
    ended.assert_code(64).assert_stderr("no such subcommand: \"fly\"");
    fixture
        .exec(["man", "nodes", "fly"])
        .assert_code(64)
        .assert_stderr("no such subcommand: \"nodes fly\"");
}

/// Every page that another page mentions exists, and explains its exit codes.
#[test]
fn man_pages_refer_only_to_existing_pages() {
    let fixture = Fixture::without_servers();
    let mut names = vec!["quorate".to_owned()];
    let mut next = 0;
    while let Some(name) = names.get(next).cloned() {
        next += 1;
        let words = name.split('-').skip(1);
        let page = fixture.exec(["man"].into_iter().chain(words)).assert_code(0);
        assert!(page.out().contains(&format!(".TH {name} 1 ")), "{name}: {page:?}");
        assert!(page.out().contains("\n.SH \"EXIT STATUS\"\n.TP\n"), "{name}: {page:?}");
        let others = page.out().lines().filter_map(|line| line.strip_suffix("(1)"));
        names.extend(others.map(|other| other.replace('\\', "")));
    }
    assert_eq!(next, 20, "{names:?}");
}

#[test]
fn settings_as_json_match_the_approved_text() {
    approve("config.json", &["config", "-o", "json"]);
}

#[test]
fn locks_as_json_match_the_approved_text() {
    let fixture = Fixture::one();
    let (holder, waiting) = (fixture.hold("x"), fixture.start(["x", "true"]));
    let exec = |args: &[&str]| {
        let ended = fixture.exec(args.iter().copied());
        let ended = ended.assert_code(0);
        assert_eq!(ended.out().lines().count(), 1, "one object, one line: {ended:?}");
        serde_json::from_str::<Value>(ended.out()).expect("JSON")
    };
    let one_waits = || exec(&["show", "x", "-o", "json"])["waiting_total"] == 1;
    eventually("one waits", PATIENCE, one_waits);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let user = fixture.user();
    let person = |running: &Running, command: &str| {
        format!("quorate/{host}/{} {user}: {command}", running.pid().as_raw_nonzero())
    };
    let names = [
        (person(&holder, "sh"), "quorate/HOST/HOLDER USER: sh"),
        (person(&waiting, "true"), "quorate/HOST/WAITER USER: true"),
        (fixture.servers[0].url(), "redis://ADDRESS"),
    ];
    for (name, args) in
        [("ls.json", &["ls", "-o", "json"][..]), ("show.json", &["show", "x", "-o", "json"])]
    {
        let mut json = exec(args);
        settle(&mut json, &names);
        compare(name, &format!("{json:#}\n"));
    }
    holder.close().assert_code(0);
    waiting.end().assert_code(0);
}

#[test]
fn shared_locks_as_json_match_the_approved_text() {
    let fixture = Fixture::one();
    let holders = ["one", "two"].map(|who| fixture.hold_with(["-s", "--who", who, "x"], who));
    let ended = fixture.exec(["show", "x", "-o", "json"]).assert_code(0);
    let mut json = serde_json::from_str::<Value>(ended.out()).expect("JSON");
    settle(&mut json, &[(fixture.servers[0].url(), "redis://ADDRESS")]);
    compare("show-shared.json", &format!("{json:#}\n"));
    for holder in holders {
        holder.close().assert_code(0);
    }
}

/// Replaces values that differ between runs by fixed words, after checking their form.
fn settle(json: &mut Value, names: &[(String, &str)]) {
    match json {
        Value::Object(object) => {
            for (key, value) in object {
                match key.as_str() {
                    "owner_prefix" if value.is_string() => *value = "PREFIX".into(),
                    "fence" if value.as_u64() > Some(0) => *value = "NUMBER".into(),
                    key if key.ends_with("_ms") && value.is_u64() => *value = "NUMBER".into(),
                    _ => settle(value, names),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| settle(value, names)),
        Value::String(text) => {
            if let Some((_, word)) = names.iter().find(|(name, _)| name == text) {
                *text = (*word).to_owned();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn completions_exist_for_every_shell() {
    let fixture = Fixture::without_servers();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ended = fixture.exec(["completions", shell]);
        let ended = ended.assert_code(0);
        for flag in ["conflict-exit-code", "shared", "permits"] {
            assert!(ended.out().contains(flag), "{flag} for {shell}");
        }
    }
    // An installed shell can parse its completions.
    let script = format!("source <({} completions bash)", env!("CARGO_BIN_EXE_quorate"));
    let mut bash = std::process::Command::new("bash");
    Running::start(bash.args(["-c", &script])).close().assert_code(0);
}

#[track_caller]
fn approve(name: &str, args: &[&str]) {
    let fixture = Fixture::without_servers();
    let ended = fixture.exec(args.iter().copied()).assert_code(0);
    let folder = fixture.folder().display().to_string();
    let line = |line: &str| format!("{}\n", line.replace(&folder, "FOLDER").trim_end());
    let text: String = ended.out().lines().map(line).collect();
    compare(name, &text);
}

#[track_caller]
fn compare(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots").join(name);
    if env::var_os("QUORATE_APPROVE").is_some() {
        fs::write(&path, text).expect("it is written");
    }
    let approved = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, approved, "{name} is not as approved: QUORATE_APPROVE=1 writes it anew");
}
