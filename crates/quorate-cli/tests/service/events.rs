//! The stream of events.

use serde_json::json;

use crate::fixture::{Event, Events, Fixture};

#[test]
fn stream_begins_with_a_snapshot_and_continues_with_changes() {
    Fixture::on_each_kind(|fixture| {
        fixture.acquire("before", &json!({ "ttl_ms": 60_000 })).assert_status(200);
        let mut events = fixture.any().watch("", None);
        assert_eq!(events.next().expect("a snapshot").snapshot(), ["before"]);

        let request = json!({ "ttl_ms": 60_000, "who": "worker-7" });
        let acquired = fixture.acquire("job", &request).assert_status(200);
        let held = expect(&mut events, ("held", "job"));
        assert_eq!(held.data["lock"]["holder"]["who"], "worker-7", "{held:?}");
        assert_eq!(held.data["lock"]["holder"]["fence"], acquired.body["fence"], "{held:?}");

        let waiter = fixture.any().start_acquire("job", &[], &json!({ "wait_ms": 60_000 }));
        let waiting = expect(&mut events, ("waiting", "job"));
        assert_eq!(waiting.data["lock"]["waiting"], 1, "{waiting:?}");
        drop(waiter);
        let waiting = expect(&mut events, ("waiting", "job"));
        assert_eq!(waiting.data["lock"]["waiting"], 0, "{waiting:?}");

        fixture.release(&acquired.lease_id()).assert_status(204);
        let free = expect(&mut events, ("free", "job"));
        assert!(!free.id.is_empty(), "{free:?}");
    });
}

#[test]
fn next_holder_is_a_change_even_if_it_calls_itself_the_same() {
    let fixture = Fixture::nodes(1);
    let mut events = fixture.any().watch("", None);
    events.next().expect("a snapshot").snapshot();
    let request = json!({ "ttl_ms": 60_000, "who": "worker", "wait_ms": 20_000 });
    let first = fixture.acquire("job", &request).assert_status(200);
    expect(&mut events, ("held", "job"));
    let mut second = fixture.any().start_acquire("job", &[], &request);
    expect(&mut events, ("waiting", "job"));
    fixture.release(&first.lease_id()).assert_status(204);
    let second = second.response().assert_status(200);
    let held = expect(&mut events, ("held", "job"));
    assert_eq!(held.data["lock"]["holder"]["fence"], second.body["fence"], "{held:?}");
}

#[test]
fn every_reader_that_comes_or_goes_is_a_change() {
    let fixture = Fixture::nodes(1);
    let mut events = fixture.any().watch("", None);
    events.next().expect("a snapshot").snapshot();
    let mut leases = Vec::new();
    for readers in 1..=3 {
        let request = json!({ "ttl_ms": 60_000, "mode": "read" });
        leases.push(fixture.acquire("doc", &request).assert_status(200).lease_id());
        assert_eq!(readers_of(&expect(&mut events, ("held", "doc"))), readers);
    }
    for left in [2, 1] {
        fixture.release(&leases.pop().expect("a lease")).assert_status(204);
        assert_eq!(readers_of(&expect(&mut events, ("held", "doc"))), left);
    }
    fixture.release(&leases.pop().expect("a lease")).assert_status(204);
    expect(&mut events, ("free", "doc"));
}

#[test]
fn stream_resumes_after_the_last_event_without_a_gap() {
    for fixture in [Fixture::local(), Fixture::nodes(3)] {
        let instance = &fixture.instances[0];
        let mut events = instance.watch("", None);
        events.next().expect("a snapshot").snapshot();
        let first = fixture.acquire("one", &json!({ "ttl_ms": 60_000 })).assert_status(200);
        let last = expect(&mut events, ("held", "one")).id;
        fixture.acquire("two", &json!({ "ttl_ms": 60_000 })).assert_status(200);
        expect(&mut events, ("held", "two"));
        drop(events);
        // No client watches in the meantime.
        fixture.release(&first.lease_id()).assert_status(204);
        let mut resumed = instance.watch("", Some(&last));
        expect(&mut resumed, ("held", "two"));
        let free = expect(&mut resumed, ("free", "one"));
        fixture.acquire("three", &json!({ "ttl_ms": 60_000 })).assert_status(200);
        expect(&mut resumed, ("held", "three"));
        let mut again = instance.watch("", Some(&free.id));
        expect(&mut again, ("held", "three"));
    }
}

#[test]
fn stream_that_cannot_resume_begins_with_a_snapshot() {
    let fixture = Fixture::nodes(1);
    fixture.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200);
    let id = fixture.instances[0].watch("", None).next().expect("a snapshot").id;
    let (epoch, _) = id.split_once('-').expect("epoch and number");
    let made_up = [format!("{epoch}-99999999999"), format!("{epoch}--1"), format!("{epoch}-x")];
    let made_up = made_up.iter().map(String::as_str).chain(["", "0", "other-1", "<script>"]);
    // The events of another instance are different.
    let elsewhere = [(&fixture.instances[1], &*id)].into_iter();
    for (instance, last) in made_up.map(|last| (&fixture.instances[0], last)).chain(elsewhere) {
        let mut events = instance.watch("", Some(last));
        assert_eq!(events.next().expect("a snapshot").snapshot(), ["job"], "{last}");
    }
}

#[test]
fn prefix_restricts_the_snapshot_and_the_changes() {
    let fixture = Fixture::nodes(1);
    for name in ["a%2F1", "b%2F1"] {
        fixture.acquire(name, &json!({ "ttl_ms": 60_000 })).assert_status(200);
    }
    let mut events = fixture.any().watch("?prefix=a%2F", None);
    assert_eq!(events.next().expect("a snapshot").snapshot(), ["a/1"]);
    let mut all = fixture.any().watch("", None);
    assert_eq!(all.next().expect("a snapshot").snapshot().len(), 2);
    for name in ["b%2F2", "a%2F2"] {
        fixture.acquire(name, &json!({ "ttl_ms": 60_000 })).assert_status(200);
        let shown = name.replace("%2F", "/");
        expect(&mut all, ("held", &shown));
    }
    expect(&mut events, ("held", "a/2"));
    fixture.get("/v1/events?since=1").assert_problem(400, "invalid_request");
}

/// Unreachable nodes do not make their locks free.
#[test]
fn unreachable_nodes_release_no_locks() {
    let fixture = Fixture::nodes(3);
    let mut events = fixture.any().watch("", None);
    events.next().expect("a snapshot").snapshot();
    fixture.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200);
    expect(&mut events, ("held", "job"));
    fixture.servers[0].pause();
    fixture.servers[1].pause();
    quorate_testkit::eventually("no majority answers", crate::fixture::PATIENCE, || {
        fixture.instances.iter().all(|it| it.acquire("x", &json!({})).status == 503)
    });
    fixture.servers[0].resume();
    fixture.servers[1].resume();
    let mut lease = None;
    quorate_testkit::eventually("a majority answers", crate::fixture::PATIENCE, || {
        lease = Some(fixture.acquire("last", &json!({ "ttl_ms": 60_000 })));
        lease.as_ref().is_some_and(|lease| lease.status == 200)
    });
    for event in events {
        match event.summary() {
            ("held", "last") => break,
            (kind, "job") => assert_ne!(kind, "free", "{event:?}"),
            _ => {}
        }
    }
}

#[track_caller]
fn expect(events: &mut Events, expected: (&str, &str)) -> Event {
    let event = events.next().expect("another event");
    assert_eq!(event.summary(), expected, "{event:?}");
    event
}

fn readers_of(event: &Event) -> usize {
    let shared_with = event.data["lock"]["shared_with"].as_array();
    1 + shared_with.map_or(0, Vec::len)
}
