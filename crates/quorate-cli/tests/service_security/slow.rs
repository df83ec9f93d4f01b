//! Slow clients.

use std::{thread, time::Duration};

use quorate_testkit::eventually;

use crate::{
    fixture::{Fixture, PATIENCE},
    raw::{Raw, assert_serves, status},
};

const ACQUIRE: &str = "POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\n";

#[test]
fn slow_heads_and_idle_connections_are_closed() {
    let fixture = Fixture::start(0, 1, &["--max-head-time", "1s"]);
    let instance = fixture.any();
    let mut silent = Raw::connect(instance);
    let mut half = Raw::connect(instance);
    half.send("POST /v1/locks/a/acq");
    let mut unfinished = Raw::connect(instance);
    unfinished.send(format!("{ACQUIRE}X-A: b\r\n"));
    let mut kept = Raw::connect(instance);
    kept.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    kept.read_until("ok\n");
    assert_serves(instance, &[]);
    for (what, raw) in [("silent", &mut silent), ("half", &mut half), ("kept", &mut kept)] {
        let answer = raw.read_to_end();
        assert!(!answer.contains(" 200 "), "{what}: {answer}");
    }
    unfinished.read_to_end();
    // Sending a header now and then does not extend the time.
    let mut loris = Raw::connect(instance);
    loris.send(ACQUIRE);
    eventually("the connection is closed", PATIENCE, || {
        thread::park_timeout(Duration::from_millis(50));
        !loris.send("X-A: b\r\n")
    });
    assert_serves(instance, &[]);
}

#[test]
fn slow_bodies_are_cut_off_with_an_answer() {
    let fixture = Fixture::start(0, 1, &["--max-body-time", "500ms"]);
    let instance = fixture.any();
    let heads = ["Content-Length: 100\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"];
    for head in heads {
        let mut silent = Raw::connect(instance);
        silent.send(format!("{ACQUIRE}{head}"));
        let mut trickle = Raw::connect(instance);
        trickle.send(format!("{ACQUIRE}{head}"));
        assert_serves(instance, &[]);
        eventually("the body is cut off", PATIENCE, || {
            thread::park_timeout(Duration::from_millis(50));
            !trickle.send(if head.contains("chunked") { "1\r\n \r\n" } else { " " })
        });
        let answer = silent.read_to_end();
        assert_eq!(status(&answer), 408, "{answer}");
        assert!(answer.contains("application/problem+json"), "{answer}");
        assert!(answer.contains("request_timeout"), "{answer}");
    }
    assert_serves(instance, &[]);
}

#[test]
fn clients_that_do_not_read_delay_no_other_client() {
    let fixture = Fixture::start(0, 1, &["--max-head-time", "2s"]);
    let instance = fixture.any();
    let mut deaf: Vec<Raw> = (0..20).map(|_| Raw::connect(instance)).collect();
    for raw in &mut deaf {
        // More requests than their responses fit into the buffers of the kernel.
        for _ in 0..400 {
            raw.send("GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
        }
    }
    assert_serves(instance, &[]);
    drop(deaf);
    assert_serves(instance, &[]);
}

#[test]
fn connections_that_end_in_the_middle_leave_nothing() {
    let fixture = Fixture::start(0, 1, &["--max-connections", "5", "--max-head-time", "60s"]);
    let instance = fixture.any();
    let parts = [
        "",
        "POST",
        ACQUIRE,
        "POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
        "POST /v1/locks/a/acquire HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ];
    for part in parts.iter().cycle().take(60) {
        let mut raw = Raw::connect(instance);
        raw.send(part);
        drop(raw);
    }
    // Each would occupy one of five connections for a minute. The fixture may have one open.
    let health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    eventually("all connections are free", PATIENCE, || {
        let mut all: Vec<Raw> = (0..4).map(|_| Raw::connect(instance)).collect();
        let answers = all.iter_mut().map(|raw| {
            raw.send(health);
            raw.read_to_end()
        });
        answers.map(|answer| status(&answer)).collect::<Vec<_>>() == [200; 4]
    });
}

#[test]
fn connections_that_are_never_read_are_closed() {
    let fixture = Fixture::start(0, 1, &["--max-head-time", "1s", "--max-connections", "8"]);
    let instance = fixture.any();
    let mut deaf: Vec<Raw> = (0..8).map(|_| Raw::connect(instance)).collect();
    for raw in &mut deaf {
        raw.send("GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(400));
    }
    eventually("there is room again", PATIENCE, || {
        instance.try_send("GET", "/healthz", &[], None).is_ok_and(|it| it.status == 200)
    });
    assert_serves(instance, &[]);
}
