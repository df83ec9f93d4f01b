//! Servers that must not be nodes: each is refused with its reason, and nothing is left there.

use std::process::{Child, Stdio};

use quorate::error::{AdmitError, NodeAnswer, NodeError};
use quorate_testkit::{Proxy, Server, eventually, redis::cmd};

use super::fixture::{Fixture, settings, wait_until};
use crate::conformance::fixture::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn replica_is_refused() {
    let servers = Server::start_many(4);
    tell(&servers[2], &["REPLICAOF", "127.0.0.1", &servers[3].port().to_string()]);
    let told = refused_third(servers[..3].iter().map(Server::url).collect()).await;
    assert_eq!(told, NodeError::ReadOnly);
    assert!(servers[2].keys().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn evicting_server_is_refused() {
    let evict = async |policy: &'static str| {
        let servers = Server::start_many(3);
        tell(&servers[2], &["CONFIG", "SET", "maxmemory-policy", policy]);
        tell(&servers[2], &["CONFIG", "SET", "maxmemory", "100mb"]);
        let told = refused_third(servers.iter().map(Server::url).collect()).await;
        assert_eq!(told, NodeError::Evicts(policy.into()));
        assert!(told.to_string().ends_with("set noeviction"), "{told}");
        assert!(servers[2].keys().is_empty());
    };
    tokio::join!(evict("allkeys-lru"), evict("volatile-ttl"));
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_does_not_evict_is_accepted() {
    for (limit, policy) in [("100mb", "noeviction"), ("0", "allkeys-lru")] {
        let builder = Server::builder().config("maxmemory", limit);
        let servers = builder.config("maxmemory-policy", policy).start_many(3);
        let fixture = Fixture::of(servers, super::fixture::MAX_TTL);
        let client = fixture.client("client").await;
        let guard = client.mutex("a").lock().await.expect("the nodes vote");
        guard.release().await.expect("it is held");
    }
}

/// A server that begins to evict while it is a node loses its vote with the next connection.
#[tokio::test(flavor = "multi_thread")]
async fn node_that_begins_to_evict_loses_its_vote() {
    let fixture = Fixture::new(3);
    let client = fixture.client("client").await;
    tell(&fixture.servers[2], &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    tell(&fixture.servers[2], &["CONFIG", "SET", "maxmemory", "100mb"]);
    tell(&fixture.servers[2], &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    tell(&fixture.servers[2], &["CLIENT", "KILL", "TYPE", "pubsub"]);
    wait_until(&client, "it is refused", |nodes| {
        nodes[2].answer == NodeAnswer::NodeError(NodeError::Evicts("allkeys-lru".into()))
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinel_is_refused() {
    let servers = Server::start_many(2);
    let folder = tempfile::tempdir().expect("a folder");
    let (port, config) = (Proxy::start(&servers[0].address()), folder.path().join("sentinel.conf"));
    // Its port is free when it has ended.
    let address = port.address();
    drop(port);
    let number = address.rsplit(':').next().expect("a port");
    std::fs::write(&config, format!("port {number}\nbind 127.0.0.1\n")).expect("a file");
    let mut command = std::process::Command::new("redis-server");
    let child = command.arg(&config).arg("--sentinel").stdout(Stdio::null()).spawn();
    let _sentinel = Killed(child.expect("it is installed"));
    let url = format!("redis://{address}");
    let told = refused_third(vec![servers[0].url(), servers[1].url(), url]).await;
    assert_eq!(told, NodeError::Unsupported("it is a sentinel".into()));
}

/// A process that ends with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn node_of_a_cluster_is_refused() {
    let mut servers = Server::start_many(2);
    servers.push(Server::builder().config("cluster-enabled", "yes").start());
    let told = refused_third(servers.iter().map(Server::url).collect()).await;
    assert!(matches!(told, NodeError::Unsupported(_)), "{told}");
    assert!(told.to_string().contains("cluster mode, which can carry classic mode only"), "{told}");
    assert!(servers[2].keys().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn users_without_a_permission_are_refused() {
    tokio::join!(
        user_without(&["-info"], "'info'"),
        user_without(&["-publish"], "'publish'"),
        user_without(&["resetchannels"], "channel"),
        user_without(&["-eval"], "'eval'"),
        user_without(&["-time"], "'time'"),
        user_without(&["resetkeys", "~app:*"], "keys"),
    );
}

async fn user_without(taken: &[&str], told: &str) {
    let servers = Server::start_many(3);
    let user = ["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"];
    servers.iter().for_each(|server| tell(server, &user));
    tell(&servers[2], &[&["ACL", "SETUSER", "app"], taken].concat());
    let urls = servers.iter().map(|server| server.url_with("app", "secret", 0)).collect();
    let node_error = refused_third(urls).await;
    assert!(matches!(node_error, NodeError::NoPermission(_)), "{taken:?}: {node_error:?}");
    assert!(node_error.to_string().contains(told), "{taken:?}: {node_error}");
    assert!(servers[2].lock_keys().is_empty(), "{taken:?}");
}

/// The error of a client about the third of its servers. The others make no set without it.
async fn refused_third(urls: Vec<String>) -> NodeError {
    let client = settings(urls).build().expect("the settings are valid");
    // Some requests are only sent to nodes that vote.
    let admitted = client.admit().await;
    assert!(matches!(admitted, Err(AdmitError::Unavailable { .. })), "{admitted:?}");
    let mut told = None;
    eventually("it is refused", PATIENCE, || {
        let nodes = client.node_status();
        told = match &nodes[2].answer {
            NodeAnswer::NodeError(NodeError::Connecting | NodeError::Quarantined { .. }) => None,
            NodeAnswer::NodeError(node_error) => Some(node_error.clone()),
            answer => panic!("{answer:?}"),
        };
        told.is_some()
    });
    told.expect("waited for")
}

fn tell(server: &Server, words: &[&str]) {
    let mut command = cmd(words[0]);
    words[1..].iter().for_each(|word| {
        command.arg(word);
    });
    command.exec(&mut server.connection()).expect("the server runs the command");
}
