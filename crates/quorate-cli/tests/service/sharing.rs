//! Readers, writers and permits.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use serde_json::json;

use crate::fixture::Fixture;

#[test]
fn readers_share_the_lock_without_a_fence_and_exclude_writers() {
    for fixture in Fixture::of_each_kind() {
        let read = || fixture.acquire("doc", &json!({ "mode": "read" })).assert_status(200);
        let (first, second) = (read(), read());
        for reader in [&first, &second] {
            assert_eq!(reader.body.get("fence"), None, "{reader:?}");
        }
        for mode in ["write", "mutex"] {
            let held = fixture.acquire("doc", &json!({ "mode": mode }));
            held.assert_problem(409, "held");
        }
        fixture.renew(&first.lease_id()).assert_status(200);
        fixture.release(&first.lease_id()).assert_status(204);
        fixture.acquire("doc", &json!({ "mode": "write" })).assert_problem(409, "held");
        fixture.release(&second.lease_id()).assert_status(204);
        let writer = fixture.acquire("doc", &json!({ "mode": "write" })).assert_status(200);
        assert!(writer.number("fence") > 0);
        for mode in ["read", "write"] {
            let held = fixture.acquire("doc", &json!({ "mode": mode }));
            held.assert_problem(409, "held");
        }
        fixture.release(&writer.lease_id()).assert_status(204);
        read();
    }
}

#[test]
fn every_writer_gets_a_larger_fence_than_the_one_before() {
    let fixture = Fixture::nodes(3);
    let mut last = 0;
    for _ in 0..10 {
        let writer = fixture.acquire("doc", &json!({ "mode": "write" })).assert_status(200);
        assert!(writer.number("fence") > last, "{writer:?}");
        last = writer.number("fence");
        fixture.release(&writer.lease_id()).assert_status(204);
    }
}

#[test]
fn permits_never_exceed_their_number() {
    const PERMITS: usize = 3;
    for fixture in Fixture::of_each_kind() {
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |number: usize| {
            let request = json!({
                "mode": "permits", "permits": PERMITS, "wait_ms": 30_000, "ttl_ms": 30_000,
            });
            for round in 0..5 {
                let instance = |turn| &fixture.instances[(number + round + turn) % 2];
                let acquired = instance(0).acquire("pool", &request).assert_status(200);
                let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                assert!(now <= PERMITS, "{now} hold {PERMITS} permits");
                let path = format!("/v1/leases/{}", acquired.lease_id());
                // Before the release: after it the next owner may already hold the lock.
                inside.fetch_sub(1, Ordering::SeqCst);
                instance(1).send("DELETE", &path, &[], None).assert_status(204);
            }
        };
        thread::scope(|scope| {
            for number in 0..8 {
                scope.spawn(move || work(number));
            }
        });
        let request = json!({ "mode": "permits", "permits": PERMITS });
        let all: Vec<_> = (0..PERMITS).map(|_| fixture.acquire("pool", &request)).collect();
        for acquired in all {
            assert!(acquired.assert_status(200).number("fence") > 0);
        }
        let full = fixture.acquire("pool", &request).assert_problem(409, "held");
        assert!(full.headers.contains_key("retry-after"), "{full:?}");
    }
}

#[test]
fn invalid_permits_are_rejected() {
    let fixture = Fixture::local();
    for (request, code) in [
        (json!({ "mode": "permits" }), "out_of_bounds"),
        (json!({ "mode": "permits", "permits": 0 }), "out_of_bounds"),
        (json!({ "mode": "permits", "permits": 1025 }), "out_of_bounds"),
        (json!({ "mode": "permits", "permits": -1 }), "invalid_request"),
        (json!({ "mode": "permits", "permits": u64::MAX }), "invalid_request"),
        (json!({ "mode": "permits", "permits": "many" }), "invalid_request"),
        (json!({ "permits": 2 }), "invalid_request"),
        (json!({ "mode": "read", "permits": 2 }), "invalid_request"),
        (json!({ "mode": "exclusive" }), "invalid_request"),
    ] {
        let refused = fixture.acquire("pool", &request).assert_problem(400, code);
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.contains("permits") || detail.contains("mode"), "{request}: {detail}");
    }
    let most = json!({ "mode": "permits", "permits": 1024 });
    fixture.acquire("pool", &most).assert_status(200);
}
