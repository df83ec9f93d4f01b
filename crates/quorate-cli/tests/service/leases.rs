//! Acquiring, renewing and releasing, each through the next instance.

use std::time::{Duration, Instant};

use quorate_testkit::eventually;
use serde_json::json;

use crate::fixture::{Fixture, PATIENCE};

#[test]
fn lease_is_renewed_and_released_through_another_instance() {
    for fixture in Fixture::of_each_kind() {
        let acquired =
            fixture.acquire("orders:42", &json!({ "ttl_ms": 20_000 })).assert_status(200);
        assert!(acquired.number("fence") > 0);
        assert!((1..=20_000).contains(&acquired.number("valid_for_ms")), "{acquired:?}");
        let lease = acquired.lease_id();
        let held = fixture.acquire("orders:42", &json!({})).assert_problem(409, "held");
        assert!(held.headers.contains_key("retry-after"), "{held:?}");
        let renewed = fixture.renew(&lease).assert_status(200);
        assert!((1..=20_000).contains(&renewed.number("valid_for_ms")), "{renewed:?}");
        fixture.release(&lease).assert_status(204);
        fixture.release(&lease).assert_problem(410, "lease_lost");
        fixture.renew(&lease).assert_problem(410, "lease_lost");
        let next = fixture.acquire("orders:42", &json!({})).assert_status(200);
        assert!(next.number("fence") > acquired.number("fence"), "{next:?}");
    }
}

#[test]
fn requests_about_a_lease_take_no_parameters() {
    let fixture = Fixture::nodes(1);
    let lease = fixture.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200).lease_id();
    let path = format!("/v1/leases/{lease}");
    let [renew, downgrade] = ["renew", "downgrade"].map(|action| format!("{path}/{action}"));
    for (method, path) in [("POST", &renew), ("POST", &downgrade), ("DELETE", &path)] {
        for body in [json!({ "ttl_ms": 1 }), json!([]), json!("x")] {
            let sent = fixture.any().send(method, path, &[], Some(body.to_string().as_bytes()));
            sent.assert_problem(400, "invalid_request");
        }
    }
    fixture.any().send("POST", &renew, &[], Some(b"{}")).assert_status(200);
    let reader = fixture.any().send("POST", &downgrade, &[], Some(b"{}")).assert_status(200);
    fixture.release(&reader.lease_id()).assert_status(204);
}

#[test]
fn expired_lease_is_never_revived() {
    Fixture::on_each_kind(|fixture| {
        let expired = fixture.acquire("job", &json!({ "ttl_ms": 300 })).assert_status(200);
        eventually("the lease expires", PATIENCE, || {
            fixture.get("/v1/locks/job").assert_status(200).body["is_held"] == false
        });
        fixture.renew(&expired.lease_id()).assert_problem(410, "lease_lost");
        let next = fixture.acquire("job", &json!({})).assert_status(200);
        assert!(next.number("fence") > expired.number("fence"), "{next:?}");
        fixture.renew(&expired.lease_id()).assert_problem(410, "lease_lost");
        fixture.release(&expired.lease_id()).assert_problem(410, "lease_lost");
        fixture.renew(&next.lease_id()).assert_status(200);
    });
}

#[test]
fn lease_that_is_renewed_outlives_its_ttl() {
    let fixture = Fixture::nodes(3);
    let acquired = fixture.acquire("job", &json!({ "ttl_ms": 4_000 })).assert_status(200);
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(5) {
        let renewed = fixture.renew(&acquired.lease_id()).assert_status(200);
        assert!((1..=4_000).contains(&renewed.number("valid_for_ms")), "{renewed:?}");
        fixture.acquire("job", &json!({})).assert_problem(409, "held");
    }
    fixture.release(&acquired.lease_id()).assert_status(204);
}

#[test]
fn ttl_out_of_bounds_is_rejected() {
    for fixture in [Fixture::local(), Fixture::nodes(3)] {
        for ttl_ms in [0, 1, 19, 366 * 24 * 3_600_000, u64::MAX] {
            let refused = fixture.acquire("job", &json!({ "ttl_ms": ttl_ms }));
            refused.assert_problem(400, "out_of_bounds");
        }
        for ttl_ms in [json!(-1), json!(1.5), json!("10s"), json!([10])] {
            let refused = fixture.acquire("job", &json!({ "ttl_ms": ttl_ms }));
            let refused = refused.assert_problem(400, "invalid_request");
            let detail = refused.body["detail"].as_str().unwrap();
            assert!(detail.contains("ttl_ms"), "it names the field: {detail}");
        }
        assert_eq!(fixture.get("/v1/locks/job").body["is_held"], false);
    }
}

#[test]
fn responses_have_relative_durations_only() {
    let fixture = Fixture::nodes(1);
    let acquired = fixture.acquire("job", &json!({ "ttl_ms": 20_000 })).assert_status(200);
    let fields: Vec<&String> = acquired.body.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["fence", "lease_id", "valid_for_ms", "waited_ms"]);
    let held = fixture.acquire("job", &json!({})).assert_problem(409, "held");
    assert!((1..=20_000).contains(&held.body["holder"]["expires_in_ms"].as_u64().unwrap()));
    let lock = fixture.get("/v1/locks/job").assert_status(200);
    let holder = lock.body["holder"].as_object().unwrap();
    assert!((1..=20_000).contains(&holder["expires_in_ms"].as_u64().unwrap()), "{lock:?}");
    assert!(holder["held_for_ms"].as_u64().unwrap() < 60_000, "{lock:?}");
    for name in holder.keys() {
        assert!(!name.ends_with("_at"), "{lock:?}");
    }
}
