//! The example of what a restart can do: five nodes, one of which forgets, and two clients each of
//! which reaches three of them.

use std::time::Duration;

use quorate::{
    Client, ClientBuilder,
    error::{LockError, NodeReport},
};
use quorate_testkit::{Fault, Proxy, Server};

use super::fixture::{
    Fixture, GUARD, RECOVERY, is_attached, quarantined, settings, wait_for_vote, wait_until,
};
use crate::conformance::fixture::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn quarantine_prevents_a_second_majority_after_lost_data() {
    let fixture = Fixture::new(5);
    let cut_off = proxies(&fixture.servers);
    let (first, second) =
        two_clients(&fixture.servers, &cut_off, |urls| fixture.settings_of(urls)).await;
    let held = first.mutex("a").lock().await.expect("A, B and C vote");
    fixture.servers[C].restart_empty();
    wait_until(&second, "C is quarantined", |nodes| quarantined(&nodes[C]).is_some());
    let tried = second.mutex("a").try_lock().await;
    let Err(LockError::NoQuorum { nodes, .. }) = &tried else { panic!("{tried:?}") };
    let (left, why) = quarantined(&nodes[C]).unwrap_or_else(|| panic!("{nodes:?}"));
    assert!(
        left <= GUARD + RECOVERY && why.starts_with("it knows nothing of earlier locks"),
        "{left:?}, {why}"
    );
    let waited = second.mutex("a").lock_timeout(Duration::from_millis(500)).await;
    assert!(waited.is_err(), "{waited:?}");
    drop(held);
    // C has its place again as soon as a client reaches enough of the others.
    cut_off.iter().for_each(|proxy| proxy.set(Fault::Pass));
    let guard = second.mutex("a").lock_timeout(PATIENCE).await.expect("all vote");
    guard.release().await.expect("it is held");
    assert!(wait_for_vote(&second, C) < PATIENCE);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hold_the_lock_without_quarantine() {
    let servers = Server::start_many(5);
    let unprotected = |urls: Vec<String>| settings(urls).quarantine(false);
    let cut_off = proxies(&servers);
    let (first, second) = two_clients(&servers, &cut_off, unprotected).await;
    let held = first.mutex("a").lock().await.expect("A, B and C vote");
    servers[C].restart_empty();
    wait_until(&second, "C is attached", |nodes| is_attached(&nodes[C]));
    let other = second.mutex("a").try_lock().await.expect("C, D and E vote");
    assert!(other.is_some_and(|other| other.check().is_ok()), "C has forgotten");
    assert_eq!(held.check(), Ok(()), "quarantine prevents this");
}

/// Proxies to the servers that refuse connections at first.
fn proxies(servers: &[Server]) -> Vec<Proxy> {
    let proxies: Vec<_> = servers.iter().map(|it| Proxy::start(&it.address())).collect();
    proxies.iter().for_each(|proxy| proxy.set(Fault::Refuse));
    proxies
}

/// One reaches A, B and C, the other one C, D and E.
async fn two_clients(
    servers: &[Server],
    cut_off: &[Proxy],
    settings: impl Fn(Vec<String>) -> ClientBuilder,
) -> (Client, Client) {
    let client = async |is_reached: fn(usize) -> bool| {
        let url = |node: usize| match is_reached(node) {
            true => servers[node].url(),
            false => cut_off[node].url(),
        };
        let client = settings((0..servers.len()).map(url).collect());
        let client = client.connect().await.expect("three of them vote");
        let is_there = |nodes: &[NodeReport]| {
            nodes.iter().enumerate().all(|(node, it)| !is_reached(node) || is_attached(it))
        };
        wait_until(&client, "three are attached", is_there);
        client
    };
    (client(|node| node <= C).await, client(|node| node >= C).await)
}

const C: usize = 2;
