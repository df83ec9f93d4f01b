//! Liveness, readiness and metrics.

use quorate_testkit::{Server, eventually};
use serde_json::json;

use crate::fixture::{Cluster, Instance, PATIENCE};

#[test]
fn instance_is_alive_and_ready() {
    for cluster in Cluster::of_each_kind() {
        for path in ["/healthz", "/readyz"] {
            let response = cluster.get(path).assert_status(200);
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
        let cluster = Cluster::nodes(servers);
        let lease = cluster.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200);
        let down = &cluster.servers[servers / 2..];
        down.iter().for_each(take_down);
        for instance in &cluster.instances {
            let refused = instance.acquire("other", &json!({})).assert_problem(503, "no_quorum");
            assert_eq!(refused.body["nodes"].as_array().map(Vec::len), Some(servers));
            assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
            let path = format!("/v1/leases/{}/renew", lease.lease_id());
            let unsure = instance.send("POST", &path, &[], None);
            unsure.assert_problem(503, "no_quorum");
            assert_not_ready(&cluster, instance);
        }
        down.iter().for_each(bring_back);
        for instance in &cluster.instances {
            instance.await_ready();
        }
        cluster.acquire("another", &json!({})).assert_status(200);
    }
}

/// No client sends a request: only the instance itself contacts the nodes.
#[test]
fn idle_instance_notices_nodes_that_hang() {
    let cluster = Cluster::nodes(3);
    cluster.servers[1..].iter().for_each(Server::pause);
    for instance in &cluster.instances {
        assert_not_ready(&cluster, instance);
    }
    cluster.servers[1..].iter().for_each(Server::resume);
    cluster.instances.iter().for_each(Instance::await_ready);
}

#[test]
fn nodes_that_lost_their_data_leave_the_instance_not_ready() {
    let cluster = Cluster::nodes(3);
    let lost = &cluster.servers[1..];
    lost.iter().for_each(Server::kill);
    for instance in &cluster.instances {
        assert_not_ready(&cluster, instance);
    }
    lost.iter().for_each(Server::restart);
    for instance in &cluster.instances {
        eventually("the reason is shown", PATIENCE, || {
            let not_ready = instance.send("GET", "/readyz", &[], None);
            let not_ready = not_ready.assert_problem(503, "no_quorum");
            not_ready.text.matches("in quarantine").count() == 2
        });
    }
}

/// Every node is named, with its error.
#[track_caller]
fn assert_not_ready(cluster: &Cluster, instance: &Instance) {
    let ready = || instance.send("GET", "/readyz", &[], None);
    eventually("it is not ready", PATIENCE, || ready().status == 503);
    let not_ready = ready().assert_problem(503, "no_quorum");
    let nodes = not_ready.body["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), cluster.servers.len(), "{not_ready:?}");
    for (node, server) in nodes.iter().zip(&cluster.servers) {
        assert_eq!(node["node"], server.url(), "{not_ready:?}");
        assert!(node["answer"].as_str().is_some_and(|it| !it.is_empty()), "{not_ready:?}");
    }
    instance.send("GET", "/healthz", &[], None).assert_status(200);
}

#[test]
fn instance_works_with_a_majority_of_its_nodes() {
    let cluster = Cluster::nodes(3);
    cluster.servers[2].kill();
    let acquired = cluster.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200);
    cluster.acquire("job", &json!({})).assert_problem(409, "held");
    cluster.renew(&acquired.lease_id()).assert_status(200);
    for _ in &cluster.instances {
        cluster.get("/readyz").assert_status(200);
    }
    cluster.release(&acquired.lease_id()).assert_status(204);
}

#[test]
fn metrics_have_a_listener_of_their_own_and_no_names_of_locks() {
    let cluster = Cluster::start(1, 1, &["--metrics", "127.0.0.1:0"]);
    let request = json!({ "ttl_ms": 60_000, "owner": "secret-owner" });
    let acquired = cluster.acquire("secret-lock", &request).assert_status(200);
    cluster.acquire("secret-lock", &json!({})).assert_problem(409, "held");
    cluster.get("/v1/locks/secret-lock").assert_status(200);
    cluster.renew(&acquired.lease_id()).assert_status(200);
    cluster.release(&acquired.lease_id()).assert_status(204);
    cluster.get("/secret-path").assert_problem(404, "not_found");
    cluster.get("/metrics").assert_problem(404, "not_found");

    let metrics = cluster.instances[0].metrics();
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
    let cluster = Cluster::start(1, 1, &["--metrics", "127.0.0.1:0"]);
    cluster.acquire("job", &json!({ "ttl_ms": 60_000 })).assert_status(200);
    let waiters: Vec<_> = (1..=5)
        .map(|count| {
            let request = json!({ "wait_ms": 60_000 });
            let waiter = cluster.any().start_acquire("job", &[], &request);
            cluster.await_waiting("job", count);
            waiter
        })
        .collect();
    let has = |line: &str| cluster.instances[0].metrics().lines().any(|it| it == line);
    assert!(has("quorate_http_requests_in_progress 5"));
    drop(waiters);
    eventually("they are gone", PATIENCE, || has("quorate_http_requests_in_progress 0"));
}
