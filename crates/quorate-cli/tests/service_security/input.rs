//! Invalid requests: each gets a clear answer, and the instance keeps serving.

use serde_json::Value;

use crate::{
    fixture::{Fixture, Instance, Response},
    raw::{Raw, assert_serves, status},
};

const ACQUIRE: &str = "POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\n";

#[track_caller]
fn assert_free(instance: &Instance) {
    let lock = instance.send("GET", "/v1/locks/a", &[], None).assert_status(200);
    assert_eq!(lock.body["is_held"], Value::Bool(false), "{lock:?}");
    assert_serves(instance, &[]);
}

fn acquire(instance: &Instance, body: &[u8]) -> Response {
    instance.send("POST", "/v1/locks/a/acquire", &[], Some(body))
}

#[test]
fn invalid_bodies_are_rejected() {
    let fixture = Fixture::start(0, 1, &[]);
    let instance = fixture.any();
    let deep = |open: &str, close: &str| {
        format!("{{\"who\": {}1{}}}", open.repeat(2_000), close.repeat(2_000))
    };
    let bodies = [
        "x",
        "{",
        "{}}",
        "[]",
        "null",
        "\"\"",
        "1",
        "{\"ttl_ms\": \"10\"}",
        "{\"ttl_ms\": -1}",
        "{\"ttl_ms\": 1.5}",
        "{\"ttl_ms\": 1e400}",
        "{\"ttl_ms\": 18446744073709551616}",
        "{\"ttl_ms\": {}}",
        "{\"wait_ms\": -1}",
        "{\"wait_ms\": null}",
        "{\"who\": 1}",
        "{\"who\": [\"a\"]}",
        "{\"who\": \"\\ud800\"}",
        "{\"who\": \"a\", \"who\": \"b\"}",
        "{\"mode\": \"exclusive\"}",
        "{\"mode\": 1}",
        "{\"permits\": 4294967296}",
        "{\"permits\": 2}",
        "{\"unknown\": 1}",
        "{\"ttl\": 1000}",
        "{\"who\": \"a\0b\"}",
        "NaN",
        "\u{feff}{}",
        &deep("[", "]"),
        &deep("{\"a\":", "}"),
        &"[".repeat(16_000),
    ];
    for body in bodies {
        acquire(instance, body.as_bytes()).assert_problem(400, "invalid_request");
    }
    for body in [&b"\xff\xfe"[..], b"{\"who\": \"\xc3\x28\"}", b"\0\0\0\0"] {
        acquire(instance, body).assert_problem(400, "invalid_request");
    }
    let out_of_bounds = [
        "{\"ttl_ms\": 0}",
        "{\"ttl_ms\": 1}",
        "{\"ttl_ms\": 18446744073709551615}",
        "{\"ttl_ms\": 9007199254740993}",
        "{\"mode\": \"permits\"}",
        "{\"mode\": \"permits\", \"permits\": 0}",
        "{\"mode\": \"permits\", \"permits\": 1025}",
        "{\"mode\": \"permits\", \"permits\": 4294967295}",
    ];
    for body in out_of_bounds {
        acquire(instance, body.as_bytes()).assert_problem(400, "out_of_bounds");
    }
    assert_free(instance);
}

#[test]
fn huge_waits_are_cut_to_the_limit() {
    let fixture = Fixture::start(0, 1, &["--max-wait", "200ms"]);
    let instance = fixture.any();
    acquire(instance, b"{\"ttl_ms\": 30000}").assert_status(200);
    let body = b"{\"wait_ms\": 18446744073709551615}";
    acquire(instance, body).assert_problem(409, "held");
}

#[test]
fn owners_and_reasons_of_any_text_are_shown_as_text() {
    let fixture = Fixture::start(0, 1, &[]);
    let instance = fixture.any();
    let texts = ["<script>alert(1)</script>", "a\nb\r\nX-Injected: 1", "\u{202e}\u{0}x", "🔒\t%"];
    for (number, text) in texts.into_iter().enumerate() {
        let body = serde_json::json!({ "who": text, "why": "x".repeat(10_000) });
        instance.acquire(&format!("t{number}"), &body).assert_status(200);
        let held = instance.acquire(&format!("t{number}"), &serde_json::json!({}));
        let held = held.assert_problem(409, "held");
        assert!(!held.headers.contains_key("x-injected"), "{held:?}");
        assert!(held.body["holder"]["who"].as_str().is_some_and(|it| it.len() < 500), "{held:?}");
        assert!(!held.text.contains(['\n', '\r', '\0']), "{held:?}");
    }
    let list = instance.send("GET", "/v1/locks", &[], None).assert_status(200);
    assert_eq!(list.headers["content-type"], "application/json");
}

#[test]
fn names_are_checked_and_never_interpreted() {
    let fixture = Fixture::start(0, 1, &[]);
    let instance = fixture.any();
    let invalid = ["%00", "a%00b", "a%0Ab", "a%0D%0AX:%201", "%1b%5b2J", "%c2%85"];
    for name in invalid {
        for (method, path) in
            [("POST", format!("/v1/locks/{name}/acquire")), ("GET", format!("/v1/locks/{name}"))]
        {
            let response = instance.send(method, &path, &[], None);
            let response = response.assert_problem(400, "invalid_name");
            assert!(!response.text.contains(['\n', '\r', '\0', '\u{1b}']), "{response:?}");
        }
    }
    for name in ["%ff", "a%c3%28", "%ed%a0%80"] {
        let path = format!("/v1/locks/{name}/acquire");
        instance.send("POST", &path, &[], None).assert_problem(400, "invalid_request");
    }
    let long = format!("/v1/locks/{}/acquire", "n".repeat(1_025));
    instance.send("POST", &long, &[], None).assert_problem(400, "invalid_name");
    let reserved = "/v1/locks/quorate:f:%7Ba%7D/acquire";
    instance.send("POST", reserved, &[], None).assert_problem(400, "invalid_name");
    let fine =
        ["%3Cscript%3E", "a%2Fb", "..%2F..%2Fetc", "%25", "%F0%9F%94%92", "a%20b", "*", "%7Ba"];
    for name in fine.map(str::to_owned).into_iter().chain(["n".repeat(1_024)]) {
        let path = format!("/v1/locks/{name}/acquire");
        let lease = instance.send("POST", &path, &[], None).assert_status(200).lease_id();
        let lock = instance.send("GET", &format!("/v1/locks/{name}"), &[], None);
        assert_eq!(lock.assert_status(200).body["is_held"], Value::Bool(true), "{name}");
        let release = format!("/v1/leases/{lease}");
        instance.send("DELETE", &release, &[], None).assert_status(204);
    }
    assert_free(instance);
}

#[test]
fn large_bodies_are_rejected_before_they_have_arrived() {
    let fixture = Fixture::start(0, 1, &[]);
    let instance = fixture.any();
    // The rest never arrives.
    for head in
        ["Content-Length: 10000000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n4E20\r\n"]
    {
        let mut raw = Raw::connect(instance);
        raw.send(format!("{ACQUIRE}{head}"));
        raw.send([b' '; 20_000]);
        let answer = raw.read_until("too_large");
        assert_eq!(status(&answer), 413, "{answer}");
        assert!(answer.contains("application/problem+json"), "{answer}");
    }
    // Clients that send everything before they read get the response too.
    let body = vec![b' '; 10_000_000];
    acquire(instance, &body).assert_problem(413, "too_large");
    assert_free(instance);
    // So do clients whose requests need no body.
    let response = instance.send("POST", "/v1/leases/x/renew", &[], Some(&body));
    response.assert_problem(413, "too_large");
    assert_free(instance);
}

#[test]
fn large_heads_are_rejected() {
    let fixture = Fixture::start(0, 1, &[]);
    let instance = fixture.any();
    let many: String = (0..1_000).map(|number| format!("X-{number}: a\r\n")).collect();
    let huge = "x".repeat(1_000_000);
    let heads = [
        ("many headers", format!("{ACQUIRE}{many}\r\n")),
        ("a huge header", format!("{ACQUIRE}X: {huge}\r\n\r\n")),
        ("a huge name of a header", format!("{ACQUIRE}{huge}: a\r\n\r\n")),
        (
            "a huge name of a lock",
            format!("POST /v1/locks/{huge}/acquire HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ),
        (
            "a huge query",
            format!("GET /v1/locks?prefix={huge} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ),
        ("a huge method", format!("{huge} / HTTP/1.1\r\nHost: localhost\r\n\r\n")),
        ("an endless head", huge),
    ];
    for (what, head) in heads {
        let mut raw = Raw::connect(instance);
        raw.send(head);
        raw.finish();
        let answer = raw.read_to_end();
        assert!([400, 414, 431].contains(&status(&answer)), "{what}: {answer}");
        assert_serves(instance, &[]);
    }
    assert_free(instance);
}

#[test]
fn malformed_requests_are_rejected() {
    let fixture = Fixture::start(0, 1, &["--max-head-time", "2s"]);
    let instance = fixture.any();
    let requests: [&[u8]; 14] = [
        b"\0\0\0\0\r\n\r\n",
        b"\xff\xff\xff\xff\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: \0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n X: folded\r\n\r\n",
        b"GET \x80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/locks/a/acquire HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /v1/locks/a/acquire HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST /v1/locks/a/acquire HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ];
    for request in requests {
        let answer = Raw::exchange(instance, request);
        let shown = String::from_utf8_lossy(request);
        assert!(answer.starts_with("HTTP/1.1 400") || answer.is_empty(), "{shown}: {answer}");
    }
    assert_free(instance);
}

#[test]
fn smuggled_requests_are_not_served() {
    let fixture = Fixture::start(0, 1, &["--max-head-time", "2s"]);
    let instance = fixture.any();
    let hidden = "POST /v1/locks/smuggled/acquire HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let bare = format!("{ACQUIRE}X: a\n\n{hidden}");
    let space = format!("{ACQUIRE}Content-Length : {}\r\n\r\n{hidden}", hidden.len());
    for request in [bare, space] {
        let answer = Raw::exchange(instance, &request);
        // Either everything is rejected, or only the first request is served. The treatment of the
        // rest must not depend on the length that a proxy in front uses.
        let served = answer.matches("HTTP/1.1 200").count();
        assert!(served <= 1, "{request:?}: {answer}");
        assert_not_served(instance, &answer);
    }
}

/// A proxy in front of the service may read another length of such a body.
#[test]
fn nothing_is_served_after_a_body_of_ambiguous_length() {
    let fixture = Fixture::start(0, 1, &[]);
    let instance = fixture.any();
    // If it were served, the connection would close after it, so that no read waits.
    let hidden = "0\r\n\r\nPOST /v1/locks/smuggled/acquire HTTP/1.1\r\nHost: localhost\r\n\
                  Connection: close\r\n\r\n";
    for headers in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: gzip, chunked",
    ] {
        let mut raw = Raw::connect(instance);
        // The sending side stays open: the service drops requests of clients that have left.
        raw.send(format!("{ACQUIRE}{headers}\r\n\r\n{hidden}"));
        let answer = raw.read_to_end();
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{headers}: {answer}");
        assert_not_served(instance, &answer);
    }
}

#[track_caller]
fn assert_not_served(instance: &Instance, answer: &str) {
    let lock = instance.send("GET", "/v1/locks/smuggled", &[], None).assert_status(200);
    assert_eq!(lock.body["is_held"], Value::Bool(false), "{answer}");
}

#[test]
fn unknown_paths_methods_and_parameters_are_rejected() {
    let fixture = Fixture::start(0, 1, &[]);
    let instance = fixture.any();
    for path in ["/", "/v1", "/v1/", "/v1/locks/", "/v2/locks", "/v1/locks/a/b/acquire", "/metrics"]
    {
        instance.send("GET", path, &[], None).assert_problem(404, "not_found");
    }
    for (method, path) in [
        ("PUT", "/v1/locks/a/acquire"),
        ("GET", "/v1/locks/a/acquire"),
        ("DELETE", "/v1/locks"),
        ("PATCH", "/v1/leases/a"),
        ("OPTIONS", "/v1/locks"),
        ("TRACE", "/v1/locks"),
        ("POST", "/openapi.json"),
    ] {
        let response = instance.send(method, path, &[], None);
        let response = response.assert_problem(405, "method_not_allowed");
        assert!(response.headers.contains_key("allow"), "{response:?}");
    }
    for query in ["limit=0", "limit=1001", "limit=-1", "limit=x", "limit=1&limit=2", "unknown=1"] {
        let response = instance.send("GET", &format!("/v1/locks?{query}"), &[], None);
        assert_eq!(response.status, 400, "{query}: {response:?}");
    }
    for cursor in ["x", "%00", "AAAA", "a%22b", &"A".repeat(8_000)] {
        let response = instance.send("GET", &format!("/v1/locks?cursor={cursor}"), &[], None);
        assert!([200, 400].contains(&response.status), "{cursor}: {response:?}");
    }
    for id in ["", "x", "-1", "18446744073709551615", &"9".repeat(5_000), "\u{e9}"] {
        let mut raw = Raw::connect(instance);
        raw.send(format!(
            "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: {id}\r\n\r\n"
        ));
        raw.read_until("event: snapshot");
    }
    assert_free(instance);
}
