//! Signals reach the command, and no single kill lets it run without the lock.

use quorate_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process};

use crate::fixture::{Fixture, PATIENCE, Running, is_alive};

#[test]
fn signals_are_forwarded_to_the_whole_group() {
    let fixture = Fixture::one();
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("HUP", Signal::HUP),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ] {
        let script = format!(
            "sleep 60 > /dev/null 2>&1 & trap 'exit 7' {name}; echo $! > {name}.child; \
             while :; do wait; done"
        );
        let running = fixture.start(["x", "--", "sh", "-c", &script]);
        let child = fixture.await_file(&format!("{name}.child"));
        running.signal(signal);
        running.end().assert_code(7);
        eventually("its child has got it, too", PATIENCE, || !is_alive(&child));
    }
    // A shell starts background processes with these signals ignored.
    for (name, signal) in [("INT", Signal::INT), ("QUIT", Signal::QUIT)] {
        let script =
            format!("trap 'exit 7' {name}; echo > {name}.ready; while :; do sleep 0.01; done");
        let running = fixture.start(["x", "--", "sh", "-c", &script]);
        fixture.await_file(&format!("{name}.ready"));
        running.signal(signal);
        running.end().assert_code(7);
    }
}

#[test]
fn command_that_ignores_a_signal_keeps_running() {
    let fixture = Fixture::one();
    let script = "trap : TERM; echo > ready; while ! [ -e stop ]; do sleep 0.01; done";
    let running = fixture.start(["x", "--", "sh", "-c", script]);
    fixture.await_file("ready");
    running.signal(Signal::TERM);
    // The signal is forwarded, and the command holds the lock until it ends by itself.
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(75);
    fixture.write("stop", "");
    running.end().assert_code(0);
}

#[test]
fn signal_ends_the_wait() {
    let fixture = Fixture::one();
    let holder = fixture.hold("x");
    for (signal, code) in
        [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)]
    {
        let waiting = fixture.start(["x", "--", "sh", "-c", "echo > ran"]);
        eventually("it is queued", PATIENCE, || waits(&fixture, 1));
        waiting.signal(signal);
        let ended = waiting.end().assert_code(code);
        assert_eq!(ended.out(), "");
        eventually("it has left the queue", PATIENCE, || waits(&fixture, 0));
    }
    holder.close().assert_code(0);
    assert_eq!(fixture.read("ran"), "");
}

#[test]
fn ignored_signals_stay_ignored() {
    let fixture = Fixture::one();
    let mut command = std::process::Command::new("nohup");
    fixture.prepare(&mut command);
    let script = "echo > ready; read line; echo ended > ended";
    command.args([env!("CARGO_BIN_EXE_quorate"), "run", "x", "--", "sh", "-c", script]);
    let running = Running::start(&mut command);
    fixture.await_file("ready");
    running.signal(Signal::HUP);
    running.close().assert_code(0);
    assert_eq!(fixture.read("ended"), "ended\n");
}

#[test]
fn command_and_descendants_are_killed_when_quorate_is_killed() {
    let fixture = Fixture::one();
    let running = fixture.start(["x", "--", "sh", "-c", TREE]);
    let pids = tree(&fixture);
    running.signal(Signal::KILL);
    for pid in &pids {
        eventually("all of it is dead", PATIENCE, || !is_alive(pid));
    }
}

/// With `--foreground` they share a group, which the kernel does not wake.
#[test]
fn stopped_guardian_wakes_up_when_quorate_is_killed() {
    let fixture = Fixture::one();
    let running = fixture.start(["--foreground", "x", "--", "sh", "-c", TREE]);
    let pids = tree(&fixture);
    kill_process(children(running.pid())[0], Signal::STOP).expect("it is there");
    running.signal(Signal::KILL);
    for pid in &pids {
        eventually("all of it is dead", PATIENCE, || !is_alive(pid));
    }
}

#[test]
fn command_and_descendants_are_killed_when_the_guardian_is_killed() {
    let fixture = Fixture::one();
    let running = fixture.start(["x", "--", "sh", "-c", TREE]);
    let pids = tree(&fixture);
    kill(&children(running.pid())[0].to_string());
    running.end().assert_code(137);
    for pid in &pids {
        assert!(!is_alive(pid), "all of it is dead");
    }
    fixture.run_until_answered(["-n", "x", "true"]).assert_code(0);
}

#[test]
fn command_is_killed_when_quorate_and_guardian_are_killed() {
    let fixture = Fixture::one();
    let running = fixture.start(["x", "--", "sh", "-c", "echo $$ > pid; exec sleep 60"]);
    let pid = fixture.await_file("pid");
    let guardian = children(running.pid())[0];
    running.signal(Signal::KILL);
    kill(&guardian.to_string());
    eventually("it is dead", PATIENCE, || !is_alive(&pid));
}

#[test]
fn command_ends_before_the_lease_expires_when_quorate_is_stopped() {
    let fixture = Fixture::one();
    let running = fixture.start(["--ttl", "2s", "x", "--", "sh", "-c", TREE]);
    let pids = tree(&fixture);
    running.signal(Signal::STOP);
    // The next holder records which processes are alive when it holds the lock.
    let alive = format!("for p in {}; do kill -0 $p 2>/dev/null && echo $p; done; :", {
        pids.iter().map(|pid| pid.trim()).collect::<Vec<_>>().join(" ")
    });
    let next = fixture.run(["-w", "20", "x", "--", "sh", "-c", &alive]).assert_code(0);
    // A killed process stays a zombie until its parent reaps it: here, the stopped one.
    for pid in next.out().lines() {
        assert!(!is_alive(pid), "{pid} is alive in {pids:?}");
    }
    running.signal(Signal::CONT);
    running.end().assert_code(79).assert_stderr("lost");
}

/// A debugger may stop the command or its guardian: the lock is kept.
#[test]
fn lock_is_renewed_while_command_or_guardian_is_paused() {
    let fixture = Fixture::one();
    let script = "echo $$ > pid; while ! [ -e stop ]; do sleep 0.01; done; exit 5";
    let running = fixture.start(["--ttl", "1s", "x", "--", "sh", "-c", script]);
    let command = Pid::from_raw(fixture.await_file("pid").trim().parse().expect("a pid"));
    let guardian = children(running.pid())[0];
    for paused in [command.expect("a pid"), guardian] {
        kill_process(paused, Signal::STOP).expect("it is there");
        let fence = || fixture.servers[0].get("x");
        let held = fence();
        // For longer than a ttl, a waiter does not get the lock.
        fixture.run(["-w", "1.5", "x", "true"]).assert_code(75);
        assert!(held.is_some() && fence() == held, "it is the same holder");
        kill_process(paused, Signal::CONT).expect("it is there");
    }
    fixture.write("stop", "");
    running.end().assert_code(5);
}

#[test]
fn parent_that_ignores_sigchld_does_not_matter() {
    let fixture = Fixture::one();
    let mut command = std::process::Command::new("sh");
    fixture.prepare(&mut command);
    let line = format!("trap '' CHLD; exec {} run x -- sh -c 'exit 3'", QUORATE);
    command.args(["-c", &line]);
    Running::start(&mut command).end().assert_code(3);
}

#[test]
fn earlier_children_are_not_killed() {
    let fixture = Fixture::one();
    let mut command = std::process::Command::new("sh");
    fixture.prepare(&mut command);
    let run = "run --ttl 1s -k 100ms --max-hold 100ms x -- sleep 60";
    let line = format!("sleep 60 >/dev/null 2>&1 & echo $! > before; exec {QUORATE} {run}");
    command.args(["-c", &line]);
    Running::start(&mut command).end().assert_code(79);
    let before = fixture.read("before");
    assert!(is_alive(&before), "it is nothing of the command's");
    kill(&before);
}

#[test]
fn signals_are_forwarded_within_the_same_group() {
    let fixture = Fixture::one();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let script = "echo > ready; while :; do sleep 0.01; done";
        let running = fixture.start(["--foreground", "x", "--", "sh", "-c", script]);
        fixture.await_file("ready");
        running.signal(signal);
        running.end().assert_code(code);
        std::fs::remove_file(fixture.path("ready")).expect("it is there");
    }
}

#[test]
fn descendants_that_outlive_a_terminated_command_are_killed() {
    let fixture = Fixture::one();
    let script = "trap 'exit 0' TERM; exec > /dev/null 2>&1; \
        setsid sh -c 'trap \"\" TERM; echo $$ > apart; while :; do sleep 0.05; done' & \
        while :; do sleep 0.01; done";
    let running = fixture.start(["--ttl", "2s", "-k", "800ms", "x", "--", "sh", "-c", script]);
    let apart = fixture.await_file("apart");
    // Stopped only until the command is terminated: the lock is renewed again after that.
    fixture.servers[0].pause();
    let command = children(children(running.pid())[0])[0].as_raw_nonzero().to_string();
    eventually("the command has ended", PATIENCE, || !is_alive(&command));
    fixture.servers[0].resume();
    running.end().assert_code(79);
    assert!(!is_alive(&apart));
}

#[test]
fn proc_of_another_namespace_is_rejected() {
    let fixture = Fixture::one();
    if !has_namespaces() {
        // Skipped if the system does not allow namespaces.
        fixture.run(["x", "true"]).assert_code(0);
        return;
    }
    let mut command = std::process::Command::new("unshare");
    fixture.prepare(&mut command);
    command.args(["--map-root-user", "--user", "--pid", "--fork"]);
    command.args([QUORATE, "run", "x", "true"]);
    Running::start(&mut command).end().assert_code(70).assert_stderr("/proc");
}

pub(super) const QUORATE: &str = env!("CARGO_BIN_EXE_quorate");

/// If the system does not allow namespaces, the test runs with another pid.
#[test]
fn quorate_works_as_the_first_process_of_a_container() {
    let fixture = Fixture::one();
    // The first process must reap orphans.
    let script = "(sleep 0.1 & echo $! > orphan) ; \
                  while kill -0 $(cat orphan) 2>/dev/null; do sleep 0.01; done; exit 6";
    Running::start(&mut contained(&fixture, script)).end().assert_code(6);
    let script = "trap 'exit 8' TERM; echo > ready; while :; do sleep 0.01; done";
    let running = Running::start(&mut contained(&fixture, script));
    fixture.await_file("ready");
    let first = if has_namespaces() { children(running.pid())[0] } else { running.pid() };
    kill_process(first, Signal::TERM).expect("it is there");
    running.end().assert_code(8);
}

fn contained(fixture: &Fixture, script: &str) -> std::process::Command {
    let mut command = std::process::Command::new("unshare");
    command.args(NAMESPACES).arg(QUORATE);
    if !has_namespaces() {
        command = std::process::Command::new(QUORATE);
    }
    fixture.prepare(&mut command);
    command.args(["run", "x", "--", "sh", "-c", script]);
    command
}

pub(super) fn has_namespaces() -> bool {
    // Uses a shell builtin, because the program may not be installed.
    let mut probe = std::process::Command::new("sh");
    probe.args(["-c", "exec unshare \"$@\"", "sh"]).args(NAMESPACES).arg("true");
    Running::start(&mut probe).close().0.status.success()
}

const NAMESPACES: [&str; 6] =
    ["--map-root-user", "--user", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// A command with a child that ignores signals, and one that has left its group. They do not keep
/// the output open that a test reads: the test would wait for them and could not fail.
pub(super) const TREE: &str = "exec > /dev/null 2>&1; \
    sh -c 'trap \"\" TERM INT HUP; echo $$ > stubborn; while :; do sleep 0.05; done' & \
    setsid sh -c 'trap \"\" TERM; echo $$ > apart; while :; do sleep 0.05; done' & \
    echo $$ > command; wait";

/// The processes of that command, once all of them run.
pub(super) fn tree(fixture: &Fixture) -> Vec<String> {
    ["stubborn", "apart", "command"].into_iter().map(|name| fixture.await_file(name)).collect()
}

pub(super) fn kill(pid: &str) {
    let pid = Pid::from_raw(pid.trim().parse().expect("a pid")).expect("a pid");
    kill_process(pid, Signal::KILL).expect("it is there");
}

pub(super) fn children(parent: Pid) -> Vec<Pid> {
    let mut pids = Vec::new();
    eventually("it has a child", PATIENCE, || {
        pids = children_now(parent);
        !pids.is_empty()
    });
    pids
}

pub(super) fn children_now(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero();
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// Whether "x" has this many waiters.
pub(super) fn waits(fixture: &Fixture, count: u64) -> bool {
    let mut connection = fixture.servers[0].connection();
    let len = quorate_testkit::redis::cmd("ZCARD").arg("quorate:q:{x}").query(&mut connection);
    len.ok() == Some(count)
}
