//! The example of what a restart can do: five nodes, one of which forgets, and two clients each of
//! which reaches three of them.

use std::time::Duration;

use quorate::{
    Client, ClientBuilder,
    error::{LockError, NodeReport},
};
use quorate_testkit::{Fault, Proxy, Server};

use super::stage::{GUARD, Stage, guarded, is_attached, settings, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn with_the_guard_a_node_that_forgot_makes_no_second_majority() {
    let stage = Stage::new(5).await;
    let (first, second) = two_clients(&stage.servers, |urls| stage.settings_of(urls)).await;
    let held = first.mutex("a").lock().await.expect("A, B and C vote");
    stage.servers[C].restart_empty();
    wait_until(&second, "C is guarded", |nodes| guarded(&nodes[C]).is_some());
    let tried = second.mutex("a").try_lock().await;
    let Err(error @ LockError::NoQuorum { .. }) = &tried else { panic!("{tried:?}") };
    println!("{error}");
    let LockError::NoQuorum { nodes } = error else { panic!("{error}") };
    let (left, why) = guarded(&nodes[C]).unwrap_or_else(|| panic!("{nodes:?}"));
    assert!(left <= GUARD && why == "it knows nothing of earlier locks", "{left:?}, {why}");
    let waited = second.mutex("a").lock_timeout(Duration::from_millis(500)).await;
    assert!(waited.is_err(), "{waited:?}");
    // The holder has two votes left, which do not renew. By then it knows.
    drop(held);
    let guard = second.mutex("a").lock().await.expect("C votes again");
    guard.release().await.expect("it is held");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_guard_two_hold_the_lock() {
    let servers = Server::start_many(5);
    let unguarded = |urls: Vec<String>| settings(urls).restart_guard(false);
    let (first, second) = two_clients(&servers, unguarded).await;
    let held = first.mutex("a").lock().await.expect("A, B and C vote");
    servers[C].restart_empty();
    wait_until(&second, "C is attached", |nodes| is_attached(&nodes[C]));
    let other = second.mutex("a").try_lock().await.expect("C, D and E vote");
    assert!(other.is_some_and(|other| other.check().is_ok()), "C has forgotten");
    assert_eq!(held.check(), Ok(()), "this is what the guard is for");
}

/// One reaches A, B and C, the other one C, D and E.
async fn two_clients(
    servers: &[Server],
    settings: impl Fn(Vec<String>) -> ClientBuilder,
) -> (Client, Client) {
    let client = async |is_reached: fn(usize) -> bool| {
        let cut_off: Vec<Proxy> = servers.iter().map(|it| Proxy::start(&it.address())).collect();
        cut_off.iter().for_each(|proxy| proxy.set(Fault::Refuse));
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
