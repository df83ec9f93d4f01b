//! Classic mode with quarantine: what happens to a node on connections that stay open is noticed by
//! the vote itself, and not by the next ping.

use std::time::Duration;

use quorate::{Client, error::LeaseError};
use quorate_testkit::{
    Fault, Proxy, Server, ServerBuilder, eventually,
    redis::{cmd, pipe},
};

use super::{
    fixture::{Fixture, TTL, attached, is_attached, quarantined, wait_until},
    forgetting::{copied_at_once, copy_by_replication},
};
use crate::conformance::fixture::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn flushed_node_does_not_vote_again() {
    forget(Server::builder(), |servers| servers[NODE].flush_all()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_that_was_a_replica_for_a_moment_does_not_vote_again() {
    forget(copied_at_once(), |servers| copy_by_replication(&servers[NODE], &servers[0])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_whose_clock_was_set_forward_does_not_vote_again() {
    let servers = Server::builder().own_clock();
    forget(servers, |servers| servers[NODE].clock().forward(2 * MAX_TTL)).await;
}

/// One client holds a lock on two nodes of three. One of those loses its data, and at once another
/// client asks, which was attached to all of them before.
async fn forget(servers: ServerBuilder, how: impl FnOnce(&[Server])) {
    let fixture = Fixture::of(servers.start_many(3), MAX_TTL);
    let (proxy, other) = (Proxy::start(&fixture.servers[0].address()), client(&fixture).await);
    proxy.set(Fault::Refuse);
    let urls = [proxy.url(), fixture.servers[1].url(), fixture.servers[2].url()];
    let holder = fixture.settings_of(urls).classic().build().expect("the settings are valid");
    wait_until(&holder, "two are attached", |nodes| nodes[1..].iter().all(is_attached));
    let held = holder.mutex("a").lock().await.expect("two of them vote");

    how(&fixture.servers);
    let second = other.mutex("a").try_lock().await;
    held.check().expect("it is held");
    assert!(!matches!(second, Ok(Some(_))), "the lock has two holders: {:?}", other.node_status());
    assert_eq!(fixture.servers[NODE].get("a"), None, "a node without a vote stores nothing");
}

/// A node that has lost everything and got the key again from another client: its answer about a
/// lease does not count.
#[tokio::test(flavor = "multi_thread")]
async fn node_with_the_data_of_another_neither_extends_nor_hands_over() {
    let fixture = Fixture::of(Server::start_many(3), MAX_TTL);
    let [first, second] = [client(&fixture).await, client(&fixture).await];
    let lease = first.mutex("a").lock().await.expect("they vote").detach().await.unwrap();
    for server in &fixture.servers[..2] {
        let owner = server.get("a").expect("it is held");
        let mut again = pipe();
        again.atomic().cmd("FLUSHALL").cmd("SET").arg("a").arg(owner).arg("PX").arg(60_000);
        again.exec(&mut server.connection()).expect("the server does so");
    }
    let extended = first.renew_lease(&lease).await;
    assert!(matches!(extended, Err(LeaseError::NoQuorum { .. })), "{extended:?}");
    let adopted = second.adopt(&lease).await;
    assert!(matches!(adopted, Err(LeaseError::NoQuorum { .. })), "{adopted:?}");
}

/// In the default mode the holder restores the key on the node before that.
#[tokio::test(flavor = "multi_thread")]
async fn node_whose_quarantine_has_just_ended_is_not_asked_for_a_lock() {
    let fixture = Fixture::new(3);
    let client = attached(fixture.settings().classic().vote_timeout(TTL / 2)).await;
    fixture.servers[NODE].restart_empty();
    wait_until(&client, "it recovers", |nodes| {
        quarantined(&nodes[NODE]).is_some_and(|(_, why)| why.starts_with("holders renew"))
    });
    let held = client.mutex("a").lock_timeout(2 * TTL).await.expect("two vote");
    // Earlier commands have arrived before this one.
    client.inspect("a").await.expect("the nodes answer");
    assert_eq!(fixture.servers[NODE].get("a"), None);
    held.release().await.expect("it is held");
}

/// A server may forget its scripts at any time: no client loses a vote by that.
#[tokio::test(flavor = "multi_thread")]
async fn one_try_acquires_although_the_script_was_lost() {
    let fixture = Fixture::of(Server::start_many(3), MAX_TTL);
    let client = client(&fixture).await;
    for _ in 0..3 {
        for server in &fixture.servers {
            let flush = cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection());
            flush.expect("the scripts are gone");
        }
        let held = client.mutex("a").try_lock().await.expect("they vote").expect("it is free");
        eventually("every node has it", PATIENCE, || {
            fixture.servers.iter().all(|server| server.get("a").is_some())
        });
        held.release().await.expect("it is held");
    }
}

/// The stored value is the one of other libraries, and without quarantine no script stores it.
#[tokio::test(flavor = "multi_thread")]
async fn stored_data_is_the_same_with_and_without_quarantine() {
    let (fixture, alone) = (Fixture::new(3), Server::start());
    let quarantined = attached(fixture.settings().classic().who("me")).await;
    let settings = fixture.settings_of([alone.url()]).classic().who("me");
    let unprotected = attached(settings).await;
    for (client, server, scripts) in
        [(quarantined, &fixture.servers[0], 1), (unprotected, &alone, 0)]
    {
        let before = server.command_calls("evalsha");
        let held = client.mutex("a").lock().await.expect("they vote");
        let stored = server.get("a").expect("it is stored");
        let text = String::from_utf8(stored).expect("it is text");
        let (id, rest) = text.split_once(':').expect("a client and a number");
        assert!(id.len() == 40 && rest.ends_with("@me"), "{text}");
        assert!(server.pttl("a") > 0);
        assert_eq!(server.command_calls("evalsha") - before, scripts);
        held.release().await.expect("it is held");
        assert_eq!(server.get("a"), None);
    }
}

async fn client(fixture: &Fixture) -> Client {
    // No node is silent here, but a busy machine may be slow.
    attached(fixture.settings().classic().vote_timeout(PATIENCE)).await
}

/// The node that forgets.
const NODE: usize = 1;

/// Long enough that nothing is renewed in between.
const MAX_TTL: Duration = Duration::from_secs(60);
