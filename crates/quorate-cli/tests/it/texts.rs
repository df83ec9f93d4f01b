//! Help, manual and completions are as they were read and approved. `QUORATE_APPROVE=1 cargo test`
//! writes them anew.

use std::{env, fs, path::Path};

use crate::rig::{Ended, Rig};

#[test]
fn help_is_as_approved() {
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
    ] {
        approve(name, args);
    }
}

#[test]
fn the_manual_is_as_approved() {
    approve("quorate.1", &["man"]);
    approve("quorate-run.1", &["man", "run"]);
    let rig = Rig::without_servers();
    let ended = Ended(rig.quorate(["man", "fly"]).output().expect("it runs"));
    ended.assert_code(64).assert_says("no verb `fly`");
}

#[test]
fn settings_as_json_are_as_approved() {
    approve("config.json", &["config", "-o", "json"]);
}

#[test]
fn completions_are_there_for_every_shell() {
    let rig = Rig::without_servers();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ended = Ended(rig.quorate(["completions", shell]).output().expect("it runs"));
        let ended = ended.assert_code(0);
        assert!(ended.out().contains("conflict-exit-code"), "{shell}");
    }
    // A shell that is there reads its own.
    let script = format!("source <({} completions bash)", env!("CARGO_BIN_EXE_quorate"));
    let mut bash = std::process::Command::new("bash");
    Ended(bash.args(["-c", &script]).output().expect("it runs")).assert_code(0);
}

#[track_caller]
fn approve(name: &str, args: &[&str]) {
    let rig = Rig::without_servers();
    let ended = Ended(rig.quorate(args.iter().copied()).output().expect("it runs")).assert_code(0);
    let folder = rig.folder().display().to_string();
    let line = |line: &str| format!("{}\n", line.replace(&folder, "FOLDER").trim_end());
    let text: String = ended.out().lines().map(line).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots").join(name);
    if env::var_os("QUORATE_APPROVE").is_some() {
        fs::write(&path, &text).expect("it is written");
    }
    let approved = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, approved, "{name} is not as approved: QUORATE_APPROVE=1 writes it anew");
}
