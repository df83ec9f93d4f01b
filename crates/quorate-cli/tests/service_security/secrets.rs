//! Secrets do not leak: no message and no metric contains tokens or lease ids.

use serde_json::json;

use crate::{
    fixture::Instance,
    token_file::{self, Token},
};

/// Requests with a token and a lease that succeed and fail in all ways. Returns the lease id.
fn exercise(instance: &Instance, token: &Token) -> String {
    let auth = token.auth();
    let acquired = instance.acquire_with("job", &auth, &json!({ "why": "nightly" }));
    let lease = acquired.assert_status(200).lease_id();
    let (renew, release) = (format!("/v1/leases/{lease}/renew"), format!("/v1/leases/{lease}"));
    instance.acquire_with("job", &auth, &json!({})).assert_problem(409, "held");
    instance.send("POST", &renew, &auth, None).assert_status(200);
    instance.send("POST", &renew, &[], None).assert_problem(401, "unauthorized");
    instance.send("DELETE", &release, &auth, None).assert_status(204);
    instance.send("DELETE", &release, &auth, None).assert_problem(410, "lease_lost");
    let forged = format!("/v1/leases/{}/renew", &lease[..lease.len() - 8]);
    let answer = instance.send("POST", &forged, &auth, None).assert_problem(400, "invalid_lease");
    assert!(!answer.text.contains(&lease[..40]), "{answer:?}");
    // A token in the wrong place.
    let path = format!("/v1/locks?limit={}", token.secret);
    let answer = instance.send("GET", &path, &auth, None).assert_problem(400, "invalid_request");
    assert!(!answer.text.contains(&token.secret), "{answer:?}");
    lease
}

#[test]
fn messages_and_metrics_have_no_secrets_in_them() {
    for args in [&["--verbose"][..], &["--log-format", "json", "--verbose"]] {
        let metrics = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = metrics.local_addr().expect("bound").to_string();
        drop(metrics);
        let args = [args, &["--metrics", &address]].concat();
        let (mut fixture, [token]) = token_file::start([&["ci"]], &args);
        let instance = fixture.instances.first_mut().expect("one");
        let lease = exercise(instance, &token);
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build();
        let agent: ureq::Agent = agent.into();
        let response = agent.get(format!("http://{address}/metrics")).call();
        let metrics = response.expect("it listens").body_mut().read_to_string().expect("text");
        assert!(metrics.contains("quorate_http_requests_total"), "{metrics}");
        assert!(metrics.contains("/v1/leases/{lease_id}/renew"), "{metrics}");
        instance.signal(rustix::process::Signal::TERM);
        assert_eq!(instance.end(), Some(0), "{}", instance.stderr());
        let stderr = instance.stderr();
        assert!(stderr.contains("shutting down"), "{stderr}");
        for (what, text) in [("stderr", &stderr), ("metrics", &metrics)] {
            assert!(!text.contains(&token.secret[3..]), "{what}: {text}");
            assert!(!text.contains(&lease[..60]), "{what}: {text}");
            assert!(!text.contains("quorate-lease-1"), "{what}: {text}");
        }
        assert!(!metrics.contains("job"), "names of locks are unbounded: {metrics}");
    }
}
