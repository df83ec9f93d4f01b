//! Clients with another set of nodes are refused, and the error names the difference.

use std::time::{Duration, Instant};

use quorate::{
    ClientBuilder,
    error::{ConnectError, NodeAnswer, NodeReport},
    inspect::TimeText,
};
use quorate_testkit::{Proxy, Server, eventually, redis::cmd};
use tokio::task::JoinSet;

use super::fixture::{Fixture, MAX_TTL, is_attached, settings, wait_until};
use crate::conformance::fixture::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_another_size_are_refused() {
    let (fixture, more) = (Fixture::new(5), Server::start_many(2));
    let urls = || fixture.servers.iter().map(Server::url);
    let all = urls().collect::<Vec<_>>();
    let told = refused(fixture.settings_of(urls().take(3))).await;
    told.iter().for_each(|it| {
        assert!(it.contains("the nodes have agreed to be 5 ("), "{it}");
        assert!(it.ends_with("this client has 3"), "{it}");
        all.iter().for_each(|url| assert!(it.contains(url), "{it}"));
    });
    let told = refused(fixture.settings_of(urls().chain(more.iter().map(Server::url)))).await;
    // The two new nodes may not know the others yet when these have already refused.
    let (new, refused): (Vec<_>, Vec<_>) =
        told.iter().partition(|it| it.starts_with("in quarantine"));
    assert!(refused.iter().all(|it| it.ends_with("this client has 7")), "{told:?}");
    assert!(new.len() <= 2 && refused.len() >= 2, "{told:?}");
    assert!(more.iter().all(|server| server.sessions() == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn list_with_another_node_is_refused() {
    let (fixture, other) = (Fixture::new(3), Server::start());
    let urls = [fixture.servers[0].url(), fixture.servers[1].url(), other.url()];
    let client = fixture.settings_of(urls).connect().await.expect("two of them are the nodes");
    let told = lasting(&client.node_status(), 2, || client.node_status());
    assert!(told.contains("the nodes have agreed on "), "{told}");
    assert!(told.contains("this client has another address for one of them"), "{told}");
    assert!(told.contains(&fixture.servers[2].url()) && !told.contains(&other.url()), "{told}");
    let guard = client.mutex("a").lock().await.expect("two of them vote");
    guard.release().await.expect("it is held");
    assert!(other.lock_keys().is_empty(), "it has no vote");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_max_ttl_is_refused() {
    let fixture = Fixture::new(3);
    for ttl in [MAX_TTL * 2, MAX_TTL / 2] {
        let told = refused(fixture.settings().ttl(MAX_TTL / 4).max_ttl(ttl)).await;
        let ours = format!("of 1 s, this client has {}", TimeText(ttl));
        assert!(told.iter().all(|it| it.ends_with(&ours)), "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_without_quarantine_is_refused() {
    let fixture = Fixture::new(3);
    let told = refused(fixture.settings().quarantine(false)).await;
    let why = "uses quarantine, which is disabled in this client";
    assert!(told.iter().all(|it| it.contains(why)), "{told:?}");
    assert!(fixture.servers.iter().all(|server| server.lock_keys().is_empty()));
}

/// It has no session that could be refused: it reads the record itself.
#[tokio::test(flavor = "multi_thread")]
async fn classic_client_without_quarantine_is_refused() {
    let fixture = Fixture::new(3);
    let why = "uses quarantine, which is disabled in this client";
    let told = refused(fixture.settings().classic().quarantine(false)).await;
    assert!(told.iter().all(|it| it.contains(why)), "{told:?}");
    // A single node has no quarantine.
    let told = refused(fixture.settings_of([fixture.servers[0].url()]).classic()).await;
    assert!(told.iter().all(|it| it.contains(why)), "{told:?}");
    assert!(fixture.servers.iter().all(|server| server.lock_keys().is_empty()));
    // With quarantine, it is a set of one.
    let client = fixture.settings().classic().connect().await.expect("the nodes vote");
    client.mutex("a").lock().await.expect("they vote").release().await.expect("it is held");
}

/// Any client can use a node that has a record but belongs to no set.
#[tokio::test(flavor = "multi_thread")]
async fn classic_client_without_quarantine_of_nodes_without_it() {
    let server = Server::start();
    let mut connection = server.connection();
    let inspected = ["quorate:node", "wire", "1", "doubt", "unknown"];
    cmd("HSET").arg(&inspected).exec(&mut connection).expect("it is set");
    let client = settings([server.url()]).classic().connect().await.expect("it votes");
    let read = server.command_calls("hmget");
    for _ in 0..10 {
        let guard = client.mutex("a").lock().await.expect("it votes");
        guard.release().await.expect("it is held");
    }
    assert_eq!((read, server.command_calls("hmget")), (1, 1), "once for each connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn classic_client_without_permission_to_read_the_quarantine_is_rejected() {
    let server = Server::start();
    let user = ["SETUSER", "app", "on", ">secret", "~app:*", "&*", "+@all"];
    cmd("ACL").arg(&user).exec(&mut server.connection()).expect("it is a user");
    let settings = || settings([server.url_with("app", "secret", 0)]).classic();
    let told = refused(settings()).await;
    let expected = "no permission: cannot read quorate:node, which shows whether other clients \
                    use quarantine: NOPERM";
    assert!(told.iter().all(|it| it.starts_with(expected)), "{told:?}");
    let right = ["SETUSER", "app", "~quorate:node"];
    cmd("ACL").arg(&right).exec(&mut server.connection()).expect("it is a user");
    let client = settings().connect().await.expect("it votes");
    client.mutex("app:a").lock().await.expect("it votes").release().await.expect("it is held");
}

/// A record whose place is on another node of the cluster is not here.
#[tokio::test(flavor = "multi_thread")]
async fn classic_client_on_a_node_of_a_cluster() {
    let cluster = Server::builder().config("cluster-enabled", "yes");
    let server = cluster.config("cluster-require-full-coverage", "no").start();
    let mut connection = server.connection();
    let slot = |key: &str| -> u16 {
        let asked = cmd("CLUSTER").arg("KEYSLOT").arg(key).query(&mut server.connection());
        asked.expect("a number")
    };
    let own = slot("a");
    assert_ne!(own, slot("quorate:node"));
    cmd("CLUSTER").arg("ADDSLOTS").arg(own).exec(&mut connection).expect("it has a place");
    let settings = || settings([server.url()]).classic();
    let client = settings().connect_timeout(PATIENCE).connect().await.expect("it votes");
    let guard = client.mutex("a").lock_timeout(PATIENCE).await.expect("the place is its own");
    guard.release().await.expect("it is held");
    // Where the record has its place, it counts.
    let place = slot("quorate:node");
    cmd("CLUSTER").arg("ADDSLOTS").arg(place).exec(&mut connection).expect("it has a place");
    cmd("HSET").arg(&["quorate:node", "change", "1"]).exec(&mut connection).expect("it is set");
    let told = refused(settings()).await;
    assert!(told.iter().all(|it| it.contains("which is disabled in this client")), "{told:?}");
}

/// A server in cluster mode rejects a call about locks in different slots.
#[tokio::test(flavor = "multi_thread")]
async fn releases_in_different_slots_of_a_cluster_are_not_lost() {
    let server = Server::builder().config("cluster-enabled", "yes").start();
    let slots = ["ADDSLOTSRANGE", "0", "16383"];
    cmd("CLUSTER").arg(&slots).exec(&mut server.connection()).expect("it has all slots");
    let settings = settings([server.url()]).classic().ttl(3 * PATIENCE).max_ttl(3 * PATIENCE);
    let client = settings.connect_timeout(PATIENCE).connect().await.expect("it votes");
    for _ in 0..5 {
        let mut callers = JoinSet::new();
        for number in 0..40 {
            let mutex = client.mutex(format!("lock:{number}"));
            // A drop sends the release with those of other callers.
            callers.spawn(async move { drop(mutex.lock_timeout(PATIENCE).await) });
        }
        callers.join_all().await;
    }
    eventually("every lock is released", PATIENCE, || server.lock_keys().is_empty());
    assert!(client.shutdown(PATIENCE).await.is_clean, "no release is owed");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_two_sets_are_refused() {
    let (fixture, others) = (Fixture::new(3), Fixture::new(3));
    let urls = [&fixture.servers[0], &fixture.servers[1], &others.servers[2]].map(Server::url);
    let client = fixture.settings_of(urls).build().expect("the settings are valid");
    // No client can know which of the two is right: the first that answered is used.
    let is_other = |it: &NodeReport| {
        node_error(it)
            .is_some_and(|it| it == "disagreement: this node belongs to another set of nodes")
    };
    wait_until(&client, "some are refused, and the others are not", |nodes| {
        let is_one_set = |it: &[NodeReport]| it.iter().all(is_attached) || it.iter().all(is_other);
        let (ours, theirs) = nodes.split_at(2);
        is_one_set(ours) && is_one_set(theirs) && is_other(&ours[0]) != is_other(&theirs[0])
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn node_with_two_addresses_has_one_vote() {
    let fixture = Fixture::new(3);
    let proxy = Proxy::start(&fixture.servers[0].address());
    let urls = [fixture.servers[0].url(), fixture.servers[1].url(), proxy.url()];
    let client = fixture.settings_of(urls).build().expect("the settings are valid");
    wait_until(&client, "one of the two has no vote", |nodes| {
        let is_twin = |it: &usize| {
            node_error(&nodes[*it]).is_some_and(|it| it.starts_with("is the same server as "))
        };
        is_attached(&nodes[1]) && [0, 2].iter().filter(|it| is_twin(it)).count() == 1
    });
}

/// Each database of a server has its own locks, and is another node.
#[tokio::test(flavor = "multi_thread")]
async fn another_database_of_a_server_is_another_node() {
    let servers = Server::builder().unix_socket().start_many(3);
    let url = |node: usize, number: u32| format!("{}?db={number}", servers[node].unix_url());
    let client = settings((0..3).map(|node| url(node, 1))).build().expect("valid settings");
    client.admit().await.expect("they are new and empty");
    let other = settings([url(0, 1), url(1, 1), url(2, 2)]);
    let other = other.connect().await.expect("two of them are the nodes");
    let told = lasting(&other.node_status(), 2, || other.node_status());
    assert!(told.contains("this client has another address for one of them"), "{told}");
    assert!(told.contains(&url(2, 1)) && !told.contains(&url(2, 2)), "{told}");
    // It can be a node of another set.
    let client = settings((0..3).map(|node| url(node, 2))).build().expect("valid settings");
    client.admit().await.expect("they are new and empty");
    client.mutex("a").lock().await.expect("they vote").release().await.expect("it is held");
}

#[tokio::test(flavor = "multi_thread")]
async fn record_of_a_later_version_is_refused() {
    let fixture = Fixture::new(3);
    let mut connection = fixture.servers[1].connection();
    cmd("HSET").arg("quorate:node").arg("wire").arg(99).exec(&mut connection).expect("it is set");
    let client = fixture.settings().connect().await.expect("two of them vote");
    let told = lasting(&client.node_status(), 1, || client.node_status());
    assert_eq!(told, "disagreement: the node's record has version 99, this client reads version 1");
    assert_eq!(cmd("HGET").arg("quorate:node").arg("wire").query::<u32>(&mut connection), Ok(99));
}

/// The answers of the nodes, which are reported as soon as no majority is possible.
async fn refused(settings: ClientBuilder) -> Vec<String> {
    let called = Instant::now();
    let refused = settings.connect_timeout(PATIENCE).connect().await;
    let Err(ConnectError::NoQuorum { nodes }) = refused else { panic!("{refused:?}") };
    assert!(called.elapsed() < Duration::from_secs(5), "{:?}: {nodes:?}", called.elapsed());
    let told: Vec<_> =
        nodes.iter().filter_map(node_error).filter(|it| it != "not connected yet").collect();
    assert!(!told.is_empty(), "{nodes:?}");
    told
}

/// The lasting error of one node.
fn lasting(now: &[NodeReport], node: usize, nodes: impl Fn() -> Box<[NodeReport]>) -> String {
    let mut told = node_error(&now[node]);
    eventually("it is refused", PATIENCE, || {
        told = node_error(&nodes()[node]).filter(|it| it.starts_with("disagreement: "));
        told.is_some()
    });
    told.expect("waited for")
}

fn node_error(report: &NodeReport) -> Option<String> {
    match &report.answer {
        NodeAnswer::NodeError(node_error) => Some(node_error.to_string()),
        _ => None,
    }
}
