//! Clients without readers: classic mode and other libraries; and a node that is down.

use std::time::Duration;

use quorate::{error::LockError, memory::Behaviour};
use quorate_testkit::redis::cmd;

use super::together::{Wants, lock, read, waiting, won};
use crate::conformance::fixture::{
    Fixture, PATIENCE, on_memory_in_classic_mode, on_servers, on_servers_in_classic_mode,
};

#[test]
fn classic_mode_rejects_readers() {
    let body = async |fixture: &Fixture| {
        let client = fixture.client("alice").await;
        let lock = lock(&client);
        for error in [
            lock.read().await.expect_err("not in this mode"),
            lock.read_timeout(PATIENCE).await.expect_err("not in this mode"),
            lock.try_read().await.expect_err("not in this mode"),
        ] {
            assert_eq!(error, LockError::NotShared { lock: "a".into() });
            let text = error.to_string();
            assert!(text.contains("\"a\" cannot be shared in classic mode"), "{text}");
        }
        assert!(fixture.is_empty(), "no node was asked");
        lock.write().await.expect("it is free").release().await.expect("it was held");
    };
    on_memory_in_classic_mode(&[1, 3], body);
    on_servers_in_classic_mode(&[1, 3], body);
}

/// In classic mode an owner ends with the name of its client.
#[test]
fn classic_client_named_like_a_reader_is_no_reader() {
    on_servers_in_classic_mode(&[1, 3], async |fixture: &Fixture| {
        let client = fixture.client("nightly:s").await;
        let guard = client.mutex("a").lock().await.expect("it is free");
        let lease = guard.detach().await.expect("it is held");
        let guard = client.adopt(&lease).await.expect("it is there");
        guard.release().await.expect("it was held");
    });
}

#[test]
fn readers_exclude_another_library_and_wait_for_it() {
    on_servers(&[1, 3], async |fixture: &Fixture| {
        let client = fixture.client("alice").await;
        let reader = read(&client).await;
        for server in fixture.servers() {
            let mut connection = server.connection();
            let set = cmd("SET").arg("a").arg("theirs").arg("NX").arg("PX").arg(60_000).clone();
            let set: Option<String> = set.query(&mut connection).expect("the server answers");
            assert_eq!(set, None, "a reader holds it");
        }
        reader.release().await.expect("it was held");
        fixture.wait_until_empty(fixture.all());
        fixture.all().for_each(|node| fixture.plant(node, "a", b"theirs"));
        let waiter = waiting(fixture, &client, Wants::Read, 1).await;
        assert!(!waiter.is_finished(), "the other library has it");
        fixture.all().for_each(|node| fixture.forget(node));
        won(waiter).await.verify().await.expect("it is ours");
    });
}

/// A table under the name of a lock may be another library's, and is left as it is.
#[test]
fn table_of_another_library_is_not_changed() {
    on_servers(&[1], async |fixture: &Fixture| {
        let client = fixture.client("alice").await;
        let mut connection = fixture.servers()[0].connection();
        let table = ["a", "8743c9c0-0795-4907-87fd-6c719a6b4586:1", "1"];
        cmd("HSET").arg(&table).exec(&mut connection).expect("the server answers");
        for wait in [Duration::ZERO, Duration::from_millis(30)] {
            let error = lock(&client).read_timeout(wait).await.expect_err("it is taken");
            assert!(
                error.to_string().contains("held by a hash (not a lock of Quorate)"),
                "{error}"
            );
            assert!(lock(&client).write_timeout(wait).await.is_err());
        }
        let left: Vec<String> =
            cmd("HGETALL").arg("a").query(&mut connection).expect("the server answers");
        assert_eq!(left, table[1..]);
    });
}

#[tokio::test]
async fn readers_and_writers_do_not_need_every_node() {
    let nodes = quorate::memory::MemoryNodes::new(3);
    let client = quorate::Client::builder().memory(&nodes).build().expect("valid");
    nodes.set(1, Behaviour::Fail);
    let (one, two) = (client.rwlock("a").read().await, client.rwlock("a").read().await);
    one.expect("two of three").release().await.expect("it was held");
    let writer = client.rwlock("a").write_timeout(Duration::from_millis(30)).await;
    assert!(matches!(writer, Err(LockError::Timeout { .. })), "{writer:?}");
    two.expect("two of three").release().await.expect("it was held");
    drop(client.rwlock("a").write().await.expect("two of three"));
}
