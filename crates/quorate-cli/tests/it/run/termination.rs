//! The nodes become unreachable while the command runs.

use std::time::{Duration, Instant};

use quorate_testkit::{Server, eventually, redis::cmd};
use rustix::process::{Pid, Signal, kill_process};

use super::signals::{TREE, tree};
use crate::fixture::{Fixture, is_alive};

#[test]
fn command_has_ended_before_the_lease_expires() {
    is_dead_before_the_lease_ends(&[]);
}

#[test]
fn command_has_ended_before_its_shared_lock_expires() {
    is_dead_before_the_lease_ends(&["-s"]);
}

#[test]
fn command_has_ended_before_its_permit_expires() {
    is_dead_before_the_lease_ends(&["--permits", "2"]);
}

fn is_dead_before_the_lease_ends(kind: &[&str]) {
    let fixture = Fixture::nodes(3);
    let ttl = Duration::from_secs(3);
    let args = ["--ttl", "3s", "x", "--", "sh", "-c", TREE];
    let running = fixture.start(kind.iter().copied().chain(args));
    let pids = tree(&fixture);
    fixture.servers[..2].iter().for_each(Server::pause);
    // The last renewal was sent before this, so the lease expires earlier than a ttl from now.
    let silent_since = Instant::now();
    let is_dead = || !pids.iter().any(|pid| is_alive(pid));
    eventually("all of it is dead", ttl.saturating_sub(silent_since.elapsed()), is_dead);
    running
        .end()
        .assert_code(79)
        .assert_stderr("terminating the command")
        .assert_stderr("was killed");
    fixture.servers[..2].iter().for_each(Server::resume);
}

#[test]
fn command_is_terminated_when_any_of_its_locks_is_lost() {
    for lost in ["a", "x", "z"] {
        let fixture = Fixture::one();
        let args = ["--ttl", "1s", "-l", "a", "-l", "z", "x", "--", "sh", "-c", TREE];
        let running = fixture.start(args);
        let pids = tree(&fixture);
        let mut take = cmd("SET");
        take.arg(lost)
            .arg("another")
            .exec(&mut fixture.servers[0].connection())
            .expect("an answer");
        running.end().assert_code(79).assert_stderr(&format!("{lost:?}"));
        assert!(pids.iter().all(|pid| !is_alive(pid)), "{lost}: {pids:?}");
    }
}

#[test]
fn command_is_terminated_first_and_can_clean_up() {
    let fixture = Fixture::one();
    let script =
        "trap 'echo asked > asked; exit 0' USR1; echo > ready; while :; do sleep 0.01; done";
    let args = ["--ttl", "2s", "-k", "1s", "--signal", "USR1", "x", "--", "sh", "-c", script];
    let running = fixture.start(args);
    fixture.await_file("ready");
    fixture.servers[0].pause();
    let ended = running.end().assert_code(79);
    assert!(!ended.err().contains("was killed"), "{ended:?}");
    assert_eq!(fixture.read("asked"), "asked\n");
    fixture.servers[0].resume();
}

#[test]
fn processes_outside_the_group_or_stopped_are_terminated_too() {
    let fixture = Fixture::one();
    let apart = "trap \"echo asked > asked; exit\" USR1; echo $$ > apart; \
        while :; do sleep 0.01; done";
    let script = format!(
        "trap 'exit 0' USR1; setsid sh -c '{apart}' & echo > ready; while :; do sleep 0.01; done"
    );
    let args = ["--ttl", "4s", "-k", "2s", "--signal", "USR1", "x", "--", "sh", "-c", &script];
    let running = fixture.start(args);
    fixture.await_file("ready");
    let apart = fixture.await_file("apart").trim().parse().ok().and_then(Pid::from_raw);
    kill_process(apart.expect("a pid"), Signal::STOP).expect("it is there");
    fixture.servers[0].pause();
    let ended = running.end().assert_code(79).assert_stderr("terminating the command");
    assert!(!ended.err().contains("was killed"), "{ended:?}");
    assert_eq!(fixture.read("asked"), "asked\n");
    fixture.servers[0].resume();
}

#[test]
fn on_lost_kill_kills_without_a_signal_first() {
    let fixture = Fixture::one();
    let script = "trap 'echo asked > asked' TERM; echo > ready; while :; do sleep 0.01; done";
    let running =
        fixture.start(["--ttl", "1s", "--on-lost", "kill", "x", "--", "sh", "-c", script]);
    fixture.await_file("ready");
    fixture.servers[0].pause();
    running.end().assert_code(79).assert_stderr("was killed");
    assert_eq!(fixture.read("asked"), "");
    fixture.servers[0].resume();
}

#[test]
fn on_lost_warn_keeps_the_command_running() {
    let fixture = Fixture::one();
    let script = "echo > ready; read line; exit 3";
    let running =
        fixture.start(["--ttl", "500ms", "--on-lost", "warn", "x", "--", "sh", "-c", script]);
    fixture.await_file("ready");
    fixture.servers[0].flush_all();
    // Another owner has held the lock in the meantime.
    fixture.run(["-w", "10", "x", "true"]).assert_code(0);
    running.close().assert_code(3).assert_stderr(" lost");
}

#[test]
fn command_in_the_same_group_is_terminated_too() {
    let fixture = Fixture::one();
    let running = fixture.start(["--foreground", "--ttl", "1s", "x", "--", "sh", "-c", TREE]);
    let pids = tree(&fixture);
    let group = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).expect("alive");
        stat.rsplit_once(") ").expect("a stat").1.split(' ').nth(2).expect("a group").to_owned()
    };
    assert_eq!(group(&pids[2]), group(&running.pid().as_raw_nonzero().to_string()));
    fixture.servers[0].pause();
    running.end().assert_code(79);
    assert!(pids.iter().all(|pid| !is_alive(pid)), "{pids:?}");
    fixture.servers[0].resume();
}
