//! Limits of one token, and of one instance.

use std::thread;

use quorate_testkit::eventually;
use serde_json::json;

use crate::{
    fixture::{Fixture, PATIENCE, Response},
    raw::{Raw, assert_serves, status},
    token_file::{self, Token},
};

#[track_caller]
fn assert_limited(response: Response) {
    let response = response.assert_problem(429, "too_many");
    let after: u64 = response.headers["retry-after"].parse().expect("seconds");
    assert!((1..=60).contains(&after), "{response:?}");
    assert!(response.number("retry_after_ms") > 0);
}

#[test]
fn leases_of_one_token_are_limited() {
    let (fixture, [greedy, other]) =
        token_file::start([&["greedy"], &["other"]], &["--max-leases", "2"]);
    let instance = fixture.any();
    let acquire =
        |token: &Token, name: &str| instance.acquire_with(name, &token.auth(), &json!({}));
    let first = acquire(&greedy, "a").assert_status(200);
    acquire(&greedy, "b").assert_status(200);
    assert_limited(acquire(&greedy, "c"));
    acquire(&other, "c").assert_status(200);
    assert_serves(instance, &other.auth());
    // Renewals are always possible, and a release frees a place.
    let (renew, release) = (
        format!("/v1/leases/{}/renew", first.lease_id()),
        format!("/v1/leases/{}", first.lease_id()),
    );
    instance.send("POST", &renew, &greedy.auth(), None).assert_status(200);
    instance.send("DELETE", &release, &greedy.auth(), None).assert_status(204);
    acquire(&greedy, "d").assert_status(200);
    assert_limited(acquire(&greedy, "e"));
}

#[test]
fn downgraded_lease_counts_once() {
    let (fixture, [greedy]) = token_file::start([&["greedy"]], &["--max-leases", "1"]);
    let instance = fixture.any();
    let acquire = |name: &str| instance.acquire_with(name, &greedy.auth(), &json!({}));
    let writer = acquire("a").assert_status(200);
    let downgrade = format!("/v1/leases/{}/downgrade", writer.lease_id());
    for _ in 0..2 {
        instance.send("POST", &downgrade, &greedy.auth(), None).assert_status(200);
    }
    assert_limited(acquire("b"));
    let reader = instance.send("POST", &downgrade, &greedy.auth(), None).assert_status(200);
    let release = format!("/v1/leases/{}", reader.lease_id());
    instance.send("DELETE", &release, &greedy.auth(), None).assert_status(204);
    acquire("b").assert_status(200);
}

#[test]
fn set_is_rejected_if_its_leases_exceed_the_limit() {
    let (fixture, [greedy]) = token_file::start([&["greedy"]], &["--max-leases", "3"]);
    let acquire = |name: &str, also: &[&str]| {
        fixture.any().acquire_with(name, &greedy.auth(), &json!({ "also": also }))
    };
    acquire("a", &["b"]).assert_status(200);
    assert_limited(acquire("c", &["d"]));
    acquire("c", &[]).assert_status(200);
    assert_limited(acquire("d", &[]));
}

#[test]
fn expired_leases_make_room() {
    let (fixture, [token]) = token_file::start([&["ci"]], &["--max-leases", "1"]);
    let acquire =
        |name: &str| fixture.any().acquire_with(name, &token.auth(), &json!({ "ttl_ms": 500 }));
    acquire("a").assert_status(200);
    assert_limited(acquire("b"));
    eventually("the lease expires", PATIENCE, || acquire("b").status == 200);
}

#[test]
fn waits_of_one_token_are_limited() {
    let (fixture, [greedy, other]) =
        token_file::start([&["greedy"], &["other"]], &["--max-waits", "2"]);
    let instance = fixture.any();
    let held = instance.acquire_with("a", &other.auth(), &json!({ "ttl_ms": 60_000 }));
    let held = held.assert_status(200).lease_id();
    let release = |lease: &str, token: &Token| {
        let path = format!("/v1/leases/{lease}");
        instance.send("DELETE", &path, &token.auth(), None).assert_status(204);
    };
    thread::scope(|scope| {
        let wait = || {
            let request = json!({ "wait_ms": 30_000, "ttl_ms": 60_000 });
            let acquired = instance.acquire_with("a", &greedy.auth(), &request);
            release(&acquired.assert_status(200).lease_id(), &greedy);
        };
        let waiting = [(); 2].map(|()| scope.spawn(wait));
        eventually("two wait", PATIENCE, || {
            let lock = instance.send("GET", "/v1/locks/a", &other.auth(), None);
            lock.number("waiting") == 2
        });
        assert_limited(instance.acquire_with("a", &greedy.auth(), &json!({ "wait_ms": 1 })));
        assert_limited(instance.acquire_with("free", &greedy.auth(), &json!({})));
        assert_serves(instance, &other.auth());
        release(&held, &other);
        for waiting in waiting {
            waiting.join().expect("no panic");
        }
    });
    assert_serves(instance, &greedy.auth());
}

#[test]
fn rate_of_one_token_is_limited() {
    let (fixture, [greedy, other]) =
        token_file::start([&["greedy"], &["other"]], &["--max-rate", "20"]);
    let instance = fixture.any();
    let mut limited = None;
    for _ in 0..2_000 {
        let response = instance.send("GET", "/v1/locks/a", &greedy.auth(), None);
        if response.status == 429 {
            limited = Some(response);
            break;
        }
    }
    assert_limited(limited.expect("it is limited"));
    assert_serves(instance, &other.auth());
    let is_allowed = || instance.send("GET", "/v1/locks/a", &greedy.auth(), None).status == 200;
    eventually("it is allowed again", PATIENCE, is_allowed);
}

#[test]
fn wrong_tokens_do_not_use_up_the_rate_of_others() {
    let (fixture, [token]) = token_file::start([&["ci"]], &["--max-rate", "20"]);
    let instance = fixture.any();
    for _ in 0..100 {
        let response = instance.send("GET", "/v1/locks", &[("Authorization", "Bearer x")], None);
        response.assert_problem(401, "unauthorized");
    }
    assert_serves(instance, &token.auth());
}

#[test]
fn connections_beyond_the_limit_are_rejected() {
    let fixture = Fixture::start(0, 1, &["--max-connections", "3"]);
    let instance = fixture.any();
    let health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // One of the three may be a connection that the fixture keeps open.
    let mut kept: Vec<Raw> = Vec::new();
    let mut turned_away = None;
    while turned_away.is_none() {
        assert!(kept.len() <= 3, "all were served");
        let mut raw = Raw::connect(instance);
        raw.send(health);
        let answer = raw.read_until("\r\n\r\n");
        match status(&answer) {
            200 => kept.push(raw),
            503 => turned_away = Some(answer + &raw.read_to_end()),
            other => panic!("{other}: {answer}"),
        }
    }
    let answer = turned_away.expect("just set");
    for part in ["Retry-After: 1", "application/problem+json", "\"code\":\"too_many\""] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    // Even if the client sends a lot before it reads.
    let mut large = Raw::connect(instance);
    large.send(format!(
        "POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nX: {}",
        "x".repeat(10_000)
    ));
    assert_eq!(status(&large.read_to_end()), 503);
    drop(kept);
    eventually("there is room again", PATIENCE, || {
        let mut raw = Raw::connect(instance);
        raw.send(health);
        status(&raw.read_until("\r\n\r\n")) == 200
    });
}
