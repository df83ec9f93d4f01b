//! The flags of `quorate run`.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use quorate_testkit::{Server, eventually};

use crate::fixture::{Fixture, PATIENCE, Running, is_alive};

#[test]
fn lock_is_in_the_environment() {
    let fixture = Fixture::one();
    let show = "echo $QUORATE_HELD/$QUORATE_LOCK/$QUORATE_FENCE/$QUORATE_OWNER";
    let ended = fixture.run(["x", "--", "sh", "-c", show]).assert_code(0);
    let parts: Vec<&str> = ended.out().trim().split('/').collect();
    assert_eq!(parts[..2], ["1", "x"], "{ended:?}");
    assert!(parts[2].parse::<u64>().is_ok_and(|fence| fence > 0), "{ended:?}");
    assert!(parts[3].starts_with("q1:"), "{ended:?}");
    let later = fixture.run(["x", "--", "sh", "-c", "echo $QUORATE_FENCE"]);
    let fence = |text: &str| text.trim().parse::<u64>().expect("a number");
    assert!(fence(later.out()) > fence(parts[2]));
}

#[test]
fn command_text_is_run_by_the_shell() {
    let fixture = Fixture::one();
    assert_eq!(fixture.run(["x", "-c", "echo a | tr a b"]).assert_code(0).out(), "b\n");
    let mut command = fixture.quorate(["run", "x", "--command", "echo $0"]);
    let ended = Running::start(command.env("SHELL", "/bin/bash")).close();
    assert_eq!(ended.out(), "/bin/bash\n");
}

#[test]
fn command_arguments_are_not_parsed_as_options() {
    let fixture = Fixture::one();
    let ended =
        fixture.run_until_answered(["x", "echo", "-n", "--help", "--", "-v"]).assert_code(0);
    assert_eq!(ended.out(), "--help -- -v");
    assert_eq!(fixture.run(["x", "--", "echo", "a  b"]).out(), "a  b\n");
    fixture.run(["-x", "x", "true"]).assert_code(0);
    fixture.run(["-e", "x", "true"]).assert_code(0);
}

#[test]
fn standard_input_belongs_to_the_command() {
    let fixture = Fixture::one();
    let mut command = fixture.quorate(["run", "x", "cat"]);
    fixture.write("in", "hello");
    let file = std::fs::File::open(fixture.path("in")).expect("it is there");
    let ended = Running::start_as_is(command.stdin(file).stdout(Stdio::piped())).end();
    assert_eq!(ended.out(), "hello");
}

#[test]
fn several_locks_are_acquired_all_or_none() {
    let fixture = Fixture::one();
    let show = "echo $QUORATE_LOCK";
    let ended = fixture.run(["-l", "a", "-l", "c", "b", "--", "sh", "-c", show]).assert_code(0);
    assert_eq!(ended.out(), "a b c\n");
    let holder = fixture.hold("c");
    fixture
        .run_until_answered(["-n", "-l", "a", "-l", "c", "b", "true"])
        .assert_code(75)
        .assert_stderr("\"c\"");
    for free in ["a", "b"] {
        assert!(fixture.servers[0].get(free).is_none(), "{free} was given back");
    }
    holder.close().assert_code(0);
}

/// For all names, in any order of acquisition.
#[test]
fn fence_and_owner_belong_to_the_main_name() {
    let fixture = Fixture::one();
    for (name, others) in [("a", ["b", "c"]), ("b", ["a", "c"]), ("c", ["a", "b"])] {
        let show = format!(
            "echo $QUORATE_FENCE $QUORATE_OWNER; {} show {name}; echo \"$QUORATE_LOCKS\"",
            env!("CARGO_BIN_EXE_quorate")
        );
        let args = ["-l", others[0], "-l", others[1], name, "--", "sh", "-c", &show];
        let ended = fixture.run(args).assert_code(0);
        let lines: Vec<&str> = ended.out().lines().collect();
        let (fence, owner) = lines[0].split_once(' ').expect("both");
        assert!(lines.contains(&&*format!("fence {fence}")), "{name}: {ended:?}");
        for held in ["a", "b", "c"] {
            let is_its = lines.contains(&&*format!("{owner} {held}"));
            assert_eq!(is_its, held == name, "{name}: {ended:?}");
        }
    }
}

#[test]
fn nested_run_of_the_same_lock_is_rejected() {
    let fixture = Fixture::one();
    let quorate = env!("CARGO_BIN_EXE_quorate");
    let inner = [quorate, "run", "x", "true"];
    let told = fixture.run(["x"].into_iter().chain(inner)).assert_code(64);
    told.assert_stderr("wait for itself")
        .assert_stderr("acquire the lock once, in the outer command");
    let other = ["y", quorate, "run", "z"].into_iter().chain(inner);
    fixture.run(other).assert_code(0);
    let deep = ["x", quorate, "run", "y"].into_iter().chain(inner);
    fixture.run(deep).assert_code(64).assert_stderr("wait for itself");
}

/// A daemon that was started under the lock keeps the variables of that run.
#[test]
fn run_under_a_released_lock_acquires_normally() {
    let fixture = Fixture::one();
    let outer = fixture.run(["x", "--", "sh", "-c", "echo \"$QUORATE_LOCKS\""]).assert_code(0);
    assert!(outer.out().contains(" x\n"), "{outer:?}");
    let inner = || {
        let mut command = fixture.quorate(["run", "-n", "x", "true"]);
        Running::start(command.env("QUORATE_LOCKS", outer.out())).end()
    };
    inner().assert_code(0);
    let holder = fixture.hold("x");
    inner().assert_code(75).assert_stderr("held by");
    holder.close().assert_code(0);
}

#[test]
fn verbose_reports_the_acquire_and_quiet_only_errors() {
    let fixture = Fixture::one();
    let ended = fixture.run(["-v", "x", "true"]).assert_code(0);
    let (line, rest) = ended.err().split_once('\n').expect("a line");
    assert!(line.starts_with("quorate: acquired \"x\" with fence "), "{line}");
    assert!(line.contains(" after "), "{line}");
    assert_eq!(rest, "");
    let ended = fixture.run(["--log-format", "json", "-v", "x", "true"]).assert_code(0);
    assert!(ended.err().starts_with(r#"{"level":"info","message":"acquired "#), "{ended:?}");
    let holder = fixture.hold("x");
    let ended =
        fixture.run_until_answered(["--log-format", "json", "-n", "x", "true"]).assert_code(75);
    assert!(ended.err().starts_with(r#"{"level":"error","message":""#), "{ended:?}");
    holder.close();
}

#[test]
fn holder_and_reason_are_shown_to_waiters() {
    let fixture = Fixture::one();
    let script = "echo > started; cat > /dev/null";
    fixture.write("file.toml", "who = \"another holder\"\n");
    let file = ["--config", "file.toml"];
    let args = ["--who", "me", "--why", "moving house", "x", "--", "sh", "-c", script];
    let holder = fixture.start(file.into_iter().chain(args));
    fixture.await_file("started");
    fixture
        .run_until_answered(["-n", "x", "true"])
        .assert_code(75)
        .assert_stderr("held by me (moving house)");
    holder.close();
    std::fs::remove_file(fixture.path("started")).expect("it is there");
    // An empty name or reason counts as not given.
    let args = ["--who", "", "--why", " ", "x", "--", "sh", "-c", script];
    let holder = fixture.start(args);
    fixture.await_file("started");
    let ended = fixture
        .run_until_answered(["-n", "x", "true"])
        .assert_code(75)
        .assert_stderr("held by quorate/");
    assert!(ended.err().contains(", expires in "), "{ended:?}");
    holder.close();
}

#[test]
fn lock_is_held_for_at_least_min_hold() {
    let fixture = Fixture::one();
    let started = Instant::now();
    fixture.run(["--min-hold", "700ms", "x", "true"]).assert_code(0);
    assert!(started.elapsed() >= Duration::from_millis(700));
    let mut holder =
        fixture.start(["--min-hold", "1h", "x", "--", "sh", "-c", "echo > done; exit 4"]);
    fixture.await_file("done");
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(75);
    assert!(!holder.has_ended());
    holder.signal(rustix::process::Signal::TERM);
    holder.end().assert_code(4);
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
}

/// A misspelled command on one host must not keep the other hosts from running the job.
#[test]
fn min_hold_is_ignored_if_the_command_cannot_be_executed() {
    let fixture = Fixture::one();
    fixture.write("text", "");
    for (command, code) in [("no-such-command", 127), ("./text", 126)] {
        fixture.run(["--min-hold", "1h", "x", command]).assert_code(code);
        fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
    }
}

#[test]
fn command_is_terminated_at_max_hold() {
    let fixture = Fixture::one();
    let script = "trap 'echo asked > asked; exit' TERM; echo $$ > pid; sleep 60 & wait";
    let args = ["--max-hold", "1.5s", "-k", "1s", "x", "--", "sh", "-c", script];
    fixture.run(args).assert_code(79).assert_stderr("the limit of --max-hold");
    assert_eq!(fixture.read("asked"), "asked\n");
    assert!(!is_alive(&fixture.read("pid")));
}

#[test]
fn max_hold_applies_even_with_on_lost_warn() {
    let fixture = Fixture::one();
    let args = ["--max-hold", "300ms", "-k", "200ms", "--on-lost", "warn", "x", "--"];
    let script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.01; done";
    fixture
        .run(args.into_iter().chain(["sh", "-c", script]))
        .assert_code(79)
        .assert_stderr("killed");
    assert!(!is_alive(&fixture.read("pid")));
}

#[test]
fn loss_after_the_command_has_ended_is_ignored() {
    let fixture = Fixture::one();
    let script = "echo > done; exit 4";
    let holder = fixture.start(["--min-hold", "2s", "--ttl", "1s", "x", "--", "sh", "-c", script]);
    fixture.await_file("done");
    eventually("the command is gone", PATIENCE, || {
        crate::run::signals::children_now(holder.pid()).is_empty()
    });
    let mut steal = quorate_testkit::redis::cmd("SET");
    steal.arg("x").arg("another's").exec(&mut fixture.servers[0].connection()).expect("it is set");
    holder.end().assert_code(4);
}

#[test]
fn lock_outlives_a_killed_holder_by_at_most_its_ttl() {
    let fixture = Fixture::one();
    let holder = fixture.start(["--ttl", "1s", "x", "--", "sh", "-c", "echo > started; sleep 60"]);
    fixture.await_file("started");
    assert!(fixture.servers[0].pttl("x") <= 1_000);
    drop(holder);
    fixture.run(["-w", "5", "x", "true"]).assert_code(0);
}

#[test]
fn processes_left_behind_are_reported() {
    let fixture = Fixture::one();
    let script = "sleep 60 > /dev/null 2>&1 & echo $! > pid";
    let ended = fixture.run(["x", "--", "sh", "-c", script]).assert_code(0);
    let ended =
        ended.assert_stderr("1 process that the command started keeps running without the lock");
    drop(ended);
    let pid = fixture.read("pid");
    assert!(is_alive(&pid));
    crate::run::signals::kill(&pid);
    eventually("it is gone", PATIENCE, || !is_alive(&pid));
}

#[test]
fn flags_of_flock_are_accepted() {
    let fixture = Fixture::one();
    let holder = fixture.hold("x");
    for args in [&["--nb"][..], &["--nonblock"], &["--timeout", "0.5"], &["--wait", "0.5"]] {
        let args = args.iter().copied().chain(["--conflict-exit-code", "6", "x", "true"]);
        fixture.run(args).assert_code(6);
    }
    holder.close();
    fixture.run(["--exclusive", "--nb", "x", "true"]).assert_code(0);
}

#[test]
fn locks_of_another_folder_or_prefix_are_independent() {
    let fixture = Fixture::without_servers();
    let holder = fixture.hold("x");
    fixture.run_until_answered(["--local", "-n", "x", "true"]).assert_code(75);
    let other = fixture.path("other").display().to_string();
    fixture.run_until_answered(["--local", "--dir", &other, "-n", "x", "true"]).assert_code(0);
    holder.close();
    let fixture = Fixture::one();
    fixture
        .run(["--prefix", "mine:", "-n", "mine:x", "true"])
        .assert_code(64)
        .assert_stderr("reserved");
    fixture.run_until_answered(["--prefix", "mine:", "-n", "quorate:x", "true"]).assert_code(0);
}

/// The command would always be killed before it could do anything.
#[test]
fn ttl_too_short_to_stop_the_command_is_rejected() {
    for fixture in [Fixture::without_servers(), Fixture::one()] {
        for ttl in ["10ms", "50ms", "199ms"] {
            let ended = fixture.run(["--ttl", ttl, "x", "true"]).assert_code(64);
            ended.assert_stderr("too short to stop the command").assert_stderr("at least 200 ms");
        }
        // Whether these succeed depends on how busy the machine is.
        for args in [&["--ttl", "50ms", "--on-lost", "warn"][..], &["--ttl", "200ms"]] {
            let ended = fixture.run(args.iter().copied().chain(["x", "true"]));
            assert!(!ended.err().contains("too short"), "{ended:?}");
        }
    }
}

#[test]
fn wait_for_quarantined_nodes_is_explained() {
    let mut fixture = Fixture::without_servers();
    fixture.servers = Server::start_many(3);
    for (args, is_told) in [
        (&["run", "-w", "1s", "x", "true"][..], true),
        (&["run", "-q", "-w", "1s", "x", "true"], false),
        (&["acquire", "-w", "1s", "x"], true),
    ] {
        let ended = fixture.exec(args.iter().copied()).assert_code(69);
        let told: Vec<&str> =
            ended.err().lines().filter(|line| line.contains("waiting for \"x\": ")).collect();
        assert_eq!(told.len(), usize::from(is_told), "{ended:?}");
        for line in told {
            assert!(line.contains("in quarantine for "), "{line}");
            assert!(line.contains("`quorate nodes admit`"), "{line}");
        }
    }
    // `script` makes a terminal.
    let mut command = std::process::Command::new("script");
    fixture.prepare(&mut command);
    let line = format!("{} run -w 1s x true", env!("CARGO_BIN_EXE_quorate"));
    Running::start(command.args(["-qec", &line, "screen"])).close().assert_code(69);
    let screen = fixture.read("screen");
    assert!(screen.contains("waiting for \"x\": no majority votes for another "), "{screen:?}");
    // Once while it waits, and in the error.
    assert_eq!(screen.matches("`quorate nodes admit`").count(), 2, "{screen:?}");
}

/// By default the kernel kills a process that writes beyond the limit.
#[test]
fn file_size_limit_is_an_error_instead_of_a_kill() {
    let fixture = Fixture::without_servers();
    let quorate = env!("CARGO_BIN_EXE_quorate");
    let run = |script: String| {
        let mut command = std::process::Command::new("bash");
        fixture.prepare(&mut command);
        Running::start(command.args(["-c", &script])).close()
    };
    for is_new in [true, false] {
        for verb in ["run --local x true", "acquire --local x | cat; exit ${PIPESTATUS[0]}"] {
            let ended = run(format!("ulimit -f 1; {quorate} {verb}")).assert_code(78);
            ended.assert_stderr("check the disk");
        }
        if is_new {
            fixture.run(["--local", "x", "true"]).assert_code(0);
        }
    }
    // The command gets the default handling of the signal.
    let fixture = Fixture::one();
    let script =
        format!("ulimit -f 1; exec {quorate} run x -- dd if=/dev/zero of=big bs=64k count=9");
    let mut command = std::process::Command::new("bash");
    fixture.prepare(&mut command);
    Running::start(command.args(["-c", &script])).close().assert_code(153);
}
