//! Locks that one identity holds several times.

use std::process::Command;

use serde_json::Value;

use crate::fixture::{Ended, Fixture, Running};

use super::signals::QUORATE;

/// The binary with these arguments, and with this identity in its environment.
fn start<'a>(
    fixture: &Fixture,
    identity: &str,
    args: impl IntoIterator<Item = &'a str>,
) -> Running {
    Running::start(fixture.quorate(args).env("QUORATE_IDENTITY", identity))
}

#[track_caller]
fn exec<'a>(fixture: &Fixture, identity: &str, args: impl IntoIterator<Item = &'a str>) -> Ended {
    let args: Vec<&str> = args.into_iter().collect();
    let exec = || start(fixture, identity, args.iter().copied()).close();
    fixture.until_answered(&args, exec)
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(ended.out()).expect("JSON")
}

#[test]
fn nested_runs_of_one_identity_finish() {
    for fixture in Fixture::of_each_kind() {
        let show = "echo $QUORATE_FENCE $QUORATE_IDENTITY; \
            [ \"$QUORATE_LOCK\" = x ] && [ $QUORATE_HELD = 1 ]";
        let nested = ["run", "x", QUORATE, "run", "x", QUORATE, "run", "-v", "x", "--"];
        let nested = nested.into_iter().chain(["sh", "-c", show]);
        let ended = exec(&fixture, "job 7", nested).assert_code(0);
        let (fence, identity) = ended.out().trim().split_once(' ').expect("both");
        assert!(fence.parse::<u64>().is_ok() && identity == "job 7", "{ended:?}");
        ended.assert_stderr("acquired \"x\" with fence ");
        fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
    }
}

/// The guardian of the inner run ends slightly after the inner run.
#[test]
fn nested_run_leaves_no_process_behind() {
    let fixture = Fixture::one();
    for _ in 0..20 {
        let ended =
            exec(&fixture, "job 7", ["run", "x", QUORATE, "run", "x", "true"]).assert_code(0);
        assert!(!ended.err().contains("keeps running"), "{ended:?}");
    }
}

#[test]
fn identity_flag_is_passed_on_and_precedes_the_environment() {
    let fixture = Fixture::one();
    let inner = [QUORATE, "run", "-n", "x", "--", "sh", "-c", "echo $QUORATE_IDENTITY"];
    let outer = ["run", "--identity", "mine", "x"];
    let ended = exec(&fixture, "others", outer.into_iter().chain(inner)).assert_code(0);
    assert_eq!(ended.out(), "mine\n");
    // An empty flag counts as given.
    let outer = ["run", "--identity", "", "y", "--", "sh", "-c", "echo ${QUORATE_IDENTITY-none}"];
    assert_eq!(exec(&fixture, "others", outer).assert_code(0).out(), "none\n");
    let ended = exec(&fixture, "", ["run", "x", QUORATE, "run", "x", "true"]).assert_code(64);
    ended.assert_stderr("wait for itself").assert_stderr("QUORATE_IDENTITY");
}

#[test]
fn script_acquires_a_lock_and_runs_a_command_under_it() {
    for fixture in Fixture::of_each_kind() {
        let script = format!(
            "set -e; export QUORATE_IDENTITY=script; \
             eval \"$({QUORATE} acquire x --ttl 20s --format sh)\"; {QUORATE} run x -- echo ran; \
             QUORATE_IDENTITY= {QUORATE} run -w 0.3 x true || echo $?; \
             {QUORATE} renew; {QUORATE} release; QUORATE_IDENTITY= {QUORATE} run -w 9 x echo free"
        );
        let mut command = Command::new("sh");
        fixture.prepare(&mut command);
        let ended = Running::start(command.args(["-c", &script])).close().assert_code(0);
        assert_eq!(ended.out(), "ran\n75\nfree\n", "{ended:?}");
    }
}

#[test]
fn other_identities_and_requests_without_one_wait() {
    for fixture in Fixture::of_each_kind() {
        let holder = fixture.hold_with(["--identity", "one", "x"], "holder");
        for other in ["two", ""] {
            let ended = exec(&fixture, other, ["run", "-w", "0.3", "x", "true"]).assert_code(75);
            ended.assert_stderr("\"x\": held by quorate/");
        }
        let note = |word| format!("echo {word} >> order");
        let two = start(&fixture, "two", ["run", "x", "--", "sh", "-c", &note("two")]);
        fixture.await_waiting("x", 1);
        // The entry does not queue behind the waiter.
        exec(&fixture, "one", ["run", "-w", "9", "x", "--", "sh", "-c", &note("one")])
            .assert_code(0);
        holder.close().assert_code(0);
        two.end().assert_code(0);
        assert_eq!(fixture.read("order"), "one\ntwo\n");
    }
    let fixture = Fixture::one();
    let holder = fixture.hold_with(["--identity", "one", "x"], "holder");
    exec(&fixture, "two", ["run", "-n", "-E", "3", "x", "true"]).assert_code(3);
    exec(&fixture, "two", ["acquire", "-n", "x"]).assert_code(75);
    exec(&fixture, "one", ["run", "-n", "-s", "x", "true"]).assert_code(75);
    holder.close().assert_code(0);
}

#[test]
fn lock_is_held_until_the_last_entry_ends() {
    for fixture in Fixture::of_each_kind() {
        let outer = fixture.hold_with(["--identity", "job", "x"], "outer");
        let inner = fixture.hold_with(["--identity", "job", "x"], "inner");
        outer.close().assert_code(0);
        fixture.run_until_answered(["-n", "x", "true"]).assert_code(75);
        let waiting = fixture.start(["x", "true"]);
        fixture.await_waiting("x", 1);
        inner.close().assert_code(0);
        waiting.end().assert_code(0);
    }
}

/// The other entries are not released with it.
#[test]
fn killed_entry_expires_after_its_ttl() {
    let fixture = Fixture::one();
    let other = fixture.hold_with(["--identity", "job", "x"], "other");
    drop(fixture.hold_with(["--identity", "job", "--ttl", "2s", "x"], "killed"));
    let waiting = fixture.start(["x", "true"]);
    fixture.await_waiting("x", 1);
    other.close().assert_code(0);
    waiting.end().assert_code(0);
}

#[test]
fn only_one_exclusive_lock_is_reentrant() {
    let fixture = Fixture::one();
    for (args, why) in [
        (&["-s", "x"][..], "--shared: a shared lock is not reentrant"),
        (&["--permits", "2", "x"], "--permits: a permit is not reentrant"),
        (&["-l", "y", "x"], "several locks are acquired as a set"),
    ] {
        let flag = ["run", "--identity", "job"].iter().chain(args).copied().chain(["true"]);
        let told = fixture.exec(flag).assert_code(64);
        told.assert_stderr("--identity cannot be used with ").assert_stderr(why);
        let run = ["run"].iter().chain(args).copied().chain(["true"]);
        exec(&fixture, "job", run).assert_code(0);
        if args[0] != "-l" {
            let flag = ["acquire", "--identity", "job"].iter().chain(args).copied();
            fixture.exec(flag).assert_code(64).assert_stderr(why);
        }
    }
    // The same name twice is one lock, and the last flag counts.
    for args in [["-l", "x", "x"], ["-s", "-x", "x"]] {
        let flag = ["run", "--identity", "job"].into_iter().chain(args).chain(["true"]);
        fixture.exec(flag).assert_code(0);
    }
}

#[test]
fn nested_run_with_another_identity_is_rejected() {
    let fixture = Fixture::one();
    for (outer, inner) in [
        (&["--identity", "job"][..], &["--identity", "other"][..]),
        (&["--identity", "job"], &["--identity", ""]),
        (&["--identity", ""], &["--identity", "job"]),
        (&["--identity", "job"], &["-s"]),
        (&["--identity", "job"], &["-l", "y"]),
        (&["-s"], &["--identity", "job"]),
    ] {
        let outer = ["run"].iter().chain(outer).chain(&["x", QUORATE, "run"]);
        let args = outer.chain(inner).chain(&["x", "true"]).copied();
        let told = exec(&fixture, "job", args).assert_code(64);
        told.assert_stderr("wait for itself").assert_stderr("QUORATE_IDENTITY");
    }
}

#[test]
fn identity_has_1_to_128_bytes() {
    let fixture = Fixture::one();
    exec(&fixture, &"i".repeat(128), ["run", "x", "true"]).assert_code(0);
    let told = exec(&fixture, &"i".repeat(129), ["run", "x", "true"]).assert_code(64);
    told.assert_stderr("invalid identity of 129 bytes for the lock");
}

#[test]
fn show_reports_identity_and_entries() {
    for fixture in Fixture::of_each_kind() {
        let identity = ["--identity", "job \"7\""];
        let hold = |who| fixture.hold_with(identity.into_iter().chain(["--who", who, "x"]), who);
        let one = hold("one");
        let shown = fixture.exec(["show", "x"]).assert_code(0);
        assert!(shown.out().contains("\nentered once by \"job \\\"7\\\"\"\n"), "{shown:?}");
        let listed = fixture.exec(["ls"]).assert_code(0);
        assert!(listed.out().contains("one as \"job \\\"7\\\"\"  "), "{listed:?}");
        let two = hold("two");
        let shown = fixture.exec(["show", "x"]).assert_code(0);
        let first = shown.out().lines().next().expect("a line");
        assert!(first.contains(", entered 2 times by \"job \\\"7\\\"\""), "{shown:?}");
        assert!(shown.out().contains("\nalso held by "), "{shown:?}");
        assert!(shown.out().contains("\nfence "), "{shown:?}");
        let listed = fixture.exec(["ls"]).assert_code(0);
        assert!(listed.out().contains(", entered 2 times  "), "{listed:?}");
        let lock = json(&fixture.exec(["ls", "-o", "json"]).assert_code(0))["locks"][0].clone();
        let entries = [&lock["holder"], &lock["shared_with"][0]];
        for it in entries {
            let is_entry = it["identity"] == "job \"7\"" && it["is_shared"] == false;
            assert!(is_entry && it["fence"].is_u64(), "{lock}");
        }
        one.close().assert_code(0);
        two.close().assert_code(0);
    }
    let fixture = Fixture::one();
    let holder = fixture.hold("x");
    let lock = json(&fixture.exec(["show", "x", "-o", "json"]).assert_code(0));
    assert!(lock["holder"]["identity"].is_null(), "{lock}");
    holder.close().assert_code(0);
}
