//! The program as `cargo xtask bench` calls it.

use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate-bench"));
    command.args(args).output().expect("the program starts")
}

#[test]
fn help_names_every_benchmark() {
    let help = bench(&["--help"]);
    assert!(help.status.success(), "{help:?}");
    let text = String::from_utf8(help.stdout).expect("text");
    for name in ["faults", "handoff", "limit", "scripts", "service", "several", "start", "waiters"]
    {
        assert!(text.contains(name), "{name} is missing: {text}");
    }
}

#[test]
fn unknown_benchmark_is_rejected_with_the_known_ones() {
    let rejected = bench(&["frob"]);
    assert!(!rejected.status.success(), "{rejected:?}");
    let text = String::from_utf8(rejected.stderr).expect("text");
    assert!(text.contains("frob") && text.contains("limit"), "{text}");
}

#[test]
fn every_script_is_measured() {
    let ran = bench(&["scripts", "--quick"]);
    assert!(ran.status.success(), "{ran:?}");
    let text = String::from_utf8(ran.stdout).expect("text");
    for name in ["compare-and-delete", "acquire, queued", "extend", "release with hand-off"] {
        assert!(text.contains(name), "{name} is missing: {text}");
    }
}
