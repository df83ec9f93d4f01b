//! Which texts are identities, and that different texts are different identities.

use quorate::{Client, error::LockError};

use super::{enter, entry, is_taken, release};
use crate::conformance::fixture::{
    Fixture, PATIENCE, on_memory_in_classic_mode, on_servers_in_classic_mode,
};

in_line_on_every_engine! {
    [1] => every_text_is_an_identity_of_its_own;
}

#[test]
fn classic_mode_rejects_identities() {
    let body = async |fixture: &Fixture| {
        let client = fixture.client("alice").await;
        let error = LockError::NotReentrant { lock: "a".into() };
        refused(&client, "x", &error).await;
        refused(&client, "", &error).await;
        let text = error.to_string();
        assert!(text.contains("\"a\" cannot be reentrant in classic mode"), "{text}");
        assert!(fixture.is_empty(), "no node was asked");
        release(client.mutex("a").lock().await.expect("it is free")).await;
    };
    on_memory_in_classic_mode(&[1, 3], body);
    on_servers_in_classic_mode(&[1, 3], body);
}

#[tokio::test]
async fn identities_without_a_byte_or_with_too_many_are_refused() {
    let client = Client::memory();
    for len in [0, 129, 1_000] {
        let error = LockError::InvalidIdentity { lock: "a".into(), len, max: 128 };
        refused(&client, &"x".repeat(len), &error).await;
        assert!(error.to_string().contains(&len.to_string()), "{error}");
    }
    // 43 signs of three bytes each.
    let error = LockError::InvalidIdentity { lock: "a".into(), len: 129, max: 128 };
    refused(&client, &"€".repeat(43), &error).await;
    assert!(
        client.locks("").all().await.expect("it answers").locks.is_empty(),
        "no node was asked"
    );
    for identity in ["x".repeat(128), "\0".repeat(128), "€".repeat(42), "%".repeat(128)] {
        let guard = entry(&client, &identity).lock().await.expect("it is free");
        release(enter(&client, &identity).await).await;
        let holder = client.inspect("a").await.expect("it answers").holder.expect("held");
        assert_eq!(holder.identity.as_ref(), Some(&identity));
        release(guard).await;
    }
}

async fn every_text_is_an_identity_of_its_own(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let long = ["x".repeat(128), "é".repeat(64), "\n".repeat(128), "x".repeat(127)];
    let all: Vec<&str> = ODD.into_iter().chain(long.iter().map(String::as_str)).collect();
    for identity in &all {
        let held = enter(&alice, identity).await;
        for other in &all {
            let got = entry(&bob, other).try_lock().await.expect("every node answers");
            assert_eq!(got.is_some(), other == identity, "{identity:?} and {other:?}");
            if let Some(guard) = got {
                release(guard).await;
            }
        }
        assert!(is_taken(bob.mutex("a")).await, "{identity:?}");
        let read = bob.rwlock("a").try_read().await.expect("every node answers");
        assert!(read.is_none(), "{identity:?}");
        let holder = bob.inspect("a").await.expect("it answers").holder.expect("it is held");
        assert_eq!(holder.identity.as_deref(), Some(*identity));
        assert!(!holder.is_shared && !holder.is_foreign);
        release(held).await;
        fixture.wait_until_empty(fixture.all());
    }
}

/// Separators of the stored format, and texts that look like stored values of others.
const ODD: [&str; 37] = [
    "a",
    "A",
    "a:r",
    "a:s",
    ":r",
    ":s",
    "!",
    "!!",
    "a!b",
    "a!b:r",
    "!a:r",
    "b",
    "%",
    "%61",
    "%41",
    "%2561",
    "61",
    " ",
    "  ",
    "a ",
    " a",
    "\n",
    "a\n",
    "\r\n",
    "\0",
    "é",
    "e\u{301}",
    "🔒",
    "~",
    "@",
    "a@b",
    "a~b.7",
    "*",
    "{a}",
    "-",
    "(![^!]*)",
    "q1:0000000000000001:100:aa:1",
];

async fn refused(client: &Client, identity: &str, expected: &LockError) {
    let mutex = entry(client, identity);
    for error in [
        mutex.lock().await.expect_err("it is invalid"),
        mutex.lock_timeout(PATIENCE).await.expect_err("it is invalid"),
        mutex.try_lock().await.expect_err("it is invalid"),
    ] {
        assert_eq!(error, *expected);
    }
}
