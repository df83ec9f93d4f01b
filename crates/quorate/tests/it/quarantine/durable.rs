//! Servers that write everything to disk at once need no quarantine after a restart, if the
//! operator has declared that and it is true.

use quorate::Client;
use quorate_testkit::{Server, ServerBuilder, eventually, redis::cmd};

use super::fixture::{
    Fixture, GUARD, MAX_TTL, TTL, attached, is_attached, quarantined, wait_until,
};
use crate::conformance::fixture::PATIENCE;

at_once! {
    nothing_but_what_was_written_at_once_saves_a_node_from_the_guard {
        durable_node_votes_at_once_and_keeps_its_locks,
        node_that_writes_every_second_is_quarantined,
        node_not_known_as_durable_is_quarantined,
        node_that_is_no_longer_durable_is_quarantined,
        node_with_a_replica_is_quarantined,
        node_not_declared_durable_by_its_clients_is_quarantined,
    }
}

async fn durable_node_votes_at_once_and_keeps_its_locks() {
    let fixture = Fixture::of(always().start_many(3), MAX_TTL);
    let client = durable(&fixture).await;
    let guard = client.mutex("a").lock().await.expect("the nodes vote");
    let fence = guard.fence();
    let server = &fixture.servers[NODE];
    wait_until(&client, "they report that they are durable", |_| {
        fixture.servers.iter().all(|server| field(server, "durable") == "1")
    });
    let holder = server.get("a").expect("it is held there");
    server.restart();
    assert_eq!(server.get("a"), Some(holder), "it has not forgotten");
    let mut has_quarantine = false;
    wait_until(&client, "it votes again", |nodes| {
        has_quarantine |= quarantined(&nodes[NODE]).is_some();
        is_attached(&nodes[NODE])
    });
    assert!(!has_quarantine, "it votes at once");
    guard.verify().await.expect("it is held");
    assert_eq!(guard.fence(), fence);
    // The others cannot replace it: two that were restarted are a majority.
    fixture.servers[2].restart();
    wait_until(&client, "it votes again", |nodes| nodes.iter().all(is_attached));
    assert_eq!(guard.check(), Ok(()), "{:?}", client.node_status());
    let other = durable(&fixture).await;
    assert!(other.mutex("a").try_lock().await.expect("the nodes vote").is_none());
    guard.release().await.expect("it is held");
}

async fn node_that_writes_every_second_is_quarantined() {
    let servers = always().config("appendfsync", "everysec").start_many(3);
    let fixture = Fixture::of(servers, MAX_TTL);
    restart_and_wait(&fixture, &durable(&fixture).await, OTHER).await;
}

async fn node_not_known_as_durable_is_quarantined() {
    let fixture = Fixture::of(always().start_many(3), MAX_TTL);
    let before = fixture.client("before").await;
    assert_eq!(field(&fixture.servers[NODE], "durable"), "0", "no client has checked it");
    drop(before);
    let server = &fixture.servers[NODE];
    server.kill();
    let client = fixture.settings().durable_nodes(true).connect().await.expect("two of them vote");
    server.restart();
    wait_until(&client, "it is quarantined", |nodes| {
        quarantined(&nodes[NODE])
            .is_some_and(|(left, why)| left > GUARD / 2 && why.starts_with(OTHER))
    });
}

async fn node_that_is_no_longer_durable_is_quarantined() {
    let fixture = Fixture::of(always().start_many(3), MAX_TTL);
    let client = durable(&fixture).await;
    let server = &fixture.servers[NODE];
    wait_until(&client, "it reports that it is durable", |_| field(server, "durable") == "1");
    let mut connection = server.connection();
    let set = |value: &str| ["SET", "no-appendfsync-on-rewrite", value].map(str::to_owned);
    cmd("CONFIG").arg(&set("yes")).exec(&mut connection).expect("it is set");
    cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]).exec(&mut connection).expect("they go");
    wait_until(&client, "that was noticed", |_| field(server, "durable") == "0");
    restart_and_wait(&fixture, &client, OTHER).await;
}

/// The replica could replace it, and may lack the last writes.
async fn node_with_a_replica_is_quarantined() {
    let fixture = Fixture::of(always().start_many(3), MAX_TTL);
    let (server, replica) = (&fixture.servers[NODE], Server::start());
    let mut follow = cmd("REPLICAOF");
    follow.arg("127.0.0.1").arg(server.port());
    follow.exec(&mut replica.connection()).expect("it follows");
    eventually("it has a replica", PATIENCE, || {
        let info = cmd("INFO").arg("replication").query::<String>(&mut server.connection());
        info.is_ok_and(|info| info.contains("connected_slaves:1"))
    });
    restart_and_wait(&fixture, &durable(&fixture).await, OTHER).await;
}

async fn node_not_declared_durable_by_its_clients_is_quarantined() {
    let fixture = Fixture::of(always().start_many(3), MAX_TTL);
    let client = fixture.client("client").await;
    restart_and_wait(&fixture, &client, OTHER).await;
}

async fn restart_and_wait(fixture: &Fixture, client: &Client, expected: &str) {
    fixture.servers[NODE].restart();
    wait_until(client, "it is quarantined", |nodes| {
        quarantined(&nodes[NODE])
            .is_some_and(|(left, why)| left > GUARD / 2 && why.starts_with(expected))
    });
    let guard = client.mutex("a").lock().await.expect("two of them vote");
    guard.release().await.expect("it is held");
}

/// With a vote timeout that a busy machine keeps to.
async fn durable(fixture: &Fixture) -> Client {
    attached(fixture.settings().durable_nodes(true).vote_timeout(TTL / 2)).await
}

fn always() -> ServerBuilder {
    Server::builder().append_only().config("no-appendfsync-on-rewrite", "no")
}

fn field(server: &Server, name: &str) -> String {
    let field = cmd("HGET").arg("quorate:node").arg(name).query(&mut server.connection());
    field.expect("it has a record")
}

const NODE: usize = 1;
const OTHER: &str = "it was restarted, its replication changed, or it has another server's data";
