//! `quorate acquire`, `renew` and `release`.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, process::Command, time::Duration};

use quorate_testkit::{Fault, Proxy, Server};
use rustix::process::Signal;

use crate::fixture::{Ended, Fixture, Running};

#[track_caller]
fn exec<'a>(fixture: &Fixture, args: impl IntoIterator<Item = &'a str>) -> Ended {
    fixture.exec(args)
}

#[test]
fn script_acquires_renews_and_releases_a_lock() {
    let fixture = Fixture::nodes(3);
    let quorate = env!("CARGO_BIN_EXE_quorate");
    let script = format!(
        "set -e; eval \"$({quorate} acquire \"it's\" --ttl 5s --format sh)\"; \
         echo $QUORATE_LOCK/$QUORATE_FENCE; {quorate} renew -v; \
         {quorate} run -n \"it's\" true || echo $?; {quorate} release; \
         {quorate} run -n \"it's\" echo free"
    );
    let mut command = Command::new("sh");
    fixture.prepare(&mut command);
    let ended = Running::start(command.args(["-c", &script])).close().assert_code(0);
    let lines: Vec<&str> = ended.out().lines().collect();
    let (name, fence) = lines[0].split_once('/').expect("a name and a fence");
    assert!(name == "it's" && fence.parse::<u64>().is_ok(), "{ended:?}");
    assert_eq!(lines[1..], ["75", "free"]);
    ended.assert_stderr("renewed \"it's\": it expires in 4.").assert_stderr("held by");
}

/// Two of three nodes store the lease, and another pair answers first.
#[test]
fn lease_is_found_through_another_majority() {
    let mut fixture = Fixture::without_servers();
    fixture.servers = Server::start_many(3);
    let slow = Proxy::start(&fixture.servers[0].address());
    let nodes = [slow.url(), fixture.servers[1].url(), fixture.servers[2].url()].join(",");
    let exec = |args: &[&str]| {
        let mut command = fixture.quorate(args.iter().copied());
        Running::start(command.env("QUORATE_NODES", &nodes)).close().assert_code(0)
    };
    exec(&["nodes", "admit"]);
    fixture.servers[2].pause();
    let text = exec(&["acquire", "x"]);
    fixture.servers[2].resume();
    let time = Duration::from_millis(20);
    slow.set(Fault::Delay { up: time, down: time });
    exec(&["renew", text.out().trim()]);
    exec(&["release", text.out().trim()]);
}

#[test]
fn lease_is_printed_as_text_or_json() {
    let fixture = Fixture::one();
    let text = exec(&fixture, ["acquire", "x"]).assert_code(0);
    let lease = text.out().trim();
    assert!(lease.starts_with("quorate-lease-1:10000:"), "{lease}");
    exec(&fixture, ["renew", lease]).assert_code(0);
    exec(&fixture, ["release", lease]).assert_code(0);
    let json = exec(&fixture, ["acquire", "x", "--ttl", "2s", "--format", "json"]).assert_code(0);
    assert!(json.out().starts_with(r#"{"fence":"#), "{json:?}");
    for part in [r#""name":"x""#, r#""ttl_ms":2000"#, r#""schema_version":1"#, "valid_for_ms"] {
        assert!(json.out().contains(part), "{part} in {json:?}");
    }
}

#[test]
fn expired_lease_is_79() {
    let fixture = Fixture::one();
    let text = exec(&fixture, ["acquire", "x"]);
    let lease = text.out().trim();
    exec(&fixture, ["release", lease]).assert_code(0);
    for verb in ["renew", "release"] {
        exec(&fixture, [verb, lease])
            .assert_code(79)
            .assert_stderr("its key was deleted or replaced");
    }
}

#[test]
fn held_lock_is_not_acquired() {
    let fixture = Fixture::one();
    let holder = fixture.hold("x");
    let busy = fixture.exec_until_answered(["acquire", "-n", "x"]).assert_code(75);
    busy.assert_stderr("held by");
    exec(&fixture, ["acquire", "-w", "500ms", "-E", "3", "x"])
        .assert_code(3)
        .assert_stderr("held by");
    holder.close();
}

/// An empty text would succeed in `eval`.
#[test]
fn script_stops_if_it_does_not_get_the_lock() {
    let fixture = Fixture::one();
    let holder = fixture.hold("x");
    let quorate = env!("CARGO_BIN_EXE_quorate");
    let script = |acquire: &str, then: &str| {
        format!(
            "QUORATE_LEASE=old; export QUORATE_LEASE; {then} eval \"$({quorate} {acquire})\" \
             || {{ echo $?/${{QUORATE_LEASE-none}}; exit 9; }}; echo RAN"
        )
    };
    let run = |shell: &str, script: &str| {
        let mut command = Command::new(shell);
        fixture.prepare(&mut command);
        Running::start(command.args(["-c", script])).close()
    };
    for (acquire, code) in [
        ("acquire -n x --format sh", 75),
        ("acquire -n x -E 3 --format sh", 3),
        ("acquire -n y --node ftp://h --format sh", 78),
        ("acquire -n y --node redis://127.0.0.1:1 --format sh", 69),
        ("acquire -n '' --format sh", 64),
        ("acquire --fly y --format=sh", 64),
        ("aquire y --format sh", 64),
    ] {
        for shell in ["sh", "dash", "bash"] {
            let ended = run(shell, &script(acquire, "")).assert_code(9);
            assert_eq!(ended.out(), format!("{code}/none\n"), "{shell}: {acquire}");
        }
        let strict = format!("set -eu; eval \"$({quorate} {acquire})\"; echo RAN");
        let ended = run("sh", &strict).assert_code(code);
        assert_eq!(ended.out(), "", "{acquire}");
    }
    let ended = run("sh", &script("acquire y --format sh", "")).assert_code(0);
    assert_eq!(ended.out(), "RAN\n");
    holder.close();
}

/// A signal during the wait is a failure too.
#[test]
fn script_stops_if_its_wait_is_interrupted() {
    let fixture = Fixture::one();
    let holder = fixture.hold("x");
    let mut command = fixture.quorate(["acquire", "x", "--format", "sh", "-v"]);
    let waiting = Running::start(&mut command);
    let one_waits = || fixture.exec(["show", "x"]).out().contains(", 1 waiting");
    fixture.await_that("it waits", one_waits);
    waiting.signal(Signal::TERM);
    let ended = waiting.end().assert_code(143);
    let unset = "unset QUORATE_LEASE QUORATE_LOCK QUORATE_FENCE QUORATE_PERMIT; (exit 143)\n";
    assert_eq!(ended.out(), unset);
    holder.close();
}

#[test]
fn script_acquires_a_shared_lock() {
    for fixture in Fixture::of_each_kind() {
        let leases = [(); 2].map(|()| exec(&fixture, ["acquire", "-s", "x"]).assert_code(0));
        let [one, two] = leases.each_ref().map(|lease| lease.out().trim());
        for _ in 0..2 {
            exec(&fixture, ["renew", "-v", one])
                .assert_code(0)
                .assert_stderr("renewed \"x\": it expires in 9.");
        }
        fixture.run_until_answered(["-n", "x", "true"]).assert_code(75).assert_stderr("held by");
        fixture.run_until_answered(["-s", "-n", "x", "true"]).assert_code(0);
        fixture.exec_until_answered(["acquire", "-n", "-s", "-x", "x"]).assert_code(75);
        exec(&fixture, ["release", one]).assert_code(0);
        exec(&fixture, ["release", one])
            .assert_code(79)
            .assert_stderr("its key was deleted or replaced");
        exec(&fixture, ["renew", one])
            .assert_code(79)
            .assert_stderr("its key was deleted or replaced");
        fixture.run_until_answered(["-n", "x", "true"]).assert_code(75).assert_stderr("held by");
        exec(&fixture, ["renew", two]).assert_code(0);
        exec(&fixture, ["release", two]).assert_code(0);
        fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
    }
}

#[test]
fn shared_lease_expires_after_its_ttl() {
    for fixture in [Fixture::without_servers(), Fixture::one()] {
        let lease = exec(&fixture, ["acquire", "-s", "--ttl", "1s", "x"]).assert_code(0);
        fixture.run(["-w", "20", "x", "true"]).assert_code(0);
        exec(&fixture, ["renew", lease.out().trim()]).assert_code(79);
    }
}

/// Variables of an earlier lease must not be mistaken for those of this one.
#[test]
fn shell_variables_have_no_fence_when_shared_and_the_permit_number() {
    let fixture = Fixture::one();
    let quorate = env!("CARGO_BIN_EXE_quorate");
    let show = "echo $QUORATE_LOCK/${QUORATE_FENCE-none}/${QUORATE_PERMIT-none}";
    let acquire =
        |args: &str| format!("eval \"$({quorate} acquire --format sh {args})\" || exit; {show}; ");
    let script = ["-s x", "--permits 1 jobs", "y", "-s x"].map(acquire).concat();
    for shell in ["sh", "bash"] {
        let mut command = Command::new(shell);
        fixture.prepare(&mut command);
        let script = format!("set -eu; {script}");
        let ended = Running::start(command.args(["-c", &script])).close().assert_code(0);
        let lines: Vec<&str> = ended.out().lines().collect();
        assert_eq!((lines[0], lines[3]), ("x/none/none", "x/none/none"), "{ended:?}");
        let fence = |line: &str, start: &str, end: &str| {
            let fence = line.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
            fence.is_some_and(|fence| fence.parse::<u64>().is_ok())
        };
        assert!(fence(lines[1], "jobs#1/", "/1"), "{ended:?}");
        assert!(fence(lines[2], "y/", "/none"), "{ended:?}");
        fixture.servers[0].flush_all();
    }
    let json = |args: &[&str]| -> serde_json::Value {
        let args = ["acquire", "--format", "json"].iter().chain(args).copied();
        serde_json::from_str(exec(&fixture, args).assert_code(0).out()).expect("JSON")
    };
    let shared = json(&["-s", "x"]);
    assert!(shared["fence"].is_null() && shared["permit"].is_null(), "{shared}");
    let permit = json(&["--permits", "1", "jobs"]);
    assert!(permit["fence"].is_u64() && permit["permit"] == 1, "{permit}");
    assert_eq!(permit["name"], "jobs#1");
    assert!(json(&["y"])["permit"].is_null());
}

#[test]
fn script_acquires_renews_and_releases_a_permit() {
    for fixture in Fixture::of_each_kind() {
        let acquire = || fixture.exec_until_answered(["acquire", "-n", "--permits", "2", "jobs"]);
        let (one, two) = (acquire().assert_code(0), acquire().assert_code(0));
        assert_ne!(one.out(), two.out());
        acquire().assert_code(75).assert_stderr("all 2 permits are in use");
        fixture
            .exec_until_answered(["acquire", "-n", "-E", "3", "--permits", "2", "jobs"])
            .assert_code(3);
        exec(&fixture, ["renew", one.out().trim()]).assert_code(0);
        exec(&fixture, ["release", one.out().trim()]).assert_code(0);
        acquire().assert_code(0);
        acquire().assert_code(75);
    }
}

#[test]
fn nested_acquire_of_the_same_lock_is_rejected() {
    let fixture = Fixture::one();
    let quorate = env!("CARGO_BIN_EXE_quorate");
    let told = fixture.run(["x", quorate, "acquire", "x"]).assert_code(64);
    told.assert_stderr("wait for itself")
        .assert_stderr("acquire the lock once, in the outer command");
    fixture.run(["x", quorate, "acquire", "y"]).assert_code(0);
    fixture.run(["-s", "x", quorate, "acquire", "-s", "x"]).assert_code(64);
    let permit = ["--permits", "2", "jobs"];
    let nested = permit.into_iter().chain([quorate, "acquire"]).chain(permit);
    fixture
        .run(nested)
        .assert_code(64)
        .assert_stderr("Acquire the permits once, in the outer command");
}

#[test]
fn lease_of_a_name_with_surrounding_blanks_is_renewed_and_released() {
    let fixture = Fixture::one();
    let text = exec(&fixture, ["acquire", " x "]).assert_code(0);
    for verb in ["renew", "release"] {
        // As printed, with its line ending.
        let mut command = fixture.quorate([verb]);
        let ended = Running::start(command.env("QUORATE_LEASE", text.out())).close();
        ended.assert_code(0);
    }
    assert!(fixture.servers[0].get(" x ").is_none(), "it was given back");
}

#[test]
fn acquire_reports_errors_as_json_if_requested() {
    let fixture = Fixture::one();
    let holder = fixture.hold("x");
    for (args, code, kind) in
        [(&["-n", "x"][..], 75, "busy"), (&["-n", ""], 64, "usage"), (&["--fly", "x"], 64, "usage")]
    {
        let args = ["acquire", "--format", "json"].iter().chain(args).copied();
        let ended = exec(&fixture, args).assert_code(code);
        let json: serde_json::Value = serde_json::from_str(ended.err()).expect("JSON");
        assert_eq!(json["schema_version"], 1, "{ended:?}");
        assert_eq!((&json["error"]["code"], &json["error"]["kind"]), (&code.into(), &kind.into()));
    }
    holder.close();
}

#[test]
fn invalid_leases_are_rejected() {
    let fixture = Fixture::one();
    for verb in ["renew", "release"] {
        exec(&fixture, [verb]).assert_code(64).assert_stderr("QUORATE_LEASE");
        let told = "invalid lease: pass the text that `quorate acquire` printed";
        exec(&fixture, [verb, "x"]).assert_code(64).assert_stderr(told);
        let mut command = fixture.quorate([verb]);
        command.env("QUORATE_LEASE", OsStr::from_bytes(b"\xff"));
        Running::start(&mut command).close().assert_code(64).assert_stderr(told);
    }
    fixture.servers[0].kill();
    exec(&fixture, ["acquire", "-n", "x"]).assert_code(69).assert_stderr("connection refused");
}

/// The second lease must not be parsed as part of the name, because the error would reveal it.
#[test]
fn concatenated_leases_are_rejected() {
    let fixture = Fixture::one();
    let lease = exec(&fixture, ["acquire", "x"]).assert_code(0);
    let lease = lease.out().trim();
    let secret = lease.split(':').nth(3).expect("an owner");
    for between in ["", " ", "\n"] {
        let both = format!("{lease}{between}{lease}");
        for verb in ["renew", "release"] {
            let ended = exec(&fixture, [verb, &both]).assert_code(64);
            assert!(!ended.err().contains(secret), "{ended:?}");
            let is_told = ended.err().contains("invalid lease") || between == "\n";
            assert!(is_told, "{ended:?}");
        }
    }
    exec(&fixture, ["release", lease]).assert_code(0);
}
