//! Liveness, readiness and metrics.

use quorate_testkit::{Server, eventually};
use serde_json::json;

use crate::fixture::{Fixture, Instance, PATIENCE};

#[test]
fn instance_is_alive_and_ready() {
    for fixture in Fixture::of_each_kind() {
        for path in ["/healthz", "/readyz"] {
            let response = fixture.get(path).assert_status(200);
            assert_eq!(response.text, "ok\n");
        }
    }
}

#[test]
fn instance_without_a_majority_is_alive_but_not_ready() {
    type Act = fn(&Server);
    let ways: [(usize, Act, Act); 2] =
        [(1, Server::kill, Server::restart), (3, Server::pause, Server::resume)];
    for (servers, take_down, bring_back) in ways {
        let fixture = Fixture::nodes(servers);
        let lease = fixture.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200);
        let down = &fixture.servers[servers / 2..];
        down.iter().for_each(take_down);
        for instance in &fixture.instances {
            let refused = instance.acquire("other", &json!({})).assert_problem(503, "no_quorum");
            assert_eq!(refused.body["nodes"].as_array().map(Vec::len), Some(servers));
            assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
            let path = format!("/v1/leases/{}/renew", lease.lease_id());
            let unsure = instance.send("POST", &path, &[], None);
            unsure.assert_problem(503, "no_quorum");
            assert_not_ready(&fixture, instance);
        }
        down.iter().for_each(bring_back);
        for instance in &fixture.instances {
            instance.await_ready();
        }
        fixture.acquire("another", &json!({})).assert_status(200);
    }
}

/// No client sends a request: only the instance itself contacts the nodes.
#[test]
fn idle_instance_notices_nodes_that_hang() {
    let fixture = Fixture::nodes(3);
    fixture.servers[1..].iter().for_each(Server::pause);
    for instance in &fixture.instances {
        assert_not_ready(&fixture, instance);
    }
    fixture.servers[1..].iter().for_each(Server::resume);
    fixture.instances.iter().for_each(Instance::await_ready);
}

#[test]
fn nodes_that_lost_their_data_leave_the_instance_not_ready() {
    let fixture = Fixture::nodes(3);
    let lost = &fixture.servers[1..];
    lost.iter().for_each(Server::kill);
    for instance in &fixture.instances {
        assert_not_ready(&fixture, instance);
    }
    lost.iter().for_each(Server::restart);
    for instance in &fixture.instances {
        eventually("the reason is shown", PATIENCE, || {
            let not_ready = instance.send("GET", "/readyz", &[], None);
            let not_ready = not_ready.assert_problem(503, "no_quorum");
            not_ready.text.matches("in quarantine").count() == 2
        });
    }
}

/// Every node is named, with its error.
#[track_caller]
fn assert_not_ready(fixture: &Fixture, instance: &Instance) {
    let ready = || instance.send("GET", "/readyz", &[], None);
    eventually("it is not ready", PATIENCE, || ready().status == 503);
    let not_ready = ready().assert_problem(503, "no_quorum");
    let nodes = not_ready.body["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), fixture.servers.len(), "{not_ready:?}");
    for (node, server) in nodes.iter().zip(&fixture.servers) {
        assert_eq!(node["node"], server.url(), "{not_ready:?}");
        assert!(node["answer"].as_str().is_some_and(|it| !it.is_empty()), "{not_ready:?}");
    }
    instance.send("GET", "/healthz", &[], None).assert_status(200);
}

#[test]
fn instance_works_with_a_majority_of_its_nodes() {
    let fixture = Fixture::nodes(3);
    fixture.servers[2].kill();
    let acquired = fixture.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200);
    fixture.acquire("job", &json!({})).assert_problem(409, "held");
    fixture.renew(&acquired.lease_id()).assert_status(200);
    for _ in &fixture.instances {
        fixture.get("/readyz").assert_status(200);
    }
    fixture.release(&acquired.lease_id()).assert_status(204);
}

#[test]
fn metrics_have_a_listener_of_their_own_and_no_names_of_locks() {
    let fixture = Fixture::start(1, 1, &["--metrics", "127.0.0.1:0"]);
    let request = json!({ "ttl_ms": 60_000, "who": "secret-who" });
    let acquired = fixture.acquire("secret-lock", &request).assert_status(200);
    fixture.acquire("secret-lock", &json!({})).assert_problem(409, "held");
    fixture.get("/v1/locks/secret-lock").assert_status(200);
    fixture.renew(&acquired.lease_id()).assert_status(200);
    fixture.release(&acquired.lease_id()).assert_status(204);
    fixture.get("/secret-path").assert_problem(404, "not_found");
    fixture.get("/metrics").assert_problem(404, "not_found");

    let metrics = fixture.instances[0].metrics();
    for line in [
        "# TYPE quorate_http_requests_total counter",
        "# TYPE quorate_http_request_duration_seconds histogram",
        "# TYPE quorate_http_requests_in_progress gauge",
        r#"quorate_http_requests_total{path="/v1/locks/{name}/acquire",status="200"} 1"#,
        r#"quorate_http_requests_total{path="/v1/locks/{name}/acquire",status="409"} 1"#,
        r#"quorate_http_requests_total{path="/v1/leases/{lease_id}/renew",status="200"} 1"#,
        r#"quorate_http_requests_total{path="/v1/leases/{lease_id}",status="204"} 1"#,
        r#"quorate_http_requests_total{path="unknown",status="404"} 2"#,
        "quorate_http_requests_in_progress 0",
        "# TYPE quorate_acquire_total counter",
        "# TYPE quorate_acquire_duration_seconds histogram",
        "# TYPE quorate_node_request_duration_seconds histogram",
        "# TYPE quorate_node_up gauge",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line} is not in\n{metrics}");
    }
    assert!(!metrics.contains("secret"), "{metrics}");
    assert!(!metrics.contains(&acquired.lease_id()), "{metrics}");
}

#[test]
fn requests_of_clients_that_disconnect_are_not_in_progress() {
    let fixture = Fixture::start(1, 1, &["--metrics", "127.0.0.1:0"]);
    fixture.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200);
    let waiters: Vec<_> = (1..=5)
        .map(|count| {
            let request = json!({ "wait_ms": 60_000 });
            let waiter = fixture.any().start_acquire("job", &[], &request);
            fixture.await_waiting("job", count);
            waiter
        })
        .collect();
    let has = |line: &str| fixture.instances[0].metrics().lines().any(|it| it == line);
    assert!(has("quorate_http_requests_in_progress 5"));
    drop(waiters);
    eventually("they are gone", PATIENCE, || has("quorate_http_requests_in_progress 0"));
}
