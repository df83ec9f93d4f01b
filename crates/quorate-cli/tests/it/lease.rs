//! `quorate acquire`, `renew` and `release`.

use std::{process::Command, time::Duration};

use quorate_testkit::{Fault, Proxy, Server};

use crate::rig::{Ended, Rig, Running};

#[track_caller]
fn say<'a>(rig: &Rig, args: impl IntoIterator<Item = &'a str>) -> Ended {
    rig.say(args)
}

#[test]
fn a_script_takes_renews_and_releases_a_lock() {
    let rig = Rig::nodes(3);
    let quorate = env!("CARGO_BIN_EXE_quorate");
    let script = format!(
        "set -e; eval \"$({quorate} acquire \"it's\" --ttl 5s --format sh)\"; \
         echo $QUORATE_LOCK/$QUORATE_FENCE; {quorate} renew -v; \
         {quorate} run -n \"it's\" true || echo $?; {quorate} release; \
         {quorate} run -n \"it's\" echo free"
    );
    let mut command = Command::new("sh");
    rig.prepare(&mut command);
    let ended = Running::start(command.args(["-c", &script])).close().assert_code(0);
    let lines: Vec<&str> = ended.out().lines().collect();
    let (name, fence) = lines[0].split_once('/').expect("a name and a fence");
    assert!(name == "it's" && fence.parse::<u64>().is_ok(), "{ended:?}");
    assert_eq!(lines[1..], ["75", "free"]);
    ended.assert_says("\"it's\" lasts for 4.").assert_says("held by");
}

/// Two of three have it, and two others of three are there first.
#[test]
fn a_lease_is_found_by_whoever_meets_another_majority_first() {
    let mut rig = Rig::without_servers();
    rig.servers = Server::start_many(3);
    let slow = Proxy::start(&rig.servers[0].address());
    let nodes = [slow.url(), rig.servers[1].url(), rig.servers[2].url()].join(",");
    let say = |args: &[&str]| {
        let mut command = rig.quorate(args.iter().copied());
        Running::start(command.env("QUORATE_NODES", &nodes)).close().assert_code(0)
    };
    say(&["nodes", "admit"]);
    rig.servers[2].pause();
    let text = say(&["acquire", "x"]);
    rig.servers[2].resume();
    let time = Duration::from_millis(20);
    slow.set(Fault::Delay { up: time, down: time });
    say(&["renew", text.out().trim()]);
    say(&["release", text.out().trim()]);
}

#[test]
fn a_lease_is_text_or_json() {
    let rig = Rig::one();
    let text = say(&rig, ["acquire", "x"]).assert_code(0);
    let lease = text.out().trim();
    assert!(lease.starts_with("quorate-lease-1:10000:"), "{lease}");
    say(&rig, ["renew", lease]).assert_code(0);
    say(&rig, ["release", lease]).assert_code(0);
    let json = say(&rig, ["acquire", "x", "--ttl", "2s", "--format", "json"]).assert_code(0);
    assert!(json.out().starts_with(r#"{"fence":"#), "{json:?}");
    for part in [r#""name":"x""#, r#""ttl_ms":2000"#, r#""schema_version":1"#, "valid_for_ms"] {
        assert!(json.out().contains(part), "{part} in {json:?}");
    }
}

#[test]
fn a_lease_that_is_over_is_79() {
    let rig = Rig::one();
    let text = say(&rig, ["acquire", "x"]);
    let lease = text.out().trim();
    say(&rig, ["release", lease]).assert_code(0);
    for verb in ["renew", "release"] {
        say(&rig, [verb, lease]).assert_code(79).assert_says("no longer has it");
    }
}

#[test]
fn a_lock_that_another_has_is_not_acquired() {
    let rig = Rig::one();
    let holder = rig.hold("x");
    say(&rig, ["acquire", "-n", "x"]).assert_code(75).assert_says("held by");
    say(&rig, ["acquire", "-w", "500ms", "-E", "3", "x"]).assert_code(3).assert_says("held by");
    holder.close();
}

#[test]
fn wrong_leases_are_told() {
    let rig = Rig::one();
    for verb in ["renew", "release"] {
        say(&rig, [verb]).assert_code(64).assert_says("QUORATE_LEASE");
        say(&rig, [verb, "x"]).assert_code(64).assert_says("not a lease");
    }
    rig.servers[0].kill();
    say(&rig, ["acquire", "-n", "x"]).assert_code(69).assert_says("connection refused");
}
