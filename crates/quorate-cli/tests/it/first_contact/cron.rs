//! Cron sends a mail for each line of output.

use crate::{fixture::Fixture, run::terminal::Terminal};

#[test]
fn local_locks_are_noted_only_for_people() {
    let fixture = Fixture::without_servers();
    let note = "no nodes are configured: the lock is local to this machine";
    assert_eq!(fixture.run(["x", "true"]).assert_code(0).err(), "");
    assert_eq!(fixture.exec(["acquire", "x"]).assert_code(0).err(), "");
    fixture.run(["-v", "y", "true"]).assert_code(0).assert_stderr(note);
    for (args, is_noted) in [("run y true", true), ("run -q y true", false)] {
        assert_eq!(Terminal::start(&fixture, args).end().code(), 0);
        assert_eq!(fixture.read("screen").contains(note), is_noted, "{args}");
    }
    assert_eq!(Terminal::start(&fixture, "run --local y true").end().code(), 0);
    assert!(!fixture.read("screen").contains(note));
}

#[test]
fn local_inspection_is_noted_only_for_people() {
    let fixture = Fixture::without_servers();
    let note = "no nodes are configured: only locks of this machine are shown";
    let free = fixture.exec(["show", "x"]).assert_code(0);
    assert_eq!((free.out().lines().next(), free.err()), (Some("x: free"), ""));
    assert!(!fixture.exec(["ls"]).assert_code(0).err().contains(note));
    let quiet = fixture.exec(["ls", "-q"]).assert_code(0);
    assert_eq!((quiet.out(), quiet.err()), ("", ""));
    for (args, is_noted) in [
        ("ls", true),
        ("show x", true),
        ("ls -q", false),
        ("show -q x", false),
        ("ls --local", false),
        ("show x --local", false),
    ] {
        assert_eq!(Terminal::start(&fixture, args).end().code(), 0);
        assert_eq!(fixture.read("screen").contains(note), is_noted, "{args}");
    }
}

#[test]
fn quiet_conflicts_are_silent() {
    for fixture in Fixture::of_each_kind() {
        let holder = fixture.hold("x");
        for (args, code) in [
            (&["run", "-q", "-n", "-E", "0", "x", "true"][..], 0),
            (&["run", "-q", "-n", "x", "true"], 75),
            (&["run", "-q", "-n", "-s", "x", "true"], 75),
            (&["run", "-q", "-n", "-l", "y", "x", "true"], 75),
            (&["run", "-q", "-w", "1.5", "x", "true"], 75),
            (&["acquire", "-q", "-n", "x"], 75),
        ] {
            let ended = fixture.exec_until_answered(args.iter().copied()).assert_code(code);
            assert_eq!((ended.out(), ended.err()), ("", ""), "{args:?}");
        }
        fixture.run_until_answered(["-n", "x", "true"]).assert_code(75).assert_stderr("held by");
        holder.close().assert_code(0);
    }
}
