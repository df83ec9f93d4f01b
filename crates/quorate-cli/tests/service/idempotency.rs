//! Requests that are repeated with the same Idempotency-Key.

use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fixture::{Fixture, Instance, Response};

#[test]
fn repeated_request_gets_the_same_lease() {
    for fixture in Fixture::of_each_kind() {
        for mode in ["mutex", "write"] {
            let request = json!({ "ttl_ms": 60_000, "mode": mode });
            let first = keyed(fixture.any(), "job", "k1", &request).assert_status(200);
            let again = keyed(fixture.any(), "job", "k1", &request).assert_status(200);
            assert_eq!(again.number("fence"), first.number("fence"));
            assert_eq!(again.lease_id(), first.lease_id());
            assert!((1..=60_000).contains(&again.number("valid_for_ms")), "{again:?}");
            fixture.renew(&again.lease_id()).assert_status(200);
            fixture.acquire("job", &request).assert_problem(409, "held");
            fixture.release(&again.lease_id()).assert_status(204);
            let later = keyed(fixture.any(), "job", "k1", &request).assert_status(200);
            assert!(later.number("fence") > first.number("fence"), "the first lease has ended");
            fixture.release(&later.lease_id()).assert_status(204);
        }
    }
}

#[test]
fn key_with_another_body_is_rejected() {
    Fixture::on_each_kind(|fixture| {
        for mode in ["mutex", "read", "write"] {
            let request = json!({ "ttl_ms": 60_000, "mode": mode });
            let first = keyed(fixture.any(), "job", "k1", &request).assert_status(200);
            let other = json!({ "ttl_ms": 30_000, "mode": mode });
            let refused = keyed(fixture.any(), "job", "k1", &other);
            refused.assert_problem(422, "idempotency_conflict");
            let waiting = json!({ "ttl_ms": 60_000, "mode": mode, "wait_ms": 20_000 });
            let refused = keyed(fixture.any(), "job", "k1", &waiting);
            refused.assert_problem(422, "idempotency_conflict");
            fixture.renew(&first.lease_id()).assert_status(200);
            fixture.release(&first.lease_id()).assert_status(204);
        }
        let request = |permits| json!({ "ttl_ms": 60_000, "mode": "permits", "permits": permits });
        keyed(fixture.any(), "pool", "k1", &request(2)).assert_status(200);
        let refused = keyed(fixture.any(), "pool", "k1", &request(3));
        refused.assert_problem(422, "idempotency_conflict");
    });
}

/// Equivalent JSON is the same request.
#[test]
fn order_of_fields_and_blanks_do_not_make_another_request() {
    let fixture = Fixture::nodes(1);
    let send = |body: &str| {
        let headers = [("Idempotency-Key", "k1")];
        let path = "/v1/locks/job/acquire";
        fixture.any().send("POST", path, &headers, Some(body.as_bytes())).assert_status(200)
    };
    let first = send(r#"{"ttl_ms":60000,"who":"a"}"#);
    let again = send(r#"{ "who": "a", "wait_ms": 0, "ttl_ms": 60000 }"#);
    assert_eq!(again.number("fence"), first.number("fence"));
}

#[test]
fn key_belongs_to_one_lock() {
    for fixture in Fixture::of_each_kind() {
        let request = json!({ "ttl_ms": 60_000 });
        let one = keyed(fixture.any(), "one", "k1", &request).assert_status(200);
        let two = keyed(fixture.any(), "two", "k1", &request).assert_status(200);
        keyed(fixture.any(), "one", "k2", &request).assert_problem(409, "held");
        for lease in [one, two] {
            fixture.release(&lease.lease_id()).assert_status(204);
        }
    }
}

#[test]
fn repeated_reader_gets_no_second_lease() {
    for fixture in Fixture::of_each_kind() {
        let request = json!({ "ttl_ms": 60_000, "mode": "read" });
        let first = keyed(fixture.any(), "doc", "k1", &request).assert_status(200);
        let again = keyed(fixture.any(), "doc", "k1", &request).assert_status(200);
        assert_eq!(again.body.get("fence"), None, "{again:?}");
        assert_eq!(again.lease_id(), first.lease_id());
        fixture.release(&again.lease_id()).assert_status(204);
        fixture.acquire("doc", &json!({ "mode": "write" })).assert_status(200);
    }
}

#[test]
fn repeated_owner_of_a_permit_gets_no_second_one() {
    for fixture in Fixture::of_each_kind() {
        let request = json!({ "ttl_ms": 60_000, "mode": "permits", "permits": 2 });
        let first = keyed(fixture.any(), "pool", "k1", &request).assert_status(200);
        let again = keyed(fixture.any(), "pool", "k1", &request).assert_status(200);
        assert_eq!(again.number("fence"), first.number("fence"));
        assert_eq!(again.lease_id(), first.lease_id());
        fixture.acquire("pool", &request).assert_status(200);
        fixture.acquire("pool", &request).assert_problem(409, "held");
        fixture.release(&again.lease_id()).assert_status(204);
        fixture.acquire("pool", &request).assert_status(200);
    }
}

#[test]
fn concurrent_duplicates_never_lose_the_lock() {
    Fixture::on_each_kind(|fixture| {
        // Waiting duplicates search for the lease of the first one every second.
        for (wait_ms, rounds) in [(0, 10), (20_000, 1)] {
            for round in 0..rounds {
                let request = json!({ "ttl_ms": 60_000, "wait_ms": wait_ms });
                let responses = duplicates(&fixture, "job", &format!("k{round}"), &request);
                check_duplicates(&fixture, "job", responses);
            }
        }
    });
}

#[test]
fn duplicates_that_wait_get_one_lock() {
    Fixture::on_each_kind(|fixture| {
        let request = json!({ "ttl_ms": 60_000, "wait_ms": 20_000 });
        let holder = fixture.acquire("job", &request).assert_status(200);
        let headers = [("Idempotency-Key", "k1")];
        let mut waiters = Vec::new();
        for count in 1..=2 {
            waiters.push(fixture.any().start_acquire("job", &headers, &request));
            fixture.await_waiting("job", count);
        }
        fixture.release(&holder.lease_id()).assert_status(204);
        let responses = waiters.iter_mut().map(crate::fixture::Sent::response).collect();
        check_duplicates(&fixture, "job", responses);
    });
}

#[test]
fn retry_after_a_disconnect_gets_the_lock() {
    Fixture::on_each_kind(|fixture| {
        let request = json!({ "ttl_ms": 60_000, "wait_ms": 20_000 });
        let holder = fixture.acquire("job", &request).assert_status(200);
        let first = fixture.any().start_acquire("job", &[("Idempotency-Key", "k1")], &request);
        fixture.await_waiting("job", 1);
        fixture.release(&holder.lease_id()).assert_status(204);
        drop(first);
        let again = keyed(fixture.any(), "job", "k1", &request).assert_status(200);
        fixture.renew(&again.lease_id()).assert_status(200);
        fixture.release(&again.lease_id()).assert_status(204);
    });
}

/// The first instance has granted the lock and is killed, and its client never reads the response.
#[test]
fn retry_through_another_instance_gets_the_lease_of_a_killed_one() {
    Fixture::on_each_kind(|mut fixture| {
        let request = json!({ "ttl_ms": 60_000 });
        let headers = [("Idempotency-Key", "k1")];
        let unread = fixture.instances[1].start_acquire("job", &headers, &request);
        unread.await_answer();
        let lock = fixture.instances[0].send("GET", "/v1/locks/job", &[], None);
        let fence = lock.body["holder"]["fence"].clone();
        fixture.instances[1].kill();
        drop(unread);
        let again = keyed(&fixture.instances[0], "job", "k1", &request).assert_status(200);
        assert_eq!(again.body["fence"], fence, "{again:?}");
        fixture.instances.pop();
        fixture.renew(&again.lease_id()).assert_status(200);
        fixture.release(&again.lease_id()).assert_status(204);
    });
}

/// A repeated request whose response is lost must not end the lease that the client already holds.
#[test]
fn undelivered_repetition_leaves_the_lease_alone() {
    Fixture::on_each_kind(|fixture| {
        let request = json!({ "ttl_ms": 60_000, "wait_ms": 1_000 });
        let headers = [("Idempotency-Key", "k1")];
        let first = keyed(fixture.any(), "job", "k1", &request).assert_status(200);
        for round in 0..60_u64 {
            let copy = fixture.any().start_acquire("job", &headers, &request);
            // At a different moment in every round.
            for _ in 0..round % 6 {
                fixture.get("/healthz").assert_status(200);
            }
            drop(copy);
            fixture.acquire("job", &json!({})).assert_problem(409, "held");
            fixture.renew(&first.lease_id()).assert_status(200);
        }
        fixture.release(&first.lease_id()).assert_status(204);
    });
}

/// An instance that was stopped answers a request whose client got its response elsewhere.
#[test]
fn late_answer_to_the_first_request_leaves_the_lease_of_the_repetition_alone() {
    for mut fixture in [Fixture::nodes(1), Fixture::nodes(3)] {
        let request = json!({ "ttl_ms": 60_000 });
        let headers = [("Idempotency-Key", "k1")];
        fixture.instances[1].stop();
        let mut late = fixture.instances[1].start_acquire("job", &headers, &request);
        let given = keyed(&fixture.instances[0], "job", "k1", &request).assert_status(200);
        fixture.instances[1].signal(Signal::CONT);
        let late = late.response().assert_status(200);
        assert_eq!(late.lease_id(), given.lease_id());
        fixture.renew(&given.lease_id()).assert_status(200);
        fixture.release(&given.lease_id()).assert_status(204);
        fixture.instances.clear();
    }
}

#[test]
fn shutdown_releases_nothing_that_a_repetition_found() {
    Fixture::on_each_kind(|mut fixture| {
        let request = json!({ "ttl_ms": 60_000, "wait_ms": 1_000 });
        let headers = [("Idempotency-Key", "k1")];
        let first = keyed(&fixture.instances[0], "job", "k1", &request).assert_status(200);
        let copies: Vec<_> = (0..40)
            .map(|_| fixture.instances[1].start_acquire("job", &headers, &request))
            .collect();
        fixture.instances[1].signal(Signal::TERM);
        assert_eq!(fixture.instances[1].end(), Some(0));
        drop(copies);
        fixture.instances.pop();
        fixture.acquire("job", &json!({})).assert_problem(409, "held");
        fixture.renew(&first.lease_id()).assert_status(200);
    });
}

#[test]
fn invalid_keys_are_rejected() {
    let fixture = Fixture::local();
    for key in [String::new(), "k".repeat(256)] {
        let refused = keyed(fixture.any(), "job", &key, &json!({}));
        refused.assert_problem(400, "invalid_request");
    }
    keyed(fixture.any(), "job", &"k".repeat(255), &json!({})).assert_status(200);
}

fn keyed(instance: &Instance, name: &str, key: &str, request: &Value) -> Response {
    instance.acquire_with(name, &[("Idempotency-Key", key)], request)
}

/// The same request at the same time, at both instances.
fn duplicates(fixture: &Fixture, name: &str, key: &str, request: &Value) -> Vec<Response> {
    let instances: Vec<&Instance> = fixture.instances.iter().cycle().take(4).collect();
    thread::scope(|scope| {
        let send = |instance| scope.spawn(move || keyed(instance, name, key, request));
        let sent: Vec<_> = instances.into_iter().map(send).collect();
        sent.into_iter().map(|response| response.join().expect("no panic")).collect()
    })
}

/// At least one request got the lock, and all of those got the same lease.
#[track_caller]
fn check_duplicates(fixture: &Fixture, name: &str, responses: Vec<Response>) {
    let (granted, others): (Vec<_>, Vec<_>) =
        responses.into_iter().partition(|response| response.status == 200);
    for other in others {
        other.assert_problem(409, "held");
    }
    let first = granted.first().unwrap_or_else(|| panic!("no client got {name}"));
    for response in &granted {
        assert_eq!(response.lease_id(), first.lease_id(), "{granted:?}");
        assert_eq!(response.number("fence"), first.number("fence"), "{granted:?}");
    }
    let lock = fixture.get(&format!("/v1/locks/{name}")).assert_status(200);
    assert_eq!(lock.body["is_held"], true, "{lock:?}");
    fixture.release(&first.lease_id()).assert_status(204);
    let next = fixture.acquire(name, &json!({})).assert_status(200);
    fixture.release(&next.lease_id()).assert_status(204);
}
