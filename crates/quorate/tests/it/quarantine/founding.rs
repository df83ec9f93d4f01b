//! New servers become a set of nodes.

use std::time::{Duration, Instant};

use quorate::error::{AdmitError, ConnectError, LockError, NodeReport};
use quorate_testkit::{Proxy, Server, redis::cmd};

use super::fixture::{Fixture, GUARD, RECOVERY, is_attached, quarantined, settings, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn new_servers_vote_after_their_quarantine() {
    let servers = Server::start_many(3);
    let settings = || settings(servers.iter().map(Server::url));
    let started = Instant::now();
    let client = settings().build().expect("the settings are valid");
    wait_until(&client, "all are quarantined", |nodes| {
        nodes.iter().all(|it| quarantined(it).is_some())
    });
    let refused = settings().connect_timeout(Duration::from_millis(300)).connect().await;
    let Err(error @ ConnectError::NoQuorum { .. }) = refused else { panic!("{refused:?}") };
    let (text, remedy) = (error.to_string(), "`quorate nodes admit` lets them vote at once");
    assert_eq!(text.matches("all 3 nodes are in quarantine for ").count(), 1, "{text}");
    assert!(text.ends_with(remedy), "{text}");
    let tried = client.mutex("a").try_lock().await;
    let Err(LockError::NoQuorum { nodes, .. }) = tried else { panic!("{tried:?}") };
    for node in &nodes {
        let (left, why) = quarantined(node).expect("it says how long");
        assert!(left <= GUARD + RECOVERY && left > GUARD / 2, "{left:?}");
        assert!(why.starts_with("it knows nothing of earlier locks"), "{why}");
    }
    // A waiter waits for the end of the quarantine.
    let guard = client.mutex("a").lock().await.expect("the quarantine ends");
    assert!(started.elapsed() >= GUARD, "{:?}", started.elapsed());
    guard.release().await.expect("it is held");
}

#[tokio::test(flavor = "multi_thread")]
async fn admitted_servers_vote_at_once() {
    let fixture = Fixture::new(3);
    let client = fixture.client("alice").await;
    let guard = client.mutex("a").lock().await.expect("the nodes vote");
    assert!(guard.fence().is_some());
    guard.release().await.expect("it is held");
    client.admit().await.expect("they vote anyway");
}

/// Waiting clients do not keep servers busy, but still learn when the nodes vote.
#[tokio::test(flavor = "multi_thread")]
async fn client_asks_seldom_during_a_long_quarantine() {
    let servers = Server::start_many(3);
    let proxies: Vec<_> = servers.iter().map(|server| Proxy::start(&server.address())).collect();
    let settings = settings(proxies.iter().map(Proxy::url)).max_ttl(Duration::from_secs(60));
    let client = settings.build().expect("the settings are valid");
    wait_until(&client, "all have their places", |nodes| nodes.iter().all(has_place));
    let asked = || proxies.iter().map(Proxy::connections).collect::<Vec<_>>();
    let left = |nodes: &[NodeReport]| quarantined(&nodes[0]).map(|(left, _)| left);
    let mut before = (Vec::new(), Duration::ZERO);
    wait_until(&client, "the time without a request is longer than between two tries", |nodes| {
        let (asked, left) = (asked(), left(nodes).expect("it is quarantined"));
        if asked != before.0 {
            before = (asked, left);
        }
        left + Duration::from_millis(1_500) < before.1
    });
    let loaded = |server: &Server| server.command_calls("script|load");
    assert!(servers.iter().all(|server| loaded(server) == 0));
    client.admit().await.expect("they are new and empty");
    assert!(servers.iter().all(|server| loaded(server) > 0), "they vote");
}

fn has_place(report: &NodeReport) -> bool {
    quarantined(report).is_some_and(|(_, why)| why == "it knows nothing of earlier locks")
}

/// It has been restarted since it became one of the set: it may have voted in between.
#[tokio::test(flavor = "multi_thread")]
async fn only_new_servers_are_admitted() {
    let servers = Server::builder().append_only().start_many(3);
    let client = settings(servers.iter().map(Server::url)).build().expect("the settings are valid");
    wait_until(&client, "all have their places", |nodes| nodes.iter().all(has_place));
    servers[1].restart();
    let error = client.admit().await.expect_err("one is not new");
    let why = "it was restarted, its replication changed, or it has another server's data".into();
    assert_eq!(error, AdmitError::NotNew { node: servers[1].url(), why });
    wait_until(&client, "none votes", |nodes| nodes.iter().all(|it| quarantined(it).is_some()));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_empty_servers_are_admitted_and_all_or_none() {
    let servers = Server::start_many(3);
    cmd("SET").arg("a").arg("b").exec(&mut servers[2].connection()).expect("it is stored");
    let client = settings(servers.iter().map(Server::url)).build().expect("the settings are valid");
    let error = client.admit().await.expect_err("one is not empty");
    assert_eq!(error, AdmitError::NotEmpty { node: servers[2].url(), keys: 1 });
    wait_until(&client, "none votes", |nodes| nodes.iter().all(|it| quarantined(it).is_some()));
    cmd("DEL").arg("a").exec(&mut servers[2].connection()).expect("it is deleted");
    client.admit().await.expect("all are empty");
    wait_until(&client, "all vote", |nodes| nodes.iter().all(is_attached));
    servers[1].flush_all();
    wait_until(&client, "it is noticed", |nodes| quarantined(&nodes[1]).is_some());
    let error = client.admit().await.expect_err("the others may have granted locks");
    assert!(matches!(error, AdmitError::InUse { .. }), "{error}");
}
