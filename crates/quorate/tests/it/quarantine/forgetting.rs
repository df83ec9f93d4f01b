//! Every way in which a node loses data, while clients are at work: it does not vote until the
//! leases it has lost would have expired, the others continue, and no lock has two holders.

use std::time::{Duration, Instant};

use quorate_testkit::{Proxy, Server, ServerBuilder, eventually, history::Moment, redis::cmd};

use super::fixture::{
    Fixture, GUARD, MAX_TTL, RECOVERY, is_attached, quarantined, wait_for_vote, wait_until,
};
use crate::conformance::fixture::PATIENCE;

at_once! {
    node_that_forgets_does_not_vote_until_earlier_leases_have_expired {
        node_that_was_killed_and_has_no_data,
        node_that_was_flushed,
        node_that_was_a_replica_of_another_for_a_while,
        another_server_at_the_address_of_a_node,
        node_with_the_data_of_another_in_its_folder,
        node_that_has_its_data_after_a_crash_but_perhaps_not_the_last_of_it,
    }
}

async fn node_that_was_killed_and_has_no_data() {
    let fixture = Fixture::new(3);
    let kill = || fixture.servers[NODE].restart_empty();
    forget(&fixture, NEW, &fixture.servers[NODE], kill).await;
}

async fn node_that_was_flushed() {
    let fixture = Fixture::new(3);
    forget(&fixture, NEW, &fixture.servers[NODE], || fixture.servers[NODE].flush_all()).await;
}

async fn node_that_was_a_replica_of_another_for_a_while() {
    let fixture = Fixture::of(copied_at_once().start_many(3), MAX_TTL);
    let flip = || copy_by_replication(&fixture.servers[NODE], &fixture.servers[0]);
    forget(&fixture, OTHER, &fixture.servers[NODE], flip).await;
}

async fn another_server_at_the_address_of_a_node() {
    let (servers, stranger) = (Server::start_many(3), Server::start());
    let proxy = Proxy::start(&servers[NODE].address());
    let urls = vec![servers[0].url(), proxy.url(), servers[2].url()];
    let fixture = Fixture::at(urls, servers, MAX_TTL);
    let id = fixture.servers[NODE].node_id();
    forget_as(&fixture, NEW, (&stranger, id), || proxy.lead_to(&stranger.address())).await;
}

async fn node_with_the_data_of_another_in_its_folder() {
    let fixture = Fixture::new(3);
    let copy = || {
        let [source, node, ..] = &fixture.servers[..] else { panic!("three of them") };
        cmd("SAVE").exec(&mut source.connection()).expect("it is saved");
        node.restart_as_copy_of(source);
    };
    forget(&fixture, OTHER, &fixture.servers[NODE], copy).await;
}

async fn node_that_has_its_data_after_a_crash_but_perhaps_not_the_last_of_it() {
    let servers = Server::builder().append_only().config("appendfsync", "everysec").start_many(3);
    let fixture = Fixture::of(servers, MAX_TTL);
    forget(&fixture, OTHER, &fixture.servers[NODE], || fixture.servers[NODE].restart()).await;
}

/// The test of each case in which the same server is the node afterwards.
pub(super) async fn forget(fixture: &Fixture, why: &str, server: &Server, how: impl FnOnce()) {
    forget_as(fixture, why, (server, server.node_id()), how).await;
}

/// The test of the cases in which another server takes the address.
async fn forget_as(
    fixture: &Fixture,
    why: &str,
    (server, id): (&Server, String),
    how: impl FnOnce(),
) {
    let watcher = fixture.client("watcher").await;
    let load = fixture.load().await;
    let is_at_work = |count: usize, then| {
        eventually("locks are taken", PATIENCE, || load.claims_since(then) >= count);
    };
    is_at_work(20, Moment::now());
    let started = Instant::now();
    how();
    wait_until(&watcher, "it is quarantined", |nodes| {
        // It may have been a replica before, or nothing.
        quarantined(&nodes[NODE]).is_some_and(|(left, told)| {
            // Until it has its place, that is reported as well.
            assert!(told.starts_with(why), "{told}");
            left > GUARD / 2 && left <= GUARD + RECOVERY
        })
    });
    let seen = started.elapsed();
    is_at_work(100, Moment::now());
    let nodes = watcher.node_status();
    assert!(quarantined(&nodes[NODE]).is_some(), "the others continued: {nodes:?}");
    assert!([0, 2].iter().all(|other| is_attached(&nodes[*other])), "{nodes:?}");
    eventually("no session is left, or begun", PATIENCE, || server.sessions() == 0);
    assert!(quarantined(&watcher.node_status()[NODE]).is_some(), "no session, no vote");
    wait_for_vote(&watcher, NODE);
    let voted = started.elapsed();
    let least = GUARD + RECOVERY;
    assert!(voted >= least && voted < least + LATE, "{voted:?}");
    assert_eq!(server.node_id(), id, "it has its place again");
    is_at_work(20, Moment::now());
    let report = load.end().await.report();
    println!("quarantined after {seen:?}, votes after {voted:?}; {report}");
    assert!(report.longest_wait() < WAIT_MAX, "{report}");
}

/// Servers that become copies without a delay.
pub(super) fn copied_at_once() -> ServerBuilder {
    Server::builder().config("repl-diskless-sync-delay", "0")
}

/// Makes a server a replica, and a master again as soon as it has the data. Connections stay open.
pub(super) fn copy_by_replication(server: &Server, source: &Server) {
    let mut connection = server.connection();
    let mut say = |host: &str, port: &str| {
        cmd("REPLICAOF").arg(host).arg(port).exec(&mut connection).expect("it does so");
    };
    say("127.0.0.1", &source.port().to_string());
    eventually("it has the data", PATIENCE, || {
        let info = cmd("INFO").arg("replication").query::<String>(&mut server.connection());
        info.is_ok_and(|info| info.contains("master_link_status:up"))
    });
    say("NO", "ONE");
}

/// The node that forgets.
const NODE: usize = 1;

const NEW: &str = "it knows nothing of earlier locks";
const OTHER: &str = "it was restarted, its replication changed, or it has another server's data";

/// A quarantine ends with the next check of it, which may be late on a busy machine.
const LATE: Duration = Duration::from_secs(4);

/// With two of three nodes, no client waits for long.
const WAIT_MAX: Duration = Duration::from_secs(6);
