//! Output that cannot be written.

use std::{
    fs::OpenOptions,
    io,
    process::{Command, Stdio},
};

use crate::fixture::{Ended, Fixture, Running};

fn exec(fixture: &Fixture, args: &[&str], out: impl Into<Stdio>) -> Ended {
    let mut command = fixture.quorate(args.iter().copied());
    Running::start_as_is(command.stdin(Stdio::null()).stdout(out)).end()
}

fn full_disk() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("it is there").into()
}

/// A pipe with a closed reader.
fn closed_pipe() -> Stdio {
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

#[test]
fn full_disk_is_74() {
    let fixture = Fixture::without_servers();
    for args in PRINTING_COMMANDS {
        let ended =
            exec(&fixture, args, full_disk()).assert_code(74).assert_stderr("cannot write ");
        let is_json = args.ends_with(&["json"]);
        assert_eq!(ended.err().contains(r#""kind":"io""#), is_json, "{ended:?}");
    }
}

#[test]
fn closed_pipe_is_not_an_error() {
    let fixture = Fixture::without_servers();
    for args in PRINTING_COMMANDS {
        let ended = exec(&fixture, args, closed_pipe()).assert_code(0);
        assert_eq!(ended.err(), "", "{args:?}");
    }
}

/// No caller could release it.
#[test]
fn lease_that_cannot_be_written_is_released() {
    let fixture = Fixture::one();
    for out in [full_disk(), closed_pipe()] {
        exec(&fixture, &["acquire", "x"], out).assert_code(74).assert_stderr("cannot write ");
        assert!(fixture.servers[0].get("x").is_none(), "it was given back");
    }
}

/// A closed standard output has become /dev/null before the command can check it.
#[test]
fn lock_is_not_acquired_if_its_lease_would_be_discarded() {
    let fixture = Fixture::one();
    let told = "so the lease would be lost";
    exec(&fixture, &["acquire", "x"], Stdio::null()).assert_code(74).assert_stderr(told);
    let mut command = Command::new("sh");
    fixture.prepare(&mut command);
    let script = format!("exec {} acquire x >&-", env!("CARGO_BIN_EXE_quorate"));
    Running::start(command.args(["-c", &script])).close().assert_code(74).assert_stderr(told);
    assert!(fixture.servers[0].get("x").is_none(), "it is free");
}

/// Every subcommand that writes output, with local locks.
const PRINTING_COMMANDS: [&[&str]; 11] = [
    &["--help"],
    &["--version"],
    &["completions", "bash"],
    &["man"],
    &["config"],
    &["config", "-o", "json"],
    &["doctor"],
    &["doctor", "-o", "json"],
    &["ls", "-o", "json"],
    &["show", "x"],
    &["show", "x", "-o", "json"],
];
