//! Keys of other libraries: they exclude our clients, and our clients never change them.

use std::time::Duration;

use quorate::{
    Client,
    error::{Holder, LockError},
};
use quorate_testkit::{
    Server, eventually,
    redis::{Cmd, Value, cmd},
};

use super::fixture::{ALL, Fixture, LONG, PATIENCE, holder, on_servers_in_both_modes, take};

on_every_engine! {
    [1, 2, 3, 4, 5] => foreign_value_excludes_us_and_is_shown_escaped,
        foreign_value_on_a_minority_is_left_alone;
}

async fn foreign_value_excludes_us_and_is_shown_escaped(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let cases = [
        ((0..=255).collect::<Vec<u8>>(), r"\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b"),
        (b"\xff\x00\n\x1b[31m\"".to_vec(), r#"\xff\x00\n\x1b[31m\""#),
        (b"5577006791947779410".to_vec(), "5577006791947779410"),
        (b"host@example.org".to_vec(), "host@example.org"),
        (Vec::new(), ""),
    ];
    for (value, shown) in cases {
        fixture.all().for_each(|node| fixture.plant(node, "a", &value));
        assert!(client.mutex("a").try_lock().await.expect("every node answers").is_none());
        let seen = holder(&client, "a").await;
        match value.len() {
            0..=128 => assert_eq!(seen.who, shown),
            _ => assert!(seen.who.starts_with(shown) && seen.who.ends_with('…'), "{seen}"),
        }
        assert!(!seen.who.contains(char::is_control), "{seen}");
        assert_eq!(seen.expires_in, None, "it never expires");
        assert!(seen.to_string().ends_with(", never expires"), "{seen}");
        fixture.all().for_each(|node| assert_eq!(fixture.names(node), ["a"], "node {node}"));
        for server in fixture.servers() {
            assert_eq!(server.get("a").as_deref(), Some(&*value));
            assert_eq!(server.pttl("a"), -1);
        }
    }
}

async fn foreign_value_on_a_minority_is_left_alone(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let foreign = 0..fixture.tolerated();
    foreign.clone().for_each(|node| fixture.plant(node, "a", b"another's"));
    let guard = take(client.mutex("a")).await;
    guard.extend(LONG).await.expect("a majority is ours");
    guard.verify().await.expect("a majority is ours");
    guard.release().await.expect("a majority was ours");
    fixture.wait_until_empty(foreign.end..fixture.len());
    fixture.wait_until_only("a", foreign.clone());
    for server in &fixture.servers()[..fixture.servers().len().min(foreign.end)] {
        assert_eq!(server.get("a").as_deref(), Some(&b"another's"[..]));
        assert_eq!(server.pttl("a"), -1);
    }
}

/// Each kind of key under the name, with and without an end.
#[test]
fn key_of_any_type_excludes_us_and_is_not_touched() {
    on_servers_in_both_modes(&ALL, async |fixture| {
        let client = fixture.client("alice").await;
        for (kind, make) in kinds() {
            for is_mortal in [false, true] {
                fixture.servers().iter().for_each(|server| put(server, &make, is_mortal));
                let before: Vec<_> = fixture.servers().iter().map(dump).collect();
                let seen = stay_out(&client).await;
                let after: Vec<_> = fixture.servers().iter().map(dump).collect();
                assert_eq!(before, after, "{kind}");
                assert_eq!(seen.expires_in.is_some(), is_mortal, "{kind}: {seen}");
                match kind {
                    "string" => assert_eq!(seen.who, r"\x00\xff"),
                    _ => assert_eq!(seen.who, format!("a {kind}")),
                }
            }
        }
    });
}

/// A key that replaced ours while we held the lock survives our release, verify and extend.
#[test]
fn key_that_replaced_ours_is_not_touched() {
    on_servers_in_both_modes(&[1, 3], async |fixture| {
        let client = fixture.client("alice").await;
        for (kind, make) in kinds() {
            for server in fixture.servers() {
                let gone = cmd("DEL").arg(&["a", "b", "c"]).exec(&mut server.connection());
                gone.expect("they are deleted");
            }
            let (one, two) = (take(client.mutex("a")).await, take(client.mutex("b")).await);
            let three = take(client.mutex("c")).await;
            let everywhere =
                || fixture.servers().iter().all(|server| server.lock_keys().len() == 3);
            eventually("every node has all three", PATIENCE, everywhere);
            let names = ["a", "b", "c"];
            for server in fixture.servers() {
                names.iter().for_each(|name| put_as(server, &make, name, true));
            }
            let stored = || -> Vec<_> {
                fixture
                    .servers()
                    .iter()
                    .flat_map(|it| names.map(|name| dump_of(it, name)))
                    .collect()
            };
            let before = stored();
            assert!(one.verify().await.is_err(), "{kind}");
            assert!(two.extend(LONG).await.is_err(), "{kind}");
            assert!(three.release().await.is_err(), "{kind}");
            drop((one, two));
            // Behind the dropped guards' releases on every connection.
            stay_out(&client).await;
            assert_eq!(before, stored(), "{kind}");
        }
    });
}

/// When a foreign lock expires, a waiter acquires the lock.
#[test]
fn waiter_acquires_after_a_foreign_lock_expires() {
    on_servers_in_both_modes(&ALL, async |fixture| {
        let client = fixture.client("alice").await;
        for server in fixture.servers() {
            let mut connection = server.connection();
            let set = cmd("SET").arg(&["a", "another's", "NX", "PX", "100"]).exec(&mut connection);
            set.expect("it is free");
        }
        let guard = client.mutex("a").lock().await.expect("another's lock ends");
        guard.verify().await.expect("it is held");
    });
}

/// Tries to acquire the lock in every way, which fails, and returns the reported holder.
async fn stay_out(client: &Client) -> Holder {
    let mutex = client.mutex("a");
    assert!(mutex.try_lock().await.expect("every node answers").is_none());
    let waited = mutex.lock_timeout(Duration::from_millis(5)).await;
    assert!(matches!(waited, Err(LockError::Timeout { .. })), "{waited:?}");
    holder(client, "a").await
}

/// How to make a key of each type; the key's name is missing.
fn kinds() -> [(&'static str, Vec<Vec<u8>>); 6] {
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    [
        ("string", vec![b"SET".to_vec(), b"\x00\xff".to_vec()]),
        ("hash", words(&["HSET", "owner", "1"])),
        ("list", words(&["RPUSH", "x", "y"])),
        ("set", words(&["SADD", "x"])),
        ("zset", words(&["ZADD", "1", "x"])),
        ("stream", words(&["XADD", "1-1", "x", "y"])),
    ]
}

fn put(server: &Server, make: &[Vec<u8>], is_mortal: bool) {
    put_as(server, make, "a", is_mortal);
}

fn put_as(server: &Server, make: &[Vec<u8>], name: &str, is_mortal: bool) {
    let mut connection = server.connection();
    cmd("DEL").arg(name).exec(&mut connection).expect("it is deleted");
    let mut words = make.to_vec();
    words.insert(1, name.into());
    let mut making = Cmd::new();
    making.arg(words).exec(&mut connection).expect("it is made");
    if is_mortal {
        cmd("PEXPIREAT").arg(name).arg(END_MS).exec(&mut connection).expect("it gets an end");
    }
}

fn dump(server: &Server) -> (Value, i64) {
    dump_of(server, "a")
}

/// All that a server knows about the key: its value as bytes, and when it ends.
fn dump_of(server: &Server, name: &str) -> (Value, i64) {
    let mut connection = server.connection();
    let bytes = cmd("DUMP").arg(name).query(&mut connection).expect("a dump");
    let end = cmd("PEXPIRETIME").arg(name).query(&mut connection).expect("a time");
    assert_ne!(bytes, Value::Nil, "the key is gone");
    (bytes, end)
}

/// In the year 2100.
const END_MS: i64 = 4_102_444_800_000;
