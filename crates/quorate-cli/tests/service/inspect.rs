//! Inspection of one lock.

use quorate_testkit::Server;
use serde_json::json;

use crate::fixture::Fixture;

#[test]
fn owner_and_reason_are_shown_with_the_lock_and_in_conflicts() {
    for fixture in Fixture::of_each_kind() {
        let request = json!({ "ttl_ms": 60_000, "who": "worker-7", "why": "nightly import" });
        let acquired = fixture.acquire("job", &request).assert_status(200);
        for _ in &fixture.instances {
            let lock = fixture.get("/v1/locks/job").assert_status(200);
            assert_eq!(lock.body["name"], "job");
            assert_eq!(lock.body["is_held"], true, "{lock:?}");
            assert_eq!(lock.number("waiting"), 0);
            let holder = &lock.body["holder"];
            assert_eq!(holder["who"], "worker-7 (nightly import)", "{lock:?}");
            assert_eq!(holder["fence"], acquired.body["fence"], "{lock:?}");
            assert_eq!(holder["is_shared"], false, "{lock:?}");
            assert_eq!(holder["is_foreign"], false, "{lock:?}");
            let nodes = lock.body["nodes"].as_array().expect("nodes");
            assert_eq!(nodes.len(), fixture.servers.len().max(1), "{lock:?}");
            for node in nodes {
                assert_eq!(node["state"], "held", "{lock:?}");
            }
        }
        for wait_ms in [0, 100] {
            let held = fixture.acquire("job", &json!({ "wait_ms": wait_ms }));
            let held = held.assert_problem(409, "held");
            assert_eq!(held.body["holder"]["who"], "worker-7 (nightly import)", "{held:?}");
        }
        fixture.release(&acquired.lease_id()).assert_status(204);
        let free = fixture.get("/v1/locks/job").assert_status(200);
        assert_eq!(free.body["is_held"], false, "{free:?}");
        assert_eq!(free.body.get("holder"), None, "{free:?}");
    }
}

#[test]
fn lock_is_unknown_while_too_few_nodes_answer() {
    let fixture = Fixture::nodes(3);
    fixture.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200);
    let known = fixture.get("/v1/locks/job").assert_status(200);
    assert_eq!((&known.body["is_held"], &known.body["is_known"]), (&true.into(), &true.into()));
    fixture.servers[1..].iter().for_each(Server::pause);
    let unknown = fixture.get("/v1/locks/job").assert_status(200);
    assert_eq!(
        (&unknown.body["is_held"], &unknown.body["is_known"]),
        (&false.into(), &false.into())
    );
    fixture.servers[1..].iter().for_each(Server::resume);
}

#[test]
fn lock_that_never_existed_is_free() {
    for fixture in Fixture::of_each_kind() {
        let lock = fixture.get("/v1/locks/nobody").assert_status(200);
        assert_eq!(lock.body["is_held"], false, "{lock:?}");
        assert_eq!(lock.number("waiting"), 0);
    }
}

#[test]
fn all_readers_are_shown() {
    for fixture in Fixture::of_each_kind() {
        for who in ["a", "b", "c"] {
            let request = json!({ "ttl_ms": 60_000, "mode": "read", "who": who });
            fixture.acquire("doc", &request).assert_status(200);
        }
        let lock = fixture.get("/v1/locks/doc").assert_status(200);
        let shared_with = lock.body["shared_with"].as_array().expect("readers").iter();
        let mut readers: Vec<_> = shared_with.chain([&lock.body["holder"]]).collect();
        readers.sort_by_key(|reader| reader["who"].to_string());
        for (reader, who) in readers.iter().zip(["a", "b", "c"]) {
            assert_eq!(reader["who"], who, "{lock:?}");
            assert_eq!(reader["is_shared"], true, "{lock:?}");
            assert_eq!(reader.get("fence"), None, "{lock:?}");
        }
        assert_eq!(readers.len(), 3, "{lock:?}");
    }
}

#[test]
fn holder_that_would_garble_a_log_is_shown_without_control_characters() {
    let fixture = Fixture::nodes(1);
    for (number, who) in
        ["a\nb\u{1b}[31m", "<b>", "x\"y\\z", &"long".repeat(1_000)].into_iter().enumerate()
    {
        let name = format!("job-{number}");
        let request = json!({ "ttl_ms": 60_000, "who": who, "why": who });
        fixture.acquire(&name, &request).assert_status(200);
        let held = fixture.acquire(&name, &json!({})).assert_problem(409, "held");
        let shown = held.body["holder"]["who"].as_str().expect("a holder");
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
        assert!(!shown.is_empty() && shown.len() <= 96, "{shown:?}");
    }
}

#[test]
fn inspecting_reveals_no_lease_id() {
    let fixture = Fixture::nodes(3);
    let lease = fixture.acquire("job", &json!({})).assert_status(200).lease_id();
    for path in ["/v1/locks/job", "/v1/locks"] {
        let shown = fixture.get(path).assert_status(200);
        assert!(!shown.text.contains(&lease), "{shown:?}");
    }
}
