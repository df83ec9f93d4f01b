//! Waiting in the queue, and leaving it.

use std::{
    thread,
    time::{Duration, Instant},
};

use quorate_testkit::eventually;
use rustix::process::Signal;
use serde_json::json;

use crate::fixture::{Fixture, PATIENCE};

#[test]
fn waiters_are_served_in_the_order_of_the_queue_across_instances() {
    for fixture in Fixture::of_each_kind() {
        let holder = fixture.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200);
        let mut waiters = Vec::new();
        for number in 0..6_u64 {
            let request = json!({ "ttl_ms": 60_000, "wait_ms": 30_000, "who": number.to_string() });
            waiters.push(fixture.any().start_acquire("job", &[], &request));
            fixture.await_waiting("job", number + 1);
        }
        let lock = fixture.get("/v1/locks/job");
        let queue = lock.body["queue"].as_array().expect("a queue").iter();
        // Instances know the time of the nodes only up to a round trip: the order of the queue may
        // differ from the order of arrival by that much.
        let owners = queue.filter_map(|waiter| waiter["who"].as_str()?.parse().ok());
        let order: Vec<usize> = owners.collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5], "{lock:?}");
        let mut last = holder;
        for number in order {
            let waiter = &mut waiters[number];
            fixture.release(&last.lease_id()).assert_status(204);
            let next = waiter.response().assert_status(200);
            assert!(next.number("fence") > last.number("fence"), "{next:?} after {last:?}");
            last = next;
        }
    }
}

#[test]
fn request_that_does_not_wait_fails_although_the_lock_is_about_to_be_free() {
    for fixture in Fixture::of_each_kind() {
        fixture.acquire("job", &json!({})).assert_status(200);
        for request in [json!({}), json!({ "wait_ms": 0 })] {
            fixture.acquire("job", &request).assert_problem(409, "held");
        }
        assert_eq!(fixture.get("/v1/locks/job").number("waiting"), 0);
    }
}

#[test]
fn wait_that_ends_without_the_lock_names_the_holder() {
    Fixture::on_each_kind(|fixture| {
        let request = json!({ "ttl_ms": 60_000, "who": "worker-7" });
        fixture.acquire("job", &request).assert_status(200);
        let timed_out = fixture.acquire("job", &json!({ "wait_ms": 300 }));
        let timed_out = timed_out.assert_problem(409, "held");
        assert_eq!(timed_out.body["holder"]["who"], "worker-7", "{timed_out:?}");
        fixture.await_waiting("job", 0);
    });
}

#[test]
fn wait_is_cut_to_the_limit_of_the_service() {
    let fixture = Fixture::start(1, 2, &["--max-wait", "200ms"]);
    fixture.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200);
    // Much longer than the lease: without the limit this would acquire the lock.
    for wait_ms in [3_600_000, u64::MAX] {
        fixture.acquire("job", &json!({ "wait_ms": wait_ms })).assert_problem(409, "held");
    }
}

#[test]
fn client_that_disconnects_leaves_the_queue() {
    for fixture in Fixture::of_each_kind() {
        let holder = fixture.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200);
        for mode in ["mutex", "read", "write"] {
            let request = json!({ "wait_ms": 60_000, "mode": mode });
            let waiter = fixture.any().start_acquire("job", &[], &request);
            fixture.await_waiting("job", 1);
            drop(waiter);
            fixture.await_waiting("job", 0);
        }
        fixture.release(&holder.lease_id()).assert_status(204);
        fixture.acquire("job", &json!({})).assert_status(200);
    }
}

#[test]
fn client_that_waits_for_a_permit_and_disconnects_leaves_the_queue() {
    for fixture in Fixture::of_each_kind() {
        let request = json!({ "mode": "permits", "permits": 1, "ttl_ms": 60_000 });
        let holder = fixture.acquire("pool", &request).assert_status(200);
        let request = json!({ "mode": "permits", "permits": 1, "wait_ms": 60_000 });
        let waiter = fixture.any().start_acquire("pool", &[], &request);
        fixture.await_waiting("pool%231", 1);
        drop(waiter);
        fixture.await_waiting("pool%231", 0);
        fixture.release(&holder.lease_id()).assert_status(204);
        fixture.acquire("pool", &request).assert_status(200);
    }
}

/// The client gets the whole response or the lock is free: it is never left to its ttl.
#[test]
fn lock_granted_while_the_client_disconnects_is_not_left_to_its_ttl() {
    Fixture::on_each_kind(|fixture| {
        let [near, far] = &fixture.instances[..] else { panic!("two instances") };
        let request = json!({ "ttl_ms": 60_000, "wait_ms": 10_000 });
        for round in 0..100 {
            let holder = near.acquire("job", &request).assert_status(200);
            let waiter = far.start_acquire("job", &[], &request);
            fixture.await_waiting("job", 1);
            let delay = Duration::from_micros(round * 37 % 2_000);
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
            if let Some(granted) = left {
                fixture.release(&granted.assert_status(200).lease_id()).assert_status(204);
            }
            let next = near.acquire("job", &request).assert_status(200);
            fixture.release(&next.lease_id()).assert_status(204);
        }
    });
}

/// In either order in which the resumed instance handles the grant and the disconnect.
#[test]
fn lock_granted_after_the_client_disconnected_is_released() {
    Fixture::on_each_kind(|fixture| {
        let [near, far] = &fixture.instances[..] else { panic!("two instances") };
        let request = json!({ "ttl_ms": 60_000, "wait_ms": 10_000 });
        for _ in 0..20 {
            let holder = near.acquire("job", &request).assert_status(200);
            let waiter = far.start_acquire("job", &[], &request);
            fixture.await_waiting("job", 1);
            far.stop();
            let path = format!("/v1/leases/{}", holder.lease_id());
            near.send("DELETE", &path, &[], None).assert_status(204);
            drop(waiter);
            far.signal(Signal::CONT);
            let next = near.acquire("job", &request).assert_status(200);
            near.send("DELETE", &format!("/v1/leases/{}", next.lease_id()), &[], None)
                .assert_status(204);
        }
    });
}

#[test]
fn waiter_of_a_killed_instance_does_not_block_the_lock() {
    Fixture::on_each_kind(|mut fixture| {
        let holder = fixture.instances[0].acquire("job", &json!({ "ttl_ms": 60_000 }));
        let holder = holder.assert_status(200);
        let request = json!({ "ttl_ms": 60_000, "wait_ms": 60_000 });
        let _waiter = fixture.instances[1].start_acquire("job", &[], &request);
        fixture.await_waiting("job", 1);
        fixture.instances[1].kill();
        fixture.instances.pop();
        fixture.release(&holder.lease_id()).assert_status(204);
        // The session of the waiter expires long before the ttl of the holder.
        let request = json!({ "wait_ms": 20_000 });
        fixture.acquire("job", &request).assert_status(200);
        fixture.await_waiting("job", 0);
    });
}

#[test]
fn lease_of_a_killed_instance_is_renewed_through_another() {
    Fixture::on_each_kind(|mut fixture| {
        let request = json!({ "ttl_ms": 60_000 });
        let exclusive = fixture.instances[1].acquire("job", &request).assert_status(200);
        let request = json!({ "ttl_ms": 60_000, "mode": "read" });
        let shared = fixture.instances[1].acquire("doc", &request).assert_status(200);
        let request = json!({ "ttl_ms": 60_000, "mode": "permits", "permits": 1 });
        let permit = fixture.instances[1].acquire("pool", &request).assert_status(200);
        fixture.instances[1].kill();
        fixture.instances.pop();
        for lease in [exclusive, shared, permit] {
            fixture.renew(&lease.lease_id()).assert_status(200);
            fixture.release(&lease.lease_id()).assert_status(204);
            fixture.renew(&lease.lease_id()).assert_problem(410, "lease_lost");
        }
        for (name, mode) in [("job", "mutex"), ("doc", "write")] {
            fixture.acquire(name, &json!({ "mode": mode })).assert_status(200);
        }
        fixture.acquire("pool", &request).assert_status(200);
    });
}

#[test]
fn queue_survives_the_expiry_of_the_holder() {
    Fixture::on_each_kind(|fixture| {
        let expired = fixture.acquire("job", &json!({ "ttl_ms": 500 })).assert_status(200);
        let request = json!({ "ttl_ms": 60_000, "wait_ms": 20_000 });
        let next = fixture.acquire("job", &request).assert_status(200);
        assert!(next.number("fence") > expired.number("fence"), "{next:?}");
        eventually("it is shown", PATIENCE, || {
            fixture.get("/v1/locks/job").body["holder"]["fence"] == next.body["fence"]
        });
    });
}
