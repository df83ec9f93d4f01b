//! What cannot be written.

use std::{
    fs::OpenOptions,
    io,
    process::{Command, Stdio},
};

use crate::fixture::{Ended, Fixture, Running};

fn say(fixture: &Fixture, args: &[&str], out: impl Into<Stdio>) -> Ended {
    let mut command = fixture.quorate(args.iter().copied());
    Running::start_as_is(command.stdin(Stdio::null()).stdout(out)).end()
}

fn full_disk() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("it is there").into()
}

/// A pipe whose reader has gone.
fn closed_pipe() -> Stdio {
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

#[test]
fn a_full_disk_is_74() {
    let fixture = Fixture::without_servers();
    for args in TALKERS {
        let ended = say(&fixture, args, full_disk()).assert_code(74).assert_says("cannot write: ");
        let is_json = args.ends_with(&["json"]);
        assert_eq!(ended.err().contains(r#""kind":"io""#), is_json, "{ended:?}");
    }
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let fixture = Fixture::without_servers();
    for args in TALKERS {
        let ended = say(&fixture, args, closed_pipe()).assert_code(0);
        assert_eq!(ended.err(), "", "{args:?}");
    }
}

/// Nobody could release it.
#[test]
fn a_lease_that_cannot_be_written_is_given_back() {
    let fixture = Fixture::one();
    for out in [full_disk(), closed_pipe()] {
        say(&fixture, &["acquire", "x"], out).assert_code(74).assert_says("cannot write: ");
        assert!(fixture.servers[0].get("x").is_none(), "it was given back");
    }
}

/// What is closed is /dev/null by the time that we could ask.
#[test]
fn a_lease_that_nobody_could_read_is_not_taken() {
    let fixture = Fixture::one();
    let told = "nobody could renew or release the lease";
    say(&fixture, &["acquire", "x"], Stdio::null()).assert_code(74).assert_says(told);
    let mut command = Command::new("sh");
    fixture.prepare(&mut command);
    let script = format!("exec {} acquire x >&-", env!("CARGO_BIN_EXE_quorate"));
    Running::start(command.args(["-c", &script])).close().assert_code(74).assert_says(told);
    assert!(fixture.servers[0].get("x").is_none(), "nobody has it");
}

/// Everything that has something to say, on this machine.
const TALKERS: [&[&str]; 9] = [
    &["--help"],
    &["--version"],
    &["completions", "bash"],
    &["man"],
    &["config"],
    &["config", "-o", "json"],
    &["ls", "-o", "json"],
    &["show", "x"],
    &["show", "x", "-o", "json"],
];
