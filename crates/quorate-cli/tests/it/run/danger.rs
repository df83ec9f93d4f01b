//! The nodes fall silent while the command runs.

use std::time::{Duration, Instant};

use quorate_testkit::{Server, eventually, redis::cmd};
use rustix::process::{Pid, Signal, kill_process};

use super::signals::{TREE, tree};
use crate::fixture::{Fixture, is_alive};

#[test]
fn all_of_the_command_is_dead_before_the_lease_ends() {
    is_dead_before_the_lease_ends(&[]);
}

#[test]
fn all_of_the_command_is_dead_before_its_share_of_the_lock_ends() {
    is_dead_before_the_lease_ends(&["-s"]);
}

#[test]
fn all_of_the_command_is_dead_before_its_permit_ends() {
    is_dead_before_the_lease_ends(&["--permits", "2"]);
}

fn is_dead_before_the_lease_ends(kind: &[&str]) {
    let fixture = Fixture::nodes(3);
    let ttl = Duration::from_secs(3);
    let args = ["--ttl", "3s", "x", "--", "sh", "-c", TREE];
    let running = fixture.start(kind.iter().copied().chain(args));
    let pids = tree(&fixture);
    fixture.servers[..2].iter().for_each(Server::pause);
    // The last renewal was sent before this, so that the lease ends earlier than a ttl from now.
    let silent_since = Instant::now();
    let is_dead = || !pids.iter().any(|pid| is_alive(pid));
    eventually("all of it is dead", ttl.saturating_sub(silent_since.elapsed()), is_dead);
    running.end().assert_code(79).assert_says("is asked to end").assert_says("was killed");
    fixture.servers[..2].iter().for_each(Server::resume);
}

#[test]
fn the_command_is_ended_when_any_of_its_locks_is_lost() {
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
        running.end().assert_code(79).assert_says(&format!("{lost:?}"));
        assert!(pids.iter().all(|pid| !is_alive(pid)), "{lost}: {pids:?}");
    }
}

#[test]
fn the_command_is_asked_first_and_can_end_in_its_own_way() {
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
fn what_has_left_the_group_or_was_stopped_is_asked_as_well() {
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
    let ended = running.end().assert_code(79).assert_says("is asked to end");
    assert!(!ended.err().contains("was killed"), "{ended:?}");
    assert_eq!(fixture.read("asked"), "asked\n");
    fixture.servers[0].resume();
}

#[test]
fn the_command_can_be_killed_without_a_word() {
    let fixture = Fixture::one();
    let script = "trap 'echo asked > asked' TERM; echo > ready; while :; do sleep 0.01; done";
    let running =
        fixture.start(["--ttl", "1s", "--on-lost", "kill", "x", "--", "sh", "-c", script]);
    fixture.await_file("ready");
    fixture.servers[0].pause();
    running.end().assert_code(79).assert_says("was killed");
    assert_eq!(fixture.read("asked"), "");
    fixture.servers[0].resume();
}

#[test]
fn the_command_can_go_on_whatever_happens_to_the_lock() {
    let fixture = Fixture::one();
    let script = "echo > ready; read line; exit 3";
    let running =
        fixture.start(["--ttl", "500ms", "--on-lost", "warn", "x", "--", "sh", "-c", script]);
    fixture.await_file("ready");
    fixture.servers[0].flush_all();
    // Another one has had the lock meanwhile.
    fixture.run(["-w", "10", "x", "true"]).assert_code(0);
    running.close().assert_code(3).assert_says("the lock is lost");
}

#[test]
fn a_command_in_our_own_group_is_ended_as_well() {
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
