//! Invalid requests get a problem, and never a 5xx.

use serde_json::json;

use crate::fixture::Fixture;

#[test]
fn unknown_paths_and_methods_are_problems() {
    let fixture = Fixture::local();
    for path in ["/", "/v1", "/v2/locks", "/v1/locks/job/release", "/v1/leases", "/index.html"] {
        fixture.get(path).assert_problem(404, "not_found");
    }
    for (method, path, allowed) in [
        ("DELETE", "/v1/locks/job", "GET"),
        ("GET", "/v1/locks/job/acquire", "POST"),
        ("PUT", "/v1/leases/x", "DELETE"),
        ("GET", "/v1/leases/x/renew", "POST"),
        ("GET", "/v1/leases/x/downgrade", "POST"),
        ("POST", "/healthz", "GET"),
        ("POST", "/v1/events", "GET"),
        ("POST", "/openapi.json", "GET"),
    ] {
        let refused = fixture.any().send(method, path, &[], None);
        let refused = refused.assert_problem(405, "method_not_allowed");
        let allow = refused.headers.get("allow").map_or("", String::as_str);
        assert!(allow.split(',').any(|it| it == allowed), "{method} {path}: {refused:?}");
    }
}

#[test]
fn invalid_bodies_are_rejected() {
    let fixture = Fixture::local();
    let send = |body: &[u8]| {
        let headers = [("Content-Type", "application/json")];
        fixture.any().send("POST", "/v1/locks/job/acquire", &headers, Some(body))
    };
    for (body, hint) in [
        (&b"{"[..], "EOF"),
        (b"[]", "object"),
        (b"[10000]", "object"),
        (b"null", "object"),
        (b"\xff\xfe", "object"),
        (b"{\"ttl\": 5}", "ttl"),
        (b"{\"wait_ms\": -5}", "wait_ms"),
        (b"{\"wait_ms\": null}", "wait_ms"),
        (b"{\"ttl_ms\": 1, \"ttl_ms\": 2}", "ttl_ms"),
        (b"{} {}", ""),
    ] {
        let refused = send(body).assert_problem(400, "invalid_request");
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.contains(hint), "{body:?}: {detail}");
    }
    let large = format!("{{\"who\": \"{}\"}}", "x".repeat(100_000));
    send(large.as_bytes()).assert_problem(413, "too_large");
    let nested = "[".repeat(10_000);
    send(nested.as_bytes()).assert_problem(400, "invalid_request");
    assert_eq!(fixture.get("/v1/locks/job").body["is_held"], false);
}

#[test]
fn empty_body_means_the_defaults() {
    let fixture = Fixture::local();
    let path = "/v1/locks/job/acquire";
    let acquired = fixture.any().send("POST", path, &[], Some(b"")).assert_status(200);
    assert!((1..=10_000).contains(&acquired.number("valid_for_ms")), "{acquired:?}");
    fixture.release(&acquired.lease_id()).assert_status(204);
    fixture.any().send("POST", path, &[], None).assert_status(200);
}

#[test]
fn invalid_lease_ids_are_rejected() {
    for fixture in [Fixture::local(), Fixture::nodes(1)] {
        let lease = fixture.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200);
        let lease = lease.lease_id();
        for wrong in ["x", "%00", "%2F", "..", "AAAA", "bm90IGEgbGVhc2U", "%ff", &"A".repeat(9_000)]
        {
            for response in [fixture.renew(wrong), fixture.release(wrong)] {
                assert_eq!(response.status, 400, "{wrong}: {response:?}");
            }
        }
        // Changes each single character.
        for at in 0..lease.len() {
            let mut changed = lease.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("ASCII");
            let response = fixture.renew(&changed);
            assert!(response.status < 500, "{at}: {response:?}");
        }
        for len in 0..lease.len() {
            let response = fixture.release(&lease[..len]);
            assert!([400, 404, 410].contains(&response.status), "{len}: {response:?}");
        }
        fixture.renew(&lease).assert_status(200);
        fixture.release(&lease).assert_status(204);
    }
}
