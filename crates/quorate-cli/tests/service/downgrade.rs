//! Downgrades of writers to readers.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use quorate_testkit::{Server, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fixture::{Fixture, Instance, PATIENCE, Response, Sent};

#[test]
fn downgraded_writer_admits_readers_and_excludes_writers() {
    Fixture::on_each_kind(|fixture| {
        let writer = write(&fixture, "doc");
        let wait = |mode| json!({ "mode": mode, "ttl_ms": 60_000, "wait_ms": 60_000 });
        let mut waiting_reader = fixture.any().start_acquire("doc", &[], &wait("read"));
        fixture.await_waiting("doc", 1);
        let mut waiting_writer = fixture.any().start_acquire("doc", &[], &wait("write"));
        fixture.await_waiting("doc", 2);

        let reader = fixture.downgrade(&writer.lease_id()).assert_status(200);
        assert!((1..=60_000).contains(&reader.number("valid_for_ms")), "{reader:?}");
        assert_eq!(reader.body.get("fence"), None, "{reader:?}");
        let admitted = waiting_reader.response().assert_status(200);
        fixture.await_waiting("doc", 1);
        let lock = fixture.get("/v1/locks/doc").assert_status(200);
        assert_eq!(lock.body["holder"]["is_shared"], true, "{lock:?}");

        fixture.renew(&reader.lease_id()).assert_status(200);
        fixture.release(&reader.lease_id()).assert_status(204);
        fixture.acquire("doc", &json!({ "mode": "write" })).assert_problem(409, "held");
        fixture.release(&admitted.lease_id()).assert_status(204);
        let next = waiting_writer.response().assert_status(200);
        assert!(next.number("fence") > writer.number("fence"), "{next:?}");
    });
}

#[test]
fn lease_of_a_mutex_is_downgraded_like_that_of_a_writer() {
    for fixture in Fixture::of_each_kind() {
        let mutex = fixture.acquire("doc", &json!({ "ttl_ms": 60_000 })).assert_status(200);
        let reader = fixture.downgrade(&mutex.lease_id()).assert_status(200);
        let other = fixture.acquire("doc", &json!({ "mode": "read" })).assert_status(200);
        for lease in [reader, other] {
            fixture.acquire("doc", &json!({})).assert_problem(409, "held");
            fixture.release(&lease.lease_id()).assert_status(204);
        }
        fixture.acquire("doc", &json!({})).assert_status(200);
    }
}

#[test]
fn id_of_the_write_lease_neither_renews_nor_releases_after_the_downgrade() {
    for fixture in Fixture::of_each_kind() {
        let writer = write(&fixture, "doc");
        let reader = fixture.downgrade(&writer.lease_id()).assert_status(200);
        assert_ne!(reader.lease_id(), writer.lease_id());
        fixture.renew(&writer.lease_id()).assert_problem(410, "lease_lost");
        fixture.release(&writer.lease_id()).assert_problem(410, "lease_lost");
        fixture.acquire("doc", &json!({ "mode": "write" })).assert_problem(409, "held");
        fixture.renew(&reader.lease_id()).assert_status(200);
        fixture.release(&reader.lease_id()).assert_status(204);
        fixture.acquire("doc", &json!({ "mode": "write" })).assert_status(200);
    }
}

#[test]
fn repeated_downgrade_returns_the_same_lease() {
    for fixture in Fixture::of_each_kind() {
        let writer = write(&fixture, "doc");
        let first = fixture.downgrade(&writer.lease_id()).assert_status(200);
        let other = fixture.acquire("doc", &json!({ "mode": "read" })).assert_status(200);
        for _ in 0..3 {
            let again = fixture.downgrade(&writer.lease_id()).assert_status(200);
            assert_eq!(again.lease_id(), first.lease_id());
        }
        fixture.release(&other.lease_id()).assert_status(204);
        // The repeated request got no second lease.
        fixture.release(&first.lease_id()).assert_status(204);
        let next = write(&fixture, "doc");
        fixture.downgrade(&writer.lease_id()).assert_problem(410, "lease_lost");
        fixture.renew(&next.lease_id()).assert_status(200);
        fixture.acquire("doc", &json!({ "mode": "read" })).assert_problem(409, "held");
    }
}

#[test]
fn concurrent_downgrades_return_the_same_lease() {
    Fixture::on_each_kind(|fixture| {
        for _ in 0..5 {
            let writer = write(&fixture, "doc");
            let path = downgrade_path(&writer);
            let instances: Vec<&Instance> = fixture.instances.iter().cycle().take(4).collect();
            let leases: Vec<String> = thread::scope(|scope| {
                let send = |instance: &Instance| instance.send("POST", &path, &[], None);
                let send = |instance| scope.spawn(move || send(instance));
                let sent: Vec<_> = instances.into_iter().map(send).collect();
                let lease = |sent: thread::ScopedJoinHandle<'_, Response>| {
                    sent.join().expect("no panic").assert_status(200).lease_id()
                };
                sent.into_iter().map(lease).collect()
            });
            assert!(leases.iter().all(|lease| *lease == leases[0]), "{leases:?}");
            fixture.release(&leases[0]).assert_status(204);
        }
    });
}

/// The client disconnects at a different moment in every round.
#[test]
fn downgrade_whose_response_is_lost_can_be_repeated() {
    Fixture::on_each_kind(|fixture| {
        for round in 0..30_u64 {
            let writer = write(&fixture, "doc");
            let unread = start_downgrade(fixture.any(), &writer);
            for _ in 0..round % 6 {
                fixture.get("/healthz").assert_status(200);
            }
            drop(unread);
            fixture.acquire("doc", &json!({ "mode": "write" })).assert_problem(409, "held");
            let reader = fixture.downgrade(&writer.lease_id()).assert_status(200);
            fixture.renew(&reader.lease_id()).assert_status(200);
            fixture.release(&reader.lease_id()).assert_status(204);
        }
    });
}

#[test]
fn downgrade_is_repeated_at_another_instance_when_the_first_one_is_killed() {
    Fixture::on_each_kind(|mut fixture| {
        let writer = write(&fixture, "doc");
        let unread = start_downgrade(&fixture.instances[1], &writer);
        unread.await_answer();
        fixture.instances[1].kill();
        drop(unread);
        fixture.instances.pop();
        fixture.acquire("doc", &json!({ "mode": "write" })).assert_problem(409, "held");
        let reader = fixture.downgrade(&writer.lease_id()).assert_status(200);
        fixture.release(&reader.lease_id()).assert_status(204);
        fixture.acquire("doc", &json!({ "mode": "write" })).assert_status(200);
    });
}

/// An instance that was stopped executes a downgrade after the lease was released elsewhere.
#[test]
fn late_downgrade_does_not_disturb_the_next_writer() {
    for mut fixture in [Fixture::nodes(1), Fixture::nodes(3)] {
        let writer = write(&fixture, "doc");
        fixture.instances[1].stop();
        let mut late = start_downgrade(&fixture.instances[1], &writer);
        let send = |method, path: &str| fixture.instances[0].send(method, path, &[], None);
        let reader = send("POST", &downgrade_path(&writer)).assert_status(200);
        send("DELETE", &format!("/v1/leases/{}", reader.lease_id())).assert_status(204);
        let request = json!({ "mode": "write", "ttl_ms": 60_000 });
        let next = fixture.instances[0].acquire("doc", &request).assert_status(200);
        fixture.instances[1].signal(Signal::CONT);
        late.response().assert_problem(410, "lease_lost");
        fixture.renew(&next.lease_id()).assert_status(200);
        fixture.acquire("doc", &json!({ "mode": "read" })).assert_problem(409, "held");
        fixture.instances.clear();
    }
}

#[test]
fn only_write_leases_are_downgraded() {
    for fixture in Fixture::of_each_kind() {
        let requests = [json!({ "mode": "read" }), json!({ "identity": "import-7" })];
        for (name, request) in ["read", "entered"].into_iter().zip(requests) {
            let lease = fixture.acquire(name, &request).assert_status(200).lease_id();
            let refused = fixture.downgrade(&lease).assert_problem(400, "not_a_write_lease");
            assert!(refused.body["detail"].as_str().unwrap().contains(name), "{refused:?}");
            fixture.renew(&lease).assert_status(200);
        }
        let writer = write(&fixture, "doc");
        let reader = fixture.downgrade(&writer.lease_id()).assert_status(200);
        fixture.downgrade(&reader.lease_id()).assert_problem(400, "not_a_write_lease");
        for wrong in ["x", "%00", "AAAA", "bm90IGEgbGVhc2U"] {
            fixture.downgrade(wrong).assert_problem(400, "invalid_lease");
        }
    }
}

#[test]
fn lease_that_has_ended_is_not_downgraded() {
    Fixture::on_each_kind(|fixture| {
        let released = write(&fixture, "doc");
        fixture.release(&released.lease_id()).assert_status(204);
        fixture.downgrade(&released.lease_id()).assert_problem(410, "lease_lost");
        let request = json!({ "mode": "write", "ttl_ms": 300 });
        let expired = fixture.acquire("doc", &request).assert_status(200);
        eventually("the lease expires", PATIENCE, || {
            fixture.get("/v1/locks/doc").assert_status(200).body["is_held"] == false
        });
        fixture.downgrade(&expired.lease_id()).assert_problem(410, "lease_lost");
        let next = write(&fixture, "doc");
        fixture.downgrade(&expired.lease_id()).assert_problem(410, "lease_lost");
        fixture.renew(&next.lease_id()).assert_status(200);
    });
}

#[test]
fn read_lease_expires_unless_it_is_renewed() {
    Fixture::on_each_kind(|fixture| {
        let request = json!({ "mode": "write", "ttl_ms": 1_000 });
        let writer = fixture.acquire("doc", &request).assert_status(200);
        let reader = fixture.downgrade(&writer.lease_id());
        if reader.status != 200 {
            // The machine may be busy.
            return drop(reader.assert_problem(410, "lease_lost"));
        }
        eventually("the lease expires", PATIENCE, || {
            fixture.get("/v1/locks/doc").assert_status(200).body["is_held"] == false
        });
        for lease in [writer.lease_id(), reader.lease_id()] {
            fixture.renew(&lease).assert_problem(410, "lease_lost");
        }
        fixture.downgrade(&writer.lease_id()).assert_problem(410, "lease_lost");
        write(&fixture, "doc");
    });
}

#[test]
fn downgrade_without_a_majority_is_repeated_when_the_nodes_are_back() {
    let fixture = Fixture::nodes(3);
    let writer = write(&fixture, "doc");
    fixture.servers[1..].iter().for_each(Server::pause);
    for _ in 0..2 {
        let unsure = fixture.downgrade(&writer.lease_id()).assert_problem(503, "no_quorum");
        assert_eq!(unsure.body["nodes"].as_array().map(Vec::len), Some(3), "{unsure:?}");
        assert!(unsure.headers.contains_key("retry-after"), "{unsure:?}");
    }
    fixture.servers[1..].iter().for_each(Server::resume);
    fixture.instances.iter().for_each(Instance::await_ready);
    fixture.acquire("doc", &json!({ "mode": "write" })).assert_problem(409, "held");
    let reader = fixture.downgrade(&writer.lease_id()).assert_status(200);
    fixture.acquire("doc", &json!({ "mode": "write" })).assert_problem(409, "held");
    let other = fixture.acquire("doc", &json!({ "mode": "read" })).assert_status(200);
    for lease in [reader, other] {
        fixture.release(&lease.lease_id()).assert_status(204);
    }
    fixture.acquire("doc", &json!({ "mode": "write" })).assert_status(200);
}

/// A repeated request for the writer must not return the lease of the reader.
#[test]
fn idempotency_key_of_the_writer_does_not_find_the_reader() {
    for fixture in Fixture::of_each_kind() {
        let request = json!({ "mode": "write", "ttl_ms": 60_000 });
        let acquire = || fixture.any().acquire_with("doc", &[("Idempotency-Key", "k1")], &request);
        let writer = acquire().assert_status(200);
        assert_eq!(acquire().assert_status(200).lease_id(), writer.lease_id());
        let reader = fixture.downgrade(&writer.lease_id()).assert_status(200);
        acquire().assert_problem(409, "held");
        let again = fixture.downgrade(&writer.lease_id()).assert_status(200);
        assert_eq!(again.lease_id(), reader.lease_id());
        fixture.release(&reader.lease_id()).assert_status(204);
        let next = acquire().assert_status(200);
        assert!(next.number("fence") > writer.number("fence"), "{next:?}");
    }
}

#[test]
fn readers_see_what_the_writer_wrote_before_its_downgrade() {
    Fixture::on_each_kind(|fixture| {
        let (is_writing, version) = (AtomicBool::new(false), AtomicU64::new(0));
        let work = |number: usize| {
            let request = json!({ "mode": "write", "wait_ms": 60_000, "ttl_ms": 60_000 });
            for round in 0..4 {
                let instance = &fixture.instances[(number + round) % 2];
                let writer = instance.acquire("doc", &request).assert_status(200);
                assert!(!is_writing.swap(true, Ordering::SeqCst), "two writers at the same time");
                let written = version.fetch_add(1, Ordering::SeqCst) + 1;
                is_writing.store(false, Ordering::SeqCst);
                let reader = instance.send("POST", &downgrade_path(&writer), &[], None);
                let reader = reader.assert_status(200).lease_id();
                let path = format!("/v1/leases/{reader}");
                for _ in 0..3 {
                    assert!(!is_writing.load(Ordering::SeqCst), "a writer beside a reader");
                    instance.send("POST", &format!("{path}/renew"), &[], None).assert_status(200);
                    assert_eq!(version.load(Ordering::SeqCst), written);
                }
                instance.send("DELETE", &path, &[], None).assert_status(204);
            }
        };
        thread::scope(|scope| {
            for number in 0..4 {
                scope.spawn(move || work(number));
            }
        });
        assert_eq!(version.load(Ordering::SeqCst), 16);
    });
}

fn write(fixture: &Fixture, name: &str) -> Response {
    let request: Value = json!({ "mode": "write", "ttl_ms": 60_000 });
    fixture.acquire(name, &request).assert_status(200)
}

fn downgrade_path(acquired: &Response) -> String {
    format!("/v1/leases/{}/downgrade", acquired.lease_id())
}

fn start_downgrade(instance: &Instance, acquired: &Response) -> Sent {
    instance.start_request("POST", &downgrade_path(acquired), &[], 0)
}
