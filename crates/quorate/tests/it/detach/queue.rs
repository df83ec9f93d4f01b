//! Holders that are queued on some nodes when they detach their lease.

use quorate_testkit::{eventually, redis::cmd};

use crate::conformance::fixture::{PATIENCE, on_servers, take};

/// A holder that stays queued would be granted the lock after the adopter has released it.
#[test]
fn holder_that_detaches_leaves_the_queue() {
    on_servers(&[3, 5], async |fixture| {
        let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
        let server = &fixture.servers()[0];
        let plant = cmd("SET").arg("a").arg("another library's").exec(&mut server.connection());
        plant.expect("it is stored");
        let guard = take(alice.mutex("a")).await;
        let queued = || -> usize {
            let count = cmd("ZCARD").arg("quorate:q:{a}").query(&mut server.connection());
            count.expect("the queue can be counted")
        };
        eventually("the holder is queued where another library holds the lock", PATIENCE, || {
            queued() == 1
        });
        let lease = guard.detach().await.unwrap();
        eventually("the holder has left the queue", PATIENCE, || queued() == 0);
        let guard = bob.adopt(&lease).await.expect("it was detached");
        guard.verify().await.expect("it is held");
        guard.release().await.expect("it is held");
    });
}

/// A grant to a client that left its lease to expire would block the node for a whole ttl.
#[test]
fn client_that_left_its_lease_releases_later_grants() {
    on_servers(&[3, 5], async |fixture| {
        let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
        let server = &fixture.servers()[0];
        let plant = cmd("SET").arg("a").arg("another library\'s").exec(&mut server.connection());
        plant.expect("it is stored");
        take(alice.mutex("a")).await.leave_to_expire();
        let fence = || server.get("quorate:f:{a}");
        eventually("the client is queued", PATIENCE, || {
            let queued: Option<usize> =
                cmd("ZCARD").arg("quorate:q:{a}").query(&mut server.connection()).ok();
            queued == Some(1)
        });
        assert_eq!(fence(), None, "the node has granted it to no owner");
        cmd("DEL").arg("a").exec(&mut server.connection()).expect("it is gone");
        // Bob is granted the lock on this node and releases it, so the node grants it to alice.
        assert!(bob.mutex("a").try_lock().await.expect("all nodes answer").is_none());
        eventually("the node has granted it", PATIENCE, || fence().is_some());
        fixture.wait_until_empty([0]);
    });
}
