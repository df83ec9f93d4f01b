//! Signals reach the command, and no single kill lets it go on without the lock.

use quorate_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process};

use crate::rig::{PATIENCE, Rig, is_alive};

#[test]
fn signals_are_passed_on_to_the_whole_group() {
    let rig = Rig::one();
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("HUP", Signal::HUP),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ] {
        let script = format!(
            "trap 'exit 7' {name}; (trap 'echo > {name}.child; exit' {name}; echo > {name}.ready; \
             while :; do sleep 0.01; done) >/dev/null 2>&1 & while :; do wait; done"
        );
        let running = rig.start(["x", "--", "sh", "-c", &script]);
        rig.await_file(&format!("{name}.ready"));
        running.signal(signal);
        running.end().assert_code(7);
        rig.await_file(&format!("{name}.child"));
    }
    // A shell lets what it starts in the background ignore these.
    for (name, signal) in [("INT", Signal::INT), ("QUIT", Signal::QUIT)] {
        let script =
            format!("trap 'exit 7' {name}; echo > {name}.ready; while :; do sleep 0.01; done");
        let running = rig.start(["x", "--", "sh", "-c", &script]);
        rig.await_file(&format!("{name}.ready"));
        running.signal(signal);
        running.end().assert_code(7);
    }
}

#[test]
fn a_command_that_does_not_mind_a_signal_goes_on() {
    let rig = Rig::one();
    let script = "trap : TERM; echo > ready; while ! [ -e stop ]; do sleep 0.01; done";
    let running = rig.start(["x", "--", "sh", "-c", script]);
    rig.await_file("ready");
    running.signal(Signal::TERM);
    // It is passed on, and the command still has the lock when it ends by itself.
    rig.run(["-n", "x", "true"]).assert_code(75);
    rig.write("stop", "");
    running.end().assert_code(0);
}

#[test]
fn a_signal_ends_the_wait() {
    let rig = Rig::one();
    let holder = rig.hold("x");
    for (signal, code) in
        [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)]
    {
        let waiting = rig.start(["x", "--", "sh", "-c", "echo > ran"]);
        eventually("it stands in line", PATIENCE, || waits(&rig, 1));
        waiting.signal(signal);
        let ended = waiting.end().assert_code(code);
        assert_eq!(ended.out(), "");
        eventually("it has left the line", PATIENCE, || waits(&rig, 0));
    }
    holder.close().assert_code(0);
    assert_eq!(rig.read("ran"), "");
}

#[test]
fn signals_that_were_ignored_stay_so() {
    let rig = Rig::one();
    let mut command = std::process::Command::new("nohup");
    rig.prepare(&mut command);
    let script = "echo > ready; read line; echo ended > ended";
    command.args([env!("CARGO_BIN_EXE_quorate"), "run", "x", "--", "sh", "-c", script]);
    let running = crate::rig::Running::start(&mut command);
    rig.await_file("ready");
    running.signal(Signal::HUP);
    running.close().assert_code(0);
    assert_eq!(rig.read("ended"), "ended\n");
}

#[test]
fn the_command_dies_with_all_it_has_started_when_quorate_is_killed() {
    let rig = Rig::one();
    let running = rig.start(["x", "--", "sh", "-c", TREE]);
    let pids = tree(&rig);
    running.signal(Signal::KILL);
    for pid in &pids {
        eventually("all of it is dead", PATIENCE, || !is_alive(pid));
    }
}

#[test]
fn the_command_dies_with_all_it_has_started_when_its_guardian_is_killed() {
    let rig = Rig::one();
    let running = rig.start(["x", "--", "sh", "-c", TREE]);
    let pids = tree(&rig);
    kill(&children(running.pid())[0].to_string());
    running.end().assert_code(137);
    for pid in &pids {
        assert!(!is_alive(pid), "all of it is dead");
    }
    rig.run(["-n", "x", "true"]).assert_code(0);
}

#[test]
fn the_command_dies_when_quorate_and_its_guardian_are_killed_at_once() {
    let rig = Rig::one();
    let running = rig.start(["x", "--", "sh", "-c", "echo $$ > pid; exec sleep 60"]);
    let pid = rig.await_file("pid");
    let guardian = children(running.pid())[0];
    running.signal(Signal::KILL);
    kill(&guardian.to_string());
    eventually("it is dead", PATIENCE, || !is_alive(&pid));
}

#[test]
fn the_command_dies_before_the_lease_ends_when_quorate_is_stopped() {
    let rig = Rig::one();
    let running = rig.start(["--ttl", "2s", "x", "--", "sh", "-c", TREE]);
    let pids = tree(&rig);
    running.signal(Signal::STOP);
    // Whoever comes next writes down who is alive when it has the lock.
    let alive = format!("for p in {}; do kill -0 $p 2>/dev/null && echo $p; done; :", {
        pids.iter().map(|pid| pid.trim()).collect::<Vec<_>>().join(" ")
    });
    let next = rig.run(["-w", "20", "x", "--", "sh", "-c", &alive]).assert_code(0);
    // A process that was killed is there until its parent has seen it: the stopped one, here.
    for pid in next.out().lines() {
        assert!(!is_alive(pid), "{pid} is alive in {pids:?}");
    }
    running.signal(Signal::CONT);
    running.end().assert_code(79).assert_says("lost");
}

#[test]
fn it_works_as_the_first_process_of_a_container() {
    let rig = Rig::one();
    let mut command = std::process::Command::new("unshare");
    rig.prepare(&mut command);
    command.args(["--map-root-user", "--user", "--pid", "--fork", "--mount-proc"]);
    // An orphan is left to the first process, which has to take it in.
    let script = "(sleep 0.1 & echo $! > orphan) ; echo $PPID > parent; \
                  while kill -0 $(cat orphan) 2>/dev/null; do sleep 0.01; done; exit 6";
    command.args([env!("CARGO_BIN_EXE_quorate"), "run", "x", "--", "sh", "-c", script]);
    crate::rig::Running::start(&mut command).end().assert_code(6);
    let mut command = std::process::Command::new("unshare");
    rig.prepare(&mut command);
    command.args(["--map-root-user", "--user", "--pid", "--fork", "--kill-child"]);
    command.arg("--mount-proc");
    let script = "trap 'exit 8' TERM; echo > ready; while :; do sleep 0.01; done";
    command.args([env!("CARGO_BIN_EXE_quorate"), "run", "x", "--", "sh", "-c", script]);
    let running = crate::rig::Running::start(&mut command);
    rig.await_file("ready");
    let first = children(running.pid())[0];
    kill_process(first, Signal::TERM).expect("it is there");
    running.end().assert_code(8);
}

/// A command with a child that minds nothing, and one that has left its group.
pub(super) const TREE: &str = "\
    sh -c 'trap \"\" TERM INT HUP; echo $$ > stubborn; while :; do sleep 0.05; done' & \
    setsid sh -c 'trap \"\" TERM; echo $$ > apart; while :; do sleep 0.05; done' & \
    echo $$ > command; wait";

/// The processes of that command, when all of them run.
pub(super) fn tree(rig: &Rig) -> Vec<String> {
    ["stubborn", "apart", "command"].into_iter().map(|name| rig.await_file(name)).collect()
}

pub(super) fn kill(pid: &str) {
    let pid = Pid::from_raw(pid.trim().parse().expect("a pid")).expect("a pid");
    kill_process(pid, Signal::KILL).expect("it is there");
}

fn children(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero();
    let path = format!("/proc/{parent}/task/{parent}/children");
    let mut pids = Vec::new();
    eventually("it has a child", PATIENCE, || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        pids = text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect();
        !pids.is_empty()
    });
    pids
}

/// Whether so many stand in line for "x".
fn waits(rig: &Rig, count: u64) -> bool {
    let mut connection = rig.servers[0].connection();
    let len = quorate_testkit::redis::cmd("ZCARD").arg("quorate:q:{x}").query(&mut connection);
    len.ok() == Some(count)
}
