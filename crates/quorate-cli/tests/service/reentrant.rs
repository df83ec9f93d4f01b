//! Locks that several requests hold under one identity.

use serde_json::{Value, json};

use crate::fixture::{Fixture, Response};

fn entry(identity: &str) -> Value {
    json!({ "identity": identity, "ttl_ms": 60_000 })
}

fn keyed(fixture: &Fixture, key: &str, request: &Value) -> Response {
    fixture.any().acquire_with("job", &[("Idempotency-Key", key)], request)
}

#[test]
fn requests_of_one_identity_hold_the_lock_until_the_last_lease_ends() {
    for fixture in Fixture::of_each_kind() {
        let outer = fixture.acquire("job", &entry("import")).assert_status(200);
        let inner = fixture.acquire("job", &json!({ "identity": "import", "mode": "write" }));
        let inner = inner.assert_status(200);
        assert_ne!(inner.lease_id(), outer.lease_id());
        assert!(inner.number("fence") >= outer.number("fence"));
        for other in [json!({}), entry("export"), json!({ "mode": "read" })] {
            fixture.acquire("job", &other).assert_problem(409, "held");
        }
        fixture.renew(&outer.lease_id()).assert_status(200);
        fixture.release(&outer.lease_id()).assert_status(204);
        fixture.acquire("job", &json!({})).assert_problem(409, "held");
        fixture.renew(&inner.lease_id()).assert_status(200);
        fixture.release(&inner.lease_id()).assert_status(204);
        fixture.acquire("job", &entry("export")).assert_status(200);
    }
}

#[test]
fn entry_does_not_queue_behind_other_requests() {
    for fixture in Fixture::of_each_kind() {
        let outer = fixture.acquire("job", &entry("import")).assert_status(200);
        let request = json!({ "wait_ms": 30_000, "ttl_ms": 60_000 });
        let mut waiting = fixture.any().start_acquire("job", &[], &request);
        fixture.await_waiting("job", 1);
        let inner = fixture.acquire("job", &entry("import")).assert_status(200);
        for lease in [outer, inner] {
            fixture.release(&lease.lease_id()).assert_status(204);
        }
        waiting.response().assert_status(200);
    }
}

#[test]
fn identity_is_shown_with_every_entry() {
    for fixture in Fixture::of_each_kind() {
        for _ in 0..2 {
            fixture.acquire("job", &entry("import")).assert_status(200);
        }
        let lock = fixture.get("/v1/locks/job").assert_status(200);
        for holder in [&lock.body["holder"], &lock.body["shared_with"][0]] {
            assert_eq!(holder["identity"], "anyone/import", "{lock:?}");
            assert_eq!(holder["is_shared"], false, "{lock:?}");
            assert!(holder["fence"].is_u64(), "{lock:?}");
        }
        fixture.acquire("other", &json!({})).assert_status(200);
        let lock = fixture.get("/v1/locks/other").assert_status(200);
        assert_eq!(lock.body["holder"].get("identity"), None, "{lock:?}");
    }
}

#[test]
fn repeated_entry_gets_no_second_lease() {
    for fixture in Fixture::of_each_kind() {
        let first = keyed(&fixture, "k1", &entry("import")).assert_status(200);
        let again = keyed(&fixture, "k1", &entry("import")).assert_status(200);
        assert_eq!(again.lease_id(), first.lease_id());
        let second = keyed(&fixture, "k2", &entry("import")).assert_status(200);
        assert_ne!(second.lease_id(), first.lease_id());
        for other in [entry("export"), json!({ "ttl_ms": 60_000 })] {
            keyed(&fixture, "k1", &other).assert_problem(422, "idempotency_conflict");
        }
        let held = keyed(&fixture, "k3", &entry("export"));
        held.assert_problem(409, "held");
        for lease in [first, second] {
            fixture.renew(&lease.lease_id()).assert_status(200);
            fixture.release(&lease.lease_id()).assert_status(204);
        }
        fixture.acquire("job", &json!({})).assert_status(200);
    }
}

#[test]
fn invalid_identities_are_rejected() {
    let fixture = Fixture::local();
    for (request, code) in [
        (json!({ "identity": "" }), "out_of_bounds"),
        (entry(&"i".repeat(65)), "out_of_bounds"),
        (json!({ "identity": 7 }), "invalid_request"),
        (json!({ "identity": "i", "mode": "read" }), "invalid_request"),
        (json!({ "identity": "i", "mode": "permits", "permits": 2 }), "invalid_request"),
        (json!({ "identity": "i", "also": ["b"] }), "invalid_request"),
    ] {
        let refused = fixture.acquire("job", &request).assert_problem(400, code);
        let detail = refused.body["detail"].as_str().expect("a text");
        assert!(detail.contains("identity") || request["identity"] == 7, "{request}: {detail}");
    }
    fixture.acquire("job", &entry(&"i".repeat(64))).assert_status(200);
    fixture.acquire("none", &json!({ "identity": null })).assert_status(200);
}
