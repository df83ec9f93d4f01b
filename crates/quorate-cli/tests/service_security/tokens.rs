//! What a token allows, and what it does not.

use serde_json::json;

use crate::{
    fixture::{Fixture, Instance, Response},
    token_file::{self, Token},
};

fn call(instance: &Instance, token: &Token, method: &str, path: &str) -> Response {
    instance.send(method, path, &token.auth(), None)
}

#[test]
fn token_goes_to_standard_error_and_only_its_hash_to_standard_output() {
    let fixture = Fixture::start(0, 0, &[]);
    let args =
        ["ci", "--scope", "lock", "--scope", "read", "--prefix", "ci:", "--expires"].as_slice();
    let token = Token::new(&fixture, &[args, &["2027-01-31T00:00:00Z"]].concat());
    let Token { secret, entry, .. } = &token;
    assert_eq!(secret.len(), 3 + 64, "{secret}");
    assert!(!entry.contains(&secret[3..11]), "{entry}");
    for part in ["[[token]]", "\"ci\"", "\"lock\", \"read\"", "\"ci:\"", "2027-01-31T00:00:00Z"] {
        assert!(entry.contains(part), "{part}: {entry}");
    }
    assert_ne!(Token::new(&fixture, &["ci"]).secret, *secret);
}

#[test]
fn token_command_rejects_what_the_service_would_reject() {
    let fixture = Fixture::start(0, 0, &[]);
    let bad: [&[&str]; 4] = [
        &["ci", "--expires", "tomorrow"],
        &["ci", "--expires", "2027-01-31"],
        &["ci", "--scope", "root"],
        &[""],
    ];
    for args in bad {
        let output = fixture.quorate(&[&["token"], args].concat()).output().expect("it runs");
        assert_eq!(output.status.code(), Some(64), "{args:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

#[test]
fn requests_without_a_valid_token_are_rejected() {
    let (fixture, [token, expired]) =
        token_file::start([&["ci"], &["old", "--expires", "2001-01-31T00:00:00Z"]], &[]);
    let instance = fixture.any();
    let secret = &token.secret;
    let headers = [
        None,
        Some(String::new()),
        Some("Bearer".to_owned()),
        Some("Bearer ".to_owned()),
        Some("Bearer qt_unknown".to_owned()),
        Some(format!("Basic {secret}")),
        Some(secret.clone()),
        Some(format!("Bearer {}", secret.to_uppercase())),
        Some(format!("Bearer {}", &secret[..secret.len() - 1])),
        Some(format!("Bearer {secret}0")),
        Some(expired.header),
    ];
    let requests = [
        ("POST", "/v1/locks/a/acquire"),
        ("POST", "/v1/leases/a/renew"),
        ("POST", "/v1/leases/a/downgrade"),
        ("DELETE", "/v1/leases/a"),
        ("GET", "/v1/locks/a"),
        ("GET", "/v1/locks"),
        ("GET", "/v1/events"),
    ];
    for header in &headers {
        for (method, path) in requests {
            let header = header.as_ref().map(|value| ("Authorization", value.as_str()));
            let headers: Vec<_> = header.into_iter().collect();
            let response = instance.send(method, path, &headers, None);
            let response = response.assert_problem(401, "unauthorized");
            assert_eq!(response.headers["www-authenticate"], "Bearer", "{response:?}");
        }
    }
    // The hash in the file is not accepted as a token.
    let hash = token.entry.split('"').find(|part| part.len() == 64).expect("a hash");
    let header = format!("Bearer {hash}");
    let headers = [("Authorization", header.as_str())];
    instance.send("GET", "/v1/locks", &headers, None).assert_problem(401, "unauthorized");
    call(instance, &token, "GET", "/v1/locks").assert_status(200);
}

#[test]
fn probes_and_the_document_need_no_token_and_show_no_nodes() {
    let (mut fixture, [_]) = token_file::start([&["ci"]], &[]);
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        fixture.any().send("GET", path, &[], None).assert_status(200);
    }
    let path = fixture.path("tokens.toml").display().to_string();
    let args = ["serve", "--listen", "127.0.0.1:0", "--tokens", &path, "--node"];
    let args = [args.as_slice(), &["redis://127.0.0.1:1"]].concat();
    let instance = Instance::start(&mut fixture.quorate(&args));
    fixture.instances.push(instance);
    let instance = fixture.instances.last().expect("just added");
    let response = instance.send("GET", "/readyz", &[], None).assert_problem(503, "no_quorum");
    assert!(!response.text.contains("127.0.0.1:1"), "{response:?}");
}

#[test]
fn scopes_allow_what_is_documented() {
    let all: [&[&str]; 3] =
        [&["r", "--scope", "read"], &["l", "--scope", "lock"], &["a", "--scope", "admin"]];
    let (fixture, [read, lock, admin]) = token_file::start(all, &[]);
    let instance = fixture.any();
    let held = call(instance, &lock, "POST", "/v1/locks/a/acquire").assert_status(200);
    let renew = format!("/v1/leases/{}/renew", held.lease_id());
    let downgrade = format!("/v1/leases/{}/downgrade", held.lease_id());
    let release = format!("/v1/leases/{}", held.lease_id());
    for (method, path) in [
        ("POST", "/v1/locks/b/acquire"),
        ("POST", &*renew),
        ("POST", &*downgrade),
        ("DELETE", &*release),
    ] {
        call(instance, &read, method, path).assert_problem(403, "forbidden");
    }
    for token in [&read, &lock, &admin] {
        call(instance, token, "GET", "/v1/locks/a").assert_status(200);
        let list = call(instance, token, "GET", "/v1/locks").assert_status(200);
        assert_eq!(list.body["locks"].as_array().map(Vec::len), Some(1), "{list:?}");
    }
    call(instance, &lock, "POST", &renew).assert_status(200);
    call(instance, &admin, "POST", &renew).assert_status(200);
    call(instance, &admin, "DELETE", &release).assert_status(204);
}

#[test]
fn token_reaches_nothing_outside_its_prefix() {
    let all: [&[&str]; 2] = [&["all"], &["ci", "--prefix", "ci:"]];
    let (fixture, [all, ci]) = token_file::start(all, &[]);
    let instance = fixture.any();
    let outside = call(instance, &all, "POST", "/v1/locks/prod:db/acquire").assert_status(200);
    let inside = call(instance, &ci, "POST", "/v1/locks/ci:1/acquire").assert_status(200);
    let lease = outside.lease_id();
    let forbidden = [
        ("POST", "/v1/locks/prod:db/acquire".to_owned()),
        ("POST", "/v1/locks/ci/acquire".to_owned()),
        ("POST", "/v1/locks/CI:1/acquire".to_owned()),
        ("POST", format!("/v1/leases/{lease}/renew")),
        ("POST", format!("/v1/leases/{lease}/downgrade")),
        ("DELETE", format!("/v1/leases/{lease}")),
        ("GET", "/v1/locks/prod:db".to_owned()),
        ("GET", "/v1/locks?prefix=".to_owned()),
        ("GET", "/v1/locks?prefix=c".to_owned()),
        ("GET", "/v1/locks?prefix=prod".to_owned()),
        ("GET", "/v1/events?prefix=prod".to_owned()),
    ];
    for (method, path) in forbidden {
        let response = call(instance, &ci, method, &path).assert_problem(403, "forbidden");
        assert!(!response.text.contains("prod:db"), "{response:?}");
    }
    let list = call(instance, &ci, "GET", "/v1/locks").assert_status(200);
    assert_eq!(list.body["locks"].as_array().map(Vec::len), Some(1), "{list:?}");
    assert_eq!(list.body["locks"][0]["name"], "ci:1");
    // The lease of the other token is unchanged.
    call(instance, &all, "POST", &format!("/v1/leases/{lease}/renew")).assert_status(200);
    let path = format!("/v1/leases/{}", inside.lease_id());
    call(instance, &ci, "DELETE", &path).assert_status(204);
}

#[test]
fn semaphore_of_a_token_stays_within_its_prefix() {
    let (fixture, [ci]) = token_file::start([&["ci", "--prefix", "ci:"]], &[]);
    let body = json!({ "mode": "permits", "permits": 2 });
    let acquired = fixture.any().acquire_with("ci:pool", &ci.auth(), &body).assert_status(200);
    let path = format!("/v1/leases/{}", acquired.lease_id());
    call(fixture.any(), &ci, "DELETE", &path).assert_status(204);
    fixture.any().acquire_with("pool", &ci.auth(), &body).assert_problem(403, "forbidden");
}

#[test]
fn locks_of_a_set_stay_within_the_prefix_of_the_token() {
    let (fixture, [ci]) = token_file::start([&["ci", "--prefix", "ci:"]], &[]);
    let acquire = |name: &str, also: &str| {
        fixture.any().acquire_with(name, &ci.auth(), &json!({ "also": [also] }))
    };
    acquire("ci:a", "prod:b").assert_problem(403, "forbidden");
    acquire("prod:b", "ci:a").assert_problem(403, "forbidden");
    acquire("ci:a", "ci:b").assert_status(200);
}

#[test]
fn idempotency_keys_of_two_tokens_do_not_meet() {
    let (fixture, [one, two]) = token_file::start([&["one"], &["two"]], &[]);
    let with_key = |token: &Token| {
        let headers = [("Authorization", token.header.as_str()), ("Idempotency-Key", "same")];
        fixture.any().acquire_with("job", &headers, &json!({}))
    };
    let first = with_key(&one).assert_status(200);
    with_key(&two).assert_problem(409, "held");
    assert_eq!(with_key(&one).assert_status(200).number("fence"), first.number("fence"));
}

#[test]
fn events_show_only_the_names_of_the_prefix() {
    let all: [&[&str]; 2] = [&["all"], &["ci", "--prefix", "ci:"]];
    let (fixture, [all, ci]) = token_file::start(all, &[]);
    let instance = fixture.any();
    call(instance, &all, "POST", "/v1/locks/prod:before/acquire").assert_status(200);
    let mut watch = crate::raw::Raw::connect(instance);
    watch.send(format!(
        "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\n\r\n",
        ci.header
    ));
    watch.read_until("event: snapshot");
    call(instance, &all, "POST", "/v1/locks/prod:after/acquire").assert_status(200);
    call(instance, &ci, "POST", "/v1/locks/ci:after/acquire").assert_status(200);
    let seen = watch.read_until("ci:after");
    assert!(!seen.contains("prod:"), "{seen}");
}
