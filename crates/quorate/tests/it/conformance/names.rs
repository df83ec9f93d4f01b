//! The name of a lock is the key on the nodes, byte for byte.

use quorate::error::{LockError, NameError, WithError};

use super::fixture::{Fixture, LONG, take};
use crate::mode::Mode;

on_every_engine! {
    [1, 2, 3, 4, 5] => key_is_exactly_the_name,
        names_that_a_pattern_would_match_are_different_locks,
        bad_name_is_refused_before_anything_is_written,
        reserved_prefix_can_be_changed;
}

async fn key_is_exactly_the_name(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let longest = "x".repeat(1_024);
    let longest_unicode = "鎖".repeat(341) + "!";
    assert_eq!(longest_unicode.len(), 1_024);
    let names = [
        "orders:42",
        "with some spaces ",
        " ",
        "größe/鎖/🔒",
        "{tag}x",
        "}{",
        "\"'\\`$(x)",
        "%s%n",
        "42",
        "-1e9",
        "*",
        "?",
        "[a-z]",
        "quorate",
        "Quorate:x",
        "nil",
        &longest,
        &longest_unicode,
    ];
    for name in names {
        let guard = take(client.mutex(name)).await;
        assert_eq!(guard.name(), name);
        fixture.wait_until_only(name, fixture.all());
        guard.extend(LONG).await.expect("the scripts find it, too");
        guard.verify().await.expect("it is held");
        guard.release().await.expect("it was held");
        fixture.wait_until_empty(fixture.all());
    }
}

async fn names_that_a_pattern_would_match_are_different_locks(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let mut guards = Vec::new();
    for name in ["a", "A", "?", "*", "[a]", "a ", "{a}", "\u{e4}", "a\u{308}"] {
        guards.push(take(client.mutex(name)).await);
    }
    for guard in guards {
        guard.release().await.expect("no other client has released it");
    }
    fixture.wait_until_empty(fixture.all());
}

async fn bad_name_is_refused_before_anything_is_written(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let reserved = NameError::Reserved { prefix: "quorate:".into() };
    let cases = [
        (String::new(), NameError::Empty),
        ("x".repeat(1_025), NameError::TooLong { len: 1_025 }),
        ("é".repeat(513), NameError::TooLong { len: 1_026 }),
        ("a\0".into(), NameError::Control { at: 1, found: '\0' }),
        ("a\r\nFLUSHALL\r\n".into(), NameError::Control { at: 1, found: '\r' }),
        ("\u{1b}[1m".into(), NameError::Control { at: 0, found: '\u{1b}' }),
        ("a\u{7f}".into(), NameError::Control { at: 1, found: '\u{7f}' }),
        ("quorate:".into(), reserved.clone()),
        ("quorate:x".into(), reserved),
    ];
    for (name, expected) in cases {
        let mutex = client.mutex(&name);
        let expected = LockError::InvalidName(expected);
        assert_eq!(mutex.try_lock().await.expect_err("bad"), expected, "{name:?}");
        assert_eq!(mutex.lock().await.expect_err("bad"), expected, "{name:?}");
        let timed = mutex.lock_timeout(LONG).await;
        assert_eq!(timed.expect_err("bad"), expected, "{name:?}");
        let done = mutex.with(async |_| panic!("no lock, no work")).await;
        assert_eq!(done, Err::<(), _>(WithError::Lock(expected)), "{name:?}");
    }
    assert!(fixture.is_empty(), "nothing was written");
}

async fn reserved_prefix_can_be_changed(fixture: &Fixture) {
    let fixture = &fixture.unprotected();
    let client = fixture.builder().prefix("locks/").connect().await.expect("the nodes are there");
    let refused = client.mutex("locks/a").try_lock().await.expect_err("reserved");
    let expected = NameError::Reserved { prefix: "locks/".into() };
    assert_eq!(refused, LockError::InvalidName(expected));
    for node in fixture.all() {
        // The keys of the client itself move too.
        let (sessions, people) = ("locks/s:", "locks/w:");
        let is_aside = |key: &String| key.starts_with(sessions) || key.starts_with(people);
        let (aside, others): (Vec<_>, Vec<_>) = fixture.names(node).into_iter().partition(is_aside);
        assert_eq!(others, Vec::<String>::new(), "no lock was written");
        let is_shown = fixture.mode() == Mode::Queue && !fixture.servers().is_empty();
        assert!(aside.is_empty() || is_shown, "{aside:?}");
    }
    take(client.mutex("quorate:x")).await.release().await.expect("it was held");
}
