//! Identities of reentrant locks: each token has its own.

use serde_json::json;

use crate::token_file::{self, Token};

#[test]
fn no_token_enters_the_lock_of_another_one() {
    let names: [&[&str]; 3] = [&["a"], &["a/b"], &["a%2Fb"]];
    let (fixture, [a, slash, encoded]) = token_file::start(names, &[]);
    let enter = |token: &Token, identity: &str| {
        let request = json!({ "identity": identity, "ttl_ms": 60_000 });
        fixture.any().acquire_with("job", &token.auth(), &request)
    };
    let lease = enter(&a, "b/c").assert_status(200);
    for (token, identity) in
        [(&slash, "c"), (&slash, "b/c"), (&slash, "a/b/c"), (&encoded, "c"), (&encoded, "b/c")]
    {
        enter(token, identity).assert_problem(409, "held");
    }
    enter(&a, "b/c").assert_status(200);
    let path = format!("/v1/leases/{}", lease.lease_id());
    fixture.any().send("DELETE", &path, &a.auth(), None).assert_status(204);
    enter(&slash, "c").assert_problem(409, "held");
}

#[test]
fn every_entry_counts_as_a_lease() {
    let (fixture, [greedy]) = token_file::start([&["greedy"]], &["--max-leases", "2"]);
    let enter = || {
        let request = json!({ "identity": "one", "ttl_ms": 60_000 });
        fixture.any().acquire_with("job", &greedy.auth(), &request)
    };
    let lease = enter().assert_status(200);
    enter().assert_status(200);
    enter().assert_problem(429, "too_many");
    let path = format!("/v1/leases/{}", lease.lease_id());
    fixture.any().send("DELETE", &path, &greedy.auth(), None).assert_status(204);
    enter().assert_status(200);
}
