//! Thousands of idle connections.

use std::{fs, net::TcpStream, thread, time::Duration};

use quorate_testkit::eventually;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{
    fixture::{Fixture, PATIENCE},
    raw::{Raw, assert_serves, status},
};

/// As many connections as this process may open, up to 10,000.
fn raise_file_limit() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If this fails there are fewer connections, which the test reports.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // Other tests run in the same process.
    usize::try_from(limit.saturating_sub(1_000)).unwrap_or(usize::MAX).min(CONNECTIONS)
}

#[test]
fn ten_thousand_idle_connections_delay_no_other_client() {
    let count = raise_file_limit();
    assert!(count >= 1_000, "raise the limit of open files: only {count} connections are possible");
    let fixture = Fixture::start(0, 1, &["--max-head-time", "10m"]);
    let instance = fixture.any();
    let files = || {
        let folder = format!("/proc/{}/fd", instance.pid().as_raw_nonzero());
        fs::read_dir(folder).expect("it runs").count()
    };
    let before = files();
    let mut idle = Vec::with_capacity(count);
    for number in 0..count {
        idle.push(TcpStream::connect(instance.address).expect("it listens"));
        if number % 1_000 == 0 {
            assert_serves(instance, &[]);
        }
    }
    eventually("all are accepted", PATIENCE, || files() >= before + count);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    assert_serves(instance, &[]);
                }
            });
        }
    });
    drop(idle);
    eventually("no connection is left", PATIENCE, || files() < before + 100);
    assert_serves(instance, &[]);
}

#[test]
fn instance_with_few_files_serves_as_many_connections_as_it_can() {
    let fixture = Fixture::start(0, 0, &[]);
    // 256 files are reserved for other purposes. Idle connections stay open for longer than it
    // takes to open them all, even on a busy machine.
    let quorate = fixture.quorate(&["serve", "--listen", "127.0.0.1:0", "--max-head-time", "10s"]);
    let mut quorate = quorate;
    quorate.args(["--max-connections", "1000"]);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -n 300 && exec \"$@\"", "sh"]).arg(quorate.get_program());
    limited.args(quorate.get_args()).current_dir(fixture.path(""));
    for (name, value) in quorate.get_envs() {
        limited.env(name, value.unwrap_or_default());
    }
    let instance = crate::fixture::Instance::start(&mut limited);
    assert!(instance.stderr().contains("accepting 44 connections"), "{}", instance.stderr());
    let mut idle: Vec<Raw> = (0..400).map(|_| Raw::connect(&instance)).collect();
    let mut late = Raw::connect(&instance);
    late.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answer = late.read_to_end();
    assert!(answer.is_empty() || status(&answer) == 503, "{answer}");
    for raw in &mut idle {
        raw.read_to_end();
    }
    thread::park_timeout(Duration::ZERO);
    assert_serves(&instance, &[]);
}

const CONNECTIONS: usize = 10_000;
