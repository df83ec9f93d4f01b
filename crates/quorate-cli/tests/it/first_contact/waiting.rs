//! Progress of waits, on a terminal and in logs.

use std::process::Command;

use quorate_testkit::Server;

use crate::{
    fixture::{Fixture, Running},
    run::terminal::Terminal,
};

const QUORATE: &str = env!("CARGO_BIN_EXE_quorate");

#[test]
fn status_line_is_never_wider_than_the_terminal() {
    let fixture = Fixture::one();
    let holder = fixture.hold_with(["--why", &"long ".repeat(20), "x"], "holder");
    for columns in [20, 72] {
        let line = format!("sh -c 'stty cols {columns}; exec {QUORATE} run x -- true'");
        let terminal = Terminal::start_program(&fixture, &line);
        // The status is written several times.
        let statuses = || -> Vec<String> {
            let screen = fixture.read("screen");
            screen.split("\r\x1b[2K").skip(1).map(str::to_owned).collect()
        };
        fixture.await_that("three lines are shown", || statuses().len() >= 3);
        for status in statuses() {
            let width = status.trim_end().chars().count();
            assert!(width < columns && !status.contains('\n'), "{columns}: {status:?}");
        }
        if columns == 72 {
            fixture.await_screen("; next in the queue");
        }
        drop(terminal);
    }
    holder.close().assert_code(0);
}

/// In 40 columns, parts of the status are left out. The rest is a whole statement.
#[test]
fn status_lines_are_readable_in_a_narrow_terminal() {
    let start = |fixture: &Fixture, args: &str| {
        let line = format!("sh -c 'stty cols 40; exec {QUORATE} {args}'");
        Terminal::start_program(fixture, &line)
    };
    let fixture = Fixture::one();
    for (name, text) in [
        ("x", "\x1b[2Kwaiting for \"x\", held by quorate/"),
        ("nightly-backup", "\x1b[2K\"nightly-backup\": held by quorate/"),
    ] {
        let holder = fixture.hold(name);
        let terminal = start(&fixture, &format!("run {name} -- true"));
        fixture.await_screen(text);
        holder.close().assert_code(0);
        assert_eq!(terminal.end().code(), 0);
    }
    let fixture = Fixture::nodes(3);
    fixture.servers[1..].iter().for_each(Server::kill);
    let terminal = start(&fixture, "run nightly-backup -- true");
    fixture.await_screen("\x1b[2Ktoo few nodes vote: 1 of 3\r");
    drop(terminal);
    // Every line of the diagnosis fits, except for the address of the runbook.
    let terminal = start(&fixture, "doctor");
    assert_eq!(terminal.end().code(), 1);
    let screen = fixture.read("screen");
    let body = screen.lines().skip(1).take_while(|line| !line.starts_with("Script done"));
    for line in body.filter(|line| !line.contains("https://")) {
        let plain = ["31", "32", "33", "0"];
        let text = plain
            .iter()
            .fold(line.to_owned(), |text, code| text.replace(&format!("\x1b[{code}m"), ""));
        assert!(text.trim_end().chars().count() < 40, "{line:?}");
    }
    assert!(screen.contains("\r\n  -> start the server, or correct the\r\n"), "{screen}");
}

/// The next lines come after 11 s and more.
#[test]
fn wait_without_a_terminal_is_reported_once() {
    let fixture = Fixture::one();
    let holder = fixture.hold("x");
    let reported = |args: &[&str]| {
        let ended = fixture.exec(args.iter().copied()).assert_code(75);
        let lines = ended.err().lines().filter(|line| line.contains("waiting for \"x\", held by "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    for verb in [&["run", "-w", "5", "x", "true"][..], &["acquire", "-w", "5", "x"]] {
        let lines = reported(verb);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].ends_with(" so far") && lines[0].contains("; waited "), "{lines:?}");
        assert!(lines[0].contains("; next in the queue; "), "{lines:?}");
    }
    assert!(reported(&["run", "-q", "-w", "1.5", "x", "true"]).is_empty());
    let ended = fixture.run(["--log-format", "json", "-w", "5", "x", "true"]).assert_code(75);
    let info = r#"{"level":"info","message":"waiting for "#;
    assert_eq!(ended.err().matches(info).count(), 1, "{ended:?}");
    holder.close().assert_code(0);
}

#[test]
fn wait_for_silent_nodes_says_why() {
    let fixture = Fixture::nodes(3);
    fixture.servers[1..].iter().for_each(Server::kill);
    let url = fixture.servers[1].url();
    let ended = fixture.run(["-w", "5", "x", "true"]).assert_code(69);
    let why = format!("waiting for \"x\": too few nodes vote: 1 of 3: {url}: connection refused; ");
    ended.assert_stderr(&why);
    let terminal = Terminal::start(&fixture, "run -w 5 x -- true");
    assert_eq!(terminal.end().code(), 69);
    let screen = fixture.read("screen");
    assert_eq!(screen.matches(&why).count(), 1, "{screen:?}");
    assert!(
        screen.contains("\x1b[2Kwaiting for \"x\": too few nodes vote: 1 of 3\r"),
        "{screen:?}"
    );
}

#[test]
fn work_that_takes_longer_than_a_second_shows_progress() {
    let fixture = Fixture::nodes(3);
    let terminal = Terminal::start(&fixture, "run --min-hold 5s x -- true");
    assert_eq!(terminal.end().code(), 0);
    let screen = fixture.read("screen");
    assert!(screen.contains("\x1b[2Kholding the lock for "), "{screen:?}");
    // A log of each run would be a mail of cron.
    assert_eq!(fixture.run(["--min-hold", "1.5s", "x", "true"]).assert_code(0).err(), "");
    fixture.servers[1..].iter().for_each(Server::pause);
    for (args, code) in [("nodes show", 69), ("nodes change", 75)] {
        let terminal = Terminal::start(&fixture, args);
        assert_eq!(terminal.end().code(), code, "{args}");
        let screen = fixture.read("screen");
        assert!(
            screen.contains("\x1b[2Kwaiting for the nodes to answer for "),
            "{args}: {screen:?}"
        );
    }
    let mut command = Command::new("sh");
    fixture.prepare(&mut command);
    let ended = Running::start(command.args(["-c", &format!("{QUORATE} nodes show")])).close();
    assert!(!ended.assert_code(69).err().contains("waiting for the nodes"));
    fixture.servers[1..].iter().for_each(Server::resume);
}
