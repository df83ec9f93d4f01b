//! SIGTERM and SIGINT.

use quorate_testkit::eventually;
use rustix::process::Signal;
use serde_json::json;

use crate::fixture::{Fixture, PATIENCE};

#[test]
fn instance_ends_with_code_0_on_either_signal() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut fixture = Fixture::local();
        fixture.instances[0].signal(signal);
        assert_eq!(fixture.instances[0].end(), Some(0));
        let stderr = fixture.instances[0].stderr();
        assert!(stderr.contains("shutting down"), "{stderr}");
        fixture.instances[1].acquire("job", &json!({})).assert_status(200);
    }
}

#[test]
fn waiting_requests_are_answered_with_shutting_down() {
    Fixture::on_each_kind(|mut fixture| {
        let holder = fixture.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200);
        let request = json!({ "ttl_ms": 60_000, "wait_ms": 60_000 });
        let mut waiters = Vec::new();
        for count in 1..=5 {
            waiters.push(fixture.instances[0].start_acquire("job", &[], &request));
            fixture.await_waiting("job", count);
        }
        fixture.instances[0].signal(Signal::TERM);
        for waiter in &mut waiters {
            let sent_away = waiter.response().assert_problem(503, "shutting_down");
            assert!(sent_away.headers["retry-after"].parse::<u64>().unwrap() > 0);
        }
        assert_eq!(fixture.instances[0].end(), Some(0));
        fixture.instances.remove(0);
        fixture.await_waiting("job", 0);
        fixture.release(&holder.lease_id()).assert_status(204);
        fixture.acquire("job", &json!({})).assert_status(200);
    });
}

#[test]
fn leases_outlive_their_instance() {
    Fixture::on_each_kind(|mut fixture| {
        let requests = [
            ("job", json!({ "ttl_ms": 60_000 })),
            ("doc", json!({ "ttl_ms": 60_000, "mode": "read" })),
            ("pool", json!({ "ttl_ms": 60_000, "mode": "permits", "permits": 2 })),
        ];
        let acquire = |(name, request)| fixture.instances[0].acquire(name, &request);
        let leases = requests.map(acquire).map(|lease| lease.assert_status(200).lease_id());
        fixture.instances[0].signal(Signal::TERM);
        assert_eq!(fixture.instances[0].end(), Some(0));
        fixture.instances.remove(0);
        for lease in leases {
            fixture.renew(&lease).assert_status(200);
            fixture.release(&lease).assert_status(204);
        }
    });
}

#[test]
fn draining_instance_is_not_ready_but_serves_leases() {
    Fixture::on_each_kind(|mut fixture| {
        let lease = fixture.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200);
        let draining = &fixture.instances[0];
        // On a new connection: idle ones are closed.
        let send = |method, path: &str| draining.start_request(method, path, &[], 0).response();
        // A request whose body has not arrived delays the shutdown.
        let mut unfinished = draining.start_request("POST", "/v1/locks/x/acquire", &[], 2);
        unfinished.send(b"{");
        send("GET", "/readyz").assert_status(200);
        draining.signal(Signal::TERM);
        eventually("it is not ready", PATIENCE, || send("GET", "/readyz").status == 503);
        send("GET", "/readyz").assert_problem(503, "shutting_down");
        send("GET", "/healthz").assert_status(200);
        let refused = draining.start_acquire("other", &[], &json!({})).response();
        let refused = refused.assert_problem(503, "shutting_down");
        assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
        let path = format!("/v1/leases/{}", lease.lease_id());
        send("POST", &format!("{path}/renew")).assert_status(200);
        let reader = send("POST", &format!("{path}/downgrade")).assert_status(200);
        send("DELETE", &format!("/v1/leases/{}", reader.lease_id())).assert_status(204);
        unfinished.send(b"}");
        unfinished.response().assert_problem(503, "shutting_down");
        assert_eq!(fixture.instances[0].end(), Some(0));
        fixture.instances[1].acquire("job", &json!({})).assert_status(200);
    });
}

#[test]
fn release_in_progress_finishes() {
    let mut fixture = Fixture::nodes(1);
    for mode in ["mutex", "read"] {
        fixture.add(&[]);
        let request = json!({ "ttl_ms": 60_000, "mode": mode });
        let lease = fixture.acquire("job", &request).assert_status(200).lease_id();
        let ending = fixture.instances.last_mut().expect("just added");
        fixture.servers[0].pause();
        let path = format!("/v1/leases/{lease}");
        let mut release = ending.start_request("DELETE", &path, &[], 0);
        // The instance is still serving: a later request got its response.
        ending.send("GET", "/healthz", &[], None).assert_status(200);
        ending.signal(Signal::TERM);
        eventually("it drains", PATIENCE, || ending.stderr().contains("shutting down"));
        fixture.servers[0].resume();
        let status = release.response().status;
        assert!([204, 503].contains(&status), "{status}");
        assert_eq!(ending.end(), Some(0));
        fixture.instances.pop();
        let next = fixture.acquire("job", &json!({})).assert_status(200);
        fixture.release(&next.lease_id()).assert_status(204);
    }
}

#[test]
fn streams_of_events_end_with_the_instance() {
    let mut fixture = Fixture::local();
    let mut events = fixture.instances[0].watch("", None);
    events.next().expect("a snapshot").snapshot();
    fixture.instances[0].signal(Signal::TERM);
    assert!(events.next().is_none(), "the stream ends");
    assert_eq!(fixture.instances[0].end(), Some(0));
}

#[test]
fn grace_bounds_the_shutdown() {
    let mut fixture = Fixture::start(0, 1, &["--grace", "200ms"]);
    let mut unfinished = fixture.instances[0].start_request("POST", "/v1/locks/x/acquire", &[], 2);
    unfinished.send(b"{");
    fixture.instances[0].send("GET", "/healthz", &[], None).assert_status(200);
    fixture.instances[0].signal(Signal::TERM);
    // Without the bound the shutdown would wait for the body.
    assert_eq!(fixture.instances[0].end(), Some(0));
    drop(unfinished);
}
