//! Inspection of one lock.

use quorate_testkit::Server;
use serde_json::json;

use crate::fixture::Cluster;

#[test]
fn owner_and_reason_are_shown_with_the_lock_and_in_conflicts() {
    for cluster in Cluster::of_each_kind() {
        let request = json!({ "ttl_ms": 60_000, "owner": "worker-7", "reason": "nightly import" });
        let acquired = cluster.acquire("job", &request).assert_status(200);
        for _ in &cluster.instances {
            let lock = cluster.get("/v1/locks/job").assert_status(200);
            assert_eq!(lock.body["name"], "job");
            assert_eq!(lock.body["is_held"], true, "{lock:?}");
            assert_eq!(lock.number("waiting"), 0);
            let holder = &lock.body["holder"];
            assert_eq!(holder["owner"], "worker-7 (nightly import)", "{lock:?}");
            assert_eq!(holder["fence"], acquired.body["fence"], "{lock:?}");
            assert_eq!(holder["is_shared"], false, "{lock:?}");
            assert_eq!(holder["is_foreign"], false, "{lock:?}");
            let nodes = lock.body["nodes"].as_array().expect("nodes");
            assert_eq!(nodes.len(), cluster.servers.len().max(1), "{lock:?}");
            for node in nodes {
                assert_eq!(node["state"], "held", "{lock:?}");
            }
        }
        for wait_ms in [0, 100] {
            let held = cluster.acquire("job", &json!({ "wait_ms": wait_ms }));
            let held = held.assert_problem(409, "held");
            assert_eq!(held.body["holder"]["owner"], "worker-7 (nightly import)", "{held:?}");
        }
        cluster.release(&acquired.lease_id()).assert_status(204);
        let free = cluster.get("/v1/locks/job").assert_status(200);
        assert_eq!(free.body["is_held"], false, "{free:?}");
        assert_eq!(free.body.get("holder"), None, "{free:?}");
    }
}

#[test]
fn lock_is_unknown_while_too_few_nodes_answer() {
    let cluster = Cluster::nodes(3);
    cluster.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200);
    let known = cluster.get("/v1/locks/job").assert_status(200);
    assert_eq!((&known.body["is_held"], &known.body["is_known"]), (&true.into(), &true.into()));
    cluster.servers[1..].iter().for_each(Server::pause);
    let unknown = cluster.get("/v1/locks/job").assert_status(200);
    assert_eq!(
        (&unknown.body["is_held"], &unknown.body["is_known"]),
        (&false.into(), &false.into())
    );
    cluster.servers[1..].iter().for_each(Server::resume);
}

#[test]
fn lock_that_never_existed_is_free() {
    for cluster in Cluster::of_each_kind() {
        let lock = cluster.get("/v1/locks/nobody").assert_status(200);
        assert_eq!(lock.body["is_held"], false, "{lock:?}");
        assert_eq!(lock.number("waiting"), 0);
    }
}

#[test]
fn all_readers_are_shown() {
    for cluster in Cluster::of_each_kind() {
        for owner in ["a", "b", "c"] {
            let request = json!({ "ttl_ms": 60_000, "mode": "read", "owner": owner });
            cluster.acquire("doc", &request).assert_status(200);
        }
        let lock = cluster.get("/v1/locks/doc").assert_status(200);
        let shared_with = lock.body["shared_with"].as_array().expect("readers").iter();
        let mut readers: Vec<_> = shared_with.chain([&lock.body["holder"]]).collect();
        readers.sort_by_key(|reader| reader["owner"].to_string());
        for (reader, owner) in readers.iter().zip(["a", "b", "c"]) {
            assert_eq!(reader["owner"], owner, "{lock:?}");
            assert_eq!(reader["is_shared"], true, "{lock:?}");
            assert_eq!(reader.get("fence"), None, "{lock:?}");
        }
        assert_eq!(readers.len(), 3, "{lock:?}");
    }
}

#[test]
fn owner_that_would_garble_a_log_is_shown_without_control_characters() {
    let cluster = Cluster::nodes(1);
    for (number, owner) in
        ["a\nb\u{1b}[31m", "<b>", "x\"y\\z", &"long".repeat(1_000)].into_iter().enumerate()
    {
        let name = format!("job-{number}");
        let request = json!({ "ttl_ms": 60_000, "owner": owner, "reason": owner });
        cluster.acquire(&name, &request).assert_status(200);
        let held = cluster.acquire(&name, &json!({})).assert_problem(409, "held");
        let shown = held.body["holder"]["owner"].as_str().expect("an owner");
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
        assert!(!shown.is_empty() && shown.len() <= 96, "{shown:?}");
    }
}

#[test]
fn inspecting_reveals_no_lease_id() {
    let cluster = Cluster::nodes(3);
    let lease = cluster.acquire("job", &json!({})).assert_status(200).lease_id();
    for path in ["/v1/locks/job", "/v1/locks"] {
        let shown = cluster.get(path).assert_status(200);
        assert!(!shown.text.contains(&lease), "{shown:?}");
    }
}
