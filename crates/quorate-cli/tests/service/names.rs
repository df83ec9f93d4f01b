//! Names of locks in URLs.

use serde_json::json;

use crate::fixture::{Fixture, Response};

#[test]
fn every_printable_name_is_served() {
    for fixture in [Fixture::local(), Fixture::nodes(1)] {
        for name in [
            "a/b",
            "/",
            "//",
            "a b+c",
            "100%",
            "%2F",
            "#",
            "job#1",
            "?",
            "a?b=c&d",
            "..",
            ".",
            "../../etc/passwd",
            "<script>alert(1)</script>",
            "\"quoted\" 'name' \\",
            "größe",
            "锁",
            "🔒",
            "e\u{301}",
            "\u{202e}right to left",
            "{braces}",
            "acquire",
            "a*[b]?",
            "name:with:colons",
            &"x".repeat(1_024),
        ] {
            let encoded = encoded(name);
            let acquired = fixture.acquire(&encoded, &json!({})).assert_status(200);
            let lock = fixture.get(&format!("/v1/locks/{encoded}")).assert_status(200);
            assert_eq!(lock.body["name"], *name);
            assert_eq!(lock.body["is_held"], true, "{lock:?}");
            assert_eq!(lock.headers["content-type"], "application/json");
            let listed = fixture.get(&format!("/v1/locks?prefix={encoded}")).assert_status(200);
            assert_eq!(listed.body["locks"][0]["name"], *name, "{listed:?}");
            fixture.acquire(&encoded, &json!({})).assert_problem(409, "held");
            fixture.renew(&acquired.lease_id()).assert_status(200);
            fixture.release(&acquired.lease_id()).assert_status(204);
        }
    }
}

#[test]
fn impossible_names_are_rejected_with_a_problem() {
    for fixture in [Fixture::local(), Fixture::nodes(1)] {
        for name in ["\0", "a\nb", "\u{7f}", "\u{1b}[31m", "quorate:mine", &"x".repeat(1_025)] {
            let encoded = encoded(name);
            let refused = fixture.acquire(&encoded, &json!({}));
            refused.assert_problem(400, "invalid_name");
            let refused = fixture.get(&format!("/v1/locks/{encoded}"));
            refused.assert_problem(400, "invalid_name");
        }
        for not_text in ["%ff", "%c3%28"] {
            fixture.acquire(not_text, &json!({})).assert_problem(400, "invalid_request");
        }
        for incomplete in ["%", "%zz", "%4"] {
            let response = fixture.acquire(incomplete, &json!({}));
            assert!(response.status < 500, "{response:?}");
        }
        fixture.acquire("", &json!({})).assert_problem(400, "invalid_name");
    }
}

#[test]
fn mutex_named_like_a_permit_does_not_raise_the_limit() {
    let fixture = Fixture::nodes(1);
    let permit = || fixture.acquire("pool", &json!({ "mode": "permits", "permits": 2 }));
    fixture.acquire("pool%231", &json!({})).assert_status(200);
    permit().assert_status(200);
    permit().assert_problem(409, "held");
}

#[test]
fn names_do_not_end_up_in_response_headers() {
    let fixture = Fixture::local();
    let response: Response = fixture.acquire("a%0d%0aSet-Cookie:%20x=y", &json!({}));
    let response = response.assert_problem(400, "invalid_name");
    assert!(!response.headers.contains_key("set-cookie"), "{response:?}");
}

/// The name as one segment of a path.
fn encoded(name: &str) -> String {
    name.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
