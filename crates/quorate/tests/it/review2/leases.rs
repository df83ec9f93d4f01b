//! Leases that go from one process to another.

use quorate_testkit::{eventually, redis::cmd};

use crate::conformance::fixture::{PATIENCE, on_servers, take};

/// Where somebody else was in the way, the one who left a lease stayed in line for ever, and was
/// handed the lock in the end.
#[test]
fn one_who_hands_a_lease_over_stands_in_no_line() {
    on_servers(&[3, 5], async |fixture| {
        let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
        let server = &fixture.servers()[0];
        let plant = cmd("SET").arg("a").arg("another library's").exec(&mut server.connection());
        plant.expect("it is stored");
        let guard = take(alice.mutex("a")).await;
        let standing = || -> usize {
            let count = cmd("ZCARD").arg("quorate:q:{a}").query(&mut server.connection());
            count.expect("it is a line")
        };
        eventually("it stands in line where another is in the way", PATIENCE, || standing() == 1);
        let lease = guard.detach().await.unwrap();
        eventually("its place is given up", PATIENCE, || standing() == 0);
        let guard = bob.adopt(&lease).await.expect("it was left");
        guard.verify().await.expect("it is held");
        guard.release().await.expect("it is held");
    });
}

/// The lock was handed to one who had left it to expire, for a whole ttl.
#[test]
fn one_who_left_a_lease_gives_back_what_it_is_handed_later() {
    on_servers(&[3, 5], async |fixture| {
        let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
        let server = &fixture.servers()[0];
        let plant = cmd("SET").arg("a").arg("another library\'s").exec(&mut server.connection());
        plant.expect("it is stored");
        take(alice.mutex("a")).await.leave_to_expire();
        let fence = || server.get("quorate:f:{a}");
        eventually("it stands in line", PATIENCE, || {
            let standing: Option<usize> =
                cmd("ZCARD").arg("quorate:q:{a}").query(&mut server.connection()).ok();
            standing == Some(1)
        });
        assert_eq!(fence(), None, "nobody was granted it there");
        cmd("DEL").arg("a").exec(&mut server.connection()).expect("it is gone");
        // Bob is granted it there, gives it back, and so hands it on.
        assert!(bob.mutex("a").try_lock().await.expect("all nodes answer").is_none());
        eventually("it was handed on", PATIENCE, || fence().is_some());
        fixture.wait_until_empty([0]);
    });
}
