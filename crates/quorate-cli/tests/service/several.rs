//! Several locks in one request.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use quorate_testkit::eventually;
use serde_json::{Value, json};

use crate::fixture::{Fixture, PATIENCE, Response};

/// The lease of each lock.
fn leases(response: &Response) -> BTreeMap<String, Value> {
    let leases = response.body["leases"].as_array().unwrap_or_else(|| panic!("{response:?}"));
    leases.iter().map(|it| (it["name"].as_str().expect("a name").to_owned(), it.clone())).collect()
}

fn id(lease: &Value) -> &str {
    lease["lease_id"].as_str().expect("an id")
}

fn is_free(fixture: &Fixture, name: &str) -> bool {
    fixture.get(&format!("/v1/locks/{name}")).assert_status(200).body["is_held"] == false
}

#[test]
fn all_locks_are_acquired_and_each_is_renewed_and_released_by_itself() {
    for fixture in Fixture::of_each_kind() {
        let before = fixture.acquire("b", &json!({})).assert_status(200);
        fixture.release(&before.lease_id()).assert_status(204);
        let request = json!({ "also": ["c", "b", "a", "b"], "ttl_ms": 30_000, "who": "worker-7" });
        let acquired = fixture.acquire("a", &request).assert_status(200);
        assert!((1..=30_000).contains(&acquired.number("valid_for_ms")), "{acquired:?}");
        let all = leases(&acquired);
        assert_eq!(all.keys().collect::<Vec<_>>(), ["a", "b", "c"], "each once");
        assert_eq!(acquired.lease_id(), id(&all["a"]), "that of the lock in the path");
        assert_eq!(acquired.number("fence"), all["a"]["fence"].as_u64().expect("a fence"));
        assert!(all["b"]["fence"].as_u64() > before.body["fence"].as_u64(), "{acquired:?}");
        for (name, lease) in &all {
            let held = fixture.acquire(name, &json!({})).assert_problem(409, "held");
            assert_eq!(held.body["holder"]["who"], "worker-7");
            fixture.renew(id(lease)).assert_status(200);
        }
        fixture.release(id(&all["b"])).assert_status(204);
        let next = fixture.acquire("b", &json!({ "also": [] })).assert_status(200);
        assert_eq!(next.body.get("leases"), None, "as without the field");
        for name in ["a", "c"] {
            fixture.renew(id(&all[name])).assert_status(200);
            fixture.release(id(&all[name])).assert_status(204);
        }
        fixture.renew(&next.lease_id()).assert_status(200);
    }
}

#[test]
fn held_lock_keeps_the_rest_of_the_set_free() {
    Fixture::on_each_kind(|fixture| {
        let request = json!({ "who": "worker-7", "ttl_ms": 60_000 });
        let holder = fixture.acquire("b", &request).assert_status(200);
        for wait_ms in [0, 200] {
            let request = json!({ "also": ["b", "c"], "wait_ms": wait_ms });
            let held = fixture.acquire("a", &request).assert_problem(409, "held");
            assert_eq!(held.body["holder"]["who"], "worker-7", "{held:?}");
            for name in ["a", "c"] {
                eventually("it is not reserved", PATIENCE, || is_free(&fixture, name));
            }
        }
        fixture.renew(&holder.lease_id()).assert_status(200);
    });
}

#[test]
fn requests_for_overlapping_sets_in_every_order_are_all_served() {
    for fixture in Fixture::of_each_kind() {
        let sets = [["a", "b"], ["b", "c"], ["c", "a"], ["b", "a"]];
        thread::scope(|scope| {
            for worker in 0..8 {
                let instance = &fixture.instances[worker % fixture.instances.len()];
                scope.spawn(move || {
                    for round in 0..3 {
                        let [name, also] = sets[(worker + round) % 4];
                        let request =
                            json!({ "also": [also], "wait_ms": 30_000, "ttl_ms": 60_000 });
                        let acquired = instance.acquire(name, &request).assert_status(200);
                        for lease in leases(&acquired).values() {
                            let path = format!("/v1/leases/{}", id(lease));
                            instance.send("DELETE", &path, &[], None).assert_status(204);
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn client_that_disconnects_while_it_waits_reserves_nothing() {
    for fixture in Fixture::of_each_kind() {
        let holder = fixture.acquire("b", &json!({ "ttl_ms": 60_000 })).assert_status(200);
        let request = json!({ "also": ["b"], "wait_ms": 30_000 });
        let waiting = fixture.any().start_acquire("a", &[], &request);
        fixture.await_waiting("b", 1);
        drop(waiting);
        fixture.await_waiting("b", 0);
        eventually("a is not reserved", PATIENCE, || is_free(&fixture, "a"));
        fixture.release(&holder.lease_id()).assert_status(204);
        eventually("b is free", PATIENCE, || is_free(&fixture, "b"));
    }
}

#[test]
fn what_cannot_be_combined_with_several_names_is_rejected() {
    let fixture = Fixture::nodes(1);
    let instance = fixture.any();
    for request in [
        json!({ "also": ["b"], "mode": "read" }),
        json!({ "also": ["b"], "mode": "permits", "permits": 2 }),
        json!({ "also": "b" }),
        json!({ "also": [1] }),
        json!({ "also": null }),
    ] {
        fixture.acquire("a", &request).assert_problem(400, "invalid_request");
    }
    let with_key =
        instance.acquire_with("a", &[("Idempotency-Key", "1")], &json!({ "also": ["b"] }));
    let with_key = with_key.assert_problem(400, "invalid_request");
    let detail = with_key.body["detail"].as_str().expect("a text");
    assert!(detail.contains("Idempotency-Key"), "{detail}");
    let names = |count: usize| (0..count).map(|it| it.to_string()).collect::<Vec<_>>();
    fixture.acquire("a", &json!({ "also": names(32) })).assert_problem(400, "out_of_bounds");
    for bad in ["", "a\nb", "quorate:mine"] {
        fixture.acquire("a", &json!({ "also": ["b", bad] })).assert_problem(400, "invalid_name");
    }
    for name in ["a", "b", "0"] {
        assert!(is_free(&fixture, name), "nothing was acquired");
    }
    let most = fixture.acquire("a", &json!({ "also": names(31), "mode": "write" }));
    assert_eq!(leases(&most.assert_status(200)).len(), 32);
}

/// The client gets the whole response or all locks are free: they are never left to their ttl.
#[test]
fn locks_granted_while_the_client_disconnects_are_not_left_to_their_ttl() {
    Fixture::on_each_kind(|fixture| {
        let [near, far] = &fixture.instances[..] else { panic!("two instances") };
        let request = json!({ "ttl_ms": 60_000, "wait_ms": 10_000 });
        let set = json!({ "ttl_ms": 60_000, "wait_ms": 10_000, "also": ["b", "c"] });
        for round in 0..60 {
            let holder = near.acquire("b", &request).assert_status(200);
            let waiter = far.start_acquire("a", &[], &set);
            fixture.await_waiting("b", 1);
            let delay = Duration::from_micros(round * 61 % 2_000);
            let released = Instant::now();
            let left = thread::scope(|scope| {
                let leaving = scope.spawn(|| {
                    while released.elapsed() < delay {
                        std::hint::spin_loop();
                    }
                    waiter.disconnect()
                });
                let path = format!("/v1/leases/{}", holder.lease_id());
                near.send("DELETE", &path, &[], None).assert_status(204);
                leaving.join().expect("no panic")
            });
            for lease in left.iter().flat_map(|granted| leases(granted).into_values()) {
                fixture.release(id(&lease)).assert_status(204);
            }
            let next = near.acquire("c", &json!({ "also": ["a", "b"], "wait_ms": 10_000 }));
            for lease in leases(&next.assert_status(200)).values() {
                fixture.release(id(lease)).assert_status(204);
            }
        }
    });
}

#[test]
fn several_permits_are_acquired_together_or_not_at_all() {
    Fixture::on_each_kind(|fixture| {
        let want = |take: u64, wait_ms: u64| {
            json!({ "mode": "permits", "permits": 4, "take": take, "wait_ms": wait_ms,
                    "ttl_ms": 60_000, "who": "worker-7" })
        };
        let three = fixture.acquire("pool", &want(3, 0)).assert_status(200);
        let all = leases(&three);
        assert_eq!(all.len(), 3, "{three:?}");
        assert!(all.values().any(|lease| id(lease) == three.lease_id()), "one of them");
        assert!((1..=60_000).contains(&three.number("valid_for_ms")), "{three:?}");
        let refused = fixture.acquire("pool", &want(2, 0)).assert_problem(409, "held");
        assert_eq!(refused.body["detail"], "too many permits are in use");
        let late = fixture.acquire("pool", &want(2, 300)).assert_problem(409, "held");
        assert_eq!(late.body["holder"]["who"], "worker-7", "{late:?}");
        // Neither request keeps the free permit.
        let one = fixture.acquire("pool", &want(1, 0)).assert_status(200);
        assert_eq!(leases(&one).len(), 1);
        fixture.release(&one.lease_id()).assert_status(204);

        let waiting = thread::scope(|scope| {
            let instance = fixture.any();
            let waiting = scope.spawn(|| instance.acquire("pool", &want(2, 30_000)));
            let place = "/v1/locks/pool%23queue";
            eventually("it is the first in the queue", PATIENCE, || {
                fixture.get(place).assert_status(200).body["is_held"] == true
            });
            for lease in all.values() {
                fixture.renew(id(lease)).assert_status(200);
            }
            fixture.release(&three.lease_id()).assert_status(204);
            waiting.join().expect("no panic").assert_status(200)
        });
        let two = leases(&waiting);
        assert_eq!(two.len(), 2);
        for lease in two.values() {
            fixture.renew(id(lease)).assert_status(200);
            fixture.release(id(lease)).assert_status(204);
        }
        let held = all.values().filter(|lease| id(lease) != three.lease_id());
        for lease in held {
            fixture.release(id(lease)).assert_status(204);
        }
        fixture.acquire("pool", &want(4, 0)).assert_status(200);
    });
}

#[test]
fn what_cannot_be_combined_with_several_permits_is_rejected() {
    let fixture = Fixture::nodes(1);
    let permits = |take: Value| json!({ "mode": "permits", "permits": 2, "take": take });
    for (request, code) in [
        (permits(json!(0)), "out_of_bounds"),
        (permits(json!(3)), "out_of_bounds"),
        (permits(json!(-1)), "invalid_request"),
        (permits(json!("all")), "invalid_request"),
        (json!({ "take": 2 }), "invalid_request"),
        (json!({ "mode": "read", "take": 1 }), "invalid_request"),
        (json!({ "take": 2, "also": ["b"] }), "invalid_request"),
        (json!({ "mode": "permits", "permits": 2, "take": 2, "also": ["b"] }), "invalid_request"),
    ] {
        fixture.acquire("pool", &request).assert_problem(400, code);
    }
    let key = [("Idempotency-Key", "1")];
    let with_key = fixture.any().acquire_with("pool", &key, &permits(json!(2)));
    let with_key = with_key.assert_problem(400, "invalid_request");
    assert!(with_key.body["detail"].as_str().expect("a text").contains("take"), "{with_key:?}");
    let both = fixture.acquire("pool", &permits(json!(2))).assert_status(200);
    assert_eq!(leases(&both).len(), 2);
}
