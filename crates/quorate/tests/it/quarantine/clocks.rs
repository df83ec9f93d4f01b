//! Nodes whose clocks are set while clients are at work.

use std::time::{Duration, Instant};

use quorate::error::{NodeAnswer, NodeError};
use quorate_testkit::{Server, eventually, history::Moment};

use super::{
    fixture::{Fixture, GUARD, MAX_TTL, is_attached, quarantined, wait_for_vote, wait_until},
    forgetting::forget,
};
use crate::conformance::fixture::PATIENCE;

at_once! {
    clocks_that_are_set_cost_a_vote_and_no_promise {
        clock_that_is_set_forward,
        clock_that_is_set_back_and_forward_again,
        clock_that_stands_still,
        clock_that_is_set_forward_during_the_quarantine,
    }
}

async fn clock_that_is_set_forward() {
    let fixture = new_fixture();
    let server = &fixture.servers[NODE];
    forget(&fixture, STEPPED, server, || server.clock().forward(MINUTE)).await;
}

/// The keys of that node last longer, which delays no client: the others are a majority. To set it
/// right is to set it forward.
async fn clock_that_is_set_back_and_forward_again() {
    let fixture = fixture_with(LONG_TTL);
    let (server, watcher) = (&fixture.servers[NODE], fixture.client("watcher").await);
    let load = fixture.load().await;
    eventually("locks are taken", PATIENCE, || load.claims_since(Moment::from_nanos(0)) >= 50);
    server.clock().back(MINUTE);
    let then = Moment::now();
    eventually("it continues", PATIENCE, || {
        let nodes = watcher.node_status();
        assert!(nodes.iter().all(is_attached), "nothing is forgotten: {nodes:?}");
        load.claims_since(then) >= 300
    });
    assert_eq!(load.lost(), 0);
    server.clock().forward(MINUTE);
    wait_until(&watcher, "it is quarantined", |nodes| {
        quarantined(&nodes[NODE]).is_some_and(|(_, why)| why.starts_with(STEPPED))
    });
    let started = Instant::now();
    wait_for_vote(&watcher, NODE);
    println!("set back, and corrected: votes after {:?}", started.elapsed());
    println!("set back: {} lost, {}", load.lost(), load.end().await.report());
}

/// No lock would ever expire there.
async fn clock_that_stands_still() {
    let fixture = fixture_with(LONG_TTL);
    let clock = fixture.servers[NODE].clock();
    clock.stop();
    let client = fixture.settings().connect().await.expect("two of them vote");
    wait_until(&client, "it is refused", |nodes| {
        nodes[NODE].answer == NodeAnswer::NodeError(NodeError::ClockStandsStill)
    });
    let guard = client.mutex("a").lock().await.expect("two of them vote");
    guard.release().await.expect("it is held");
    assert!(fixture.servers[NODE].lock_keys().is_empty(), "it was not asked");
    clock.run();
    wait_until(&client, "it votes", |nodes| nodes.iter().all(is_attached));
}

/// A step of the node's clock by an hour does not shorten the quarantine.
async fn clock_that_is_set_forward_during_the_quarantine() {
    let fixture = new_fixture();
    let (server, client) = (&fixture.servers[NODE], fixture.client("client").await);
    server.flush_all();
    wait_until(&client, "it is quarantined", |nodes| quarantined(&nodes[NODE]).is_some());
    let stepped = Instant::now();
    server.clock().forward(60 * MINUTE);
    // A client that was attached before, and a new one.
    let newcomer = fixture.settings().connect().await.expect("two of them vote");
    wait_until(&newcomer, "it is quarantined", |nodes| {
        quarantined(&nodes[NODE])
            .is_some_and(|(left, why)| why.starts_with(STEPPED) && left > GUARD / 2)
    });
    wait_for_vote(&newcomer, NODE);
    let voted = stepped.elapsed();
    println!("an hour forward during the quarantine: votes after {voted:?}");
    assert!(voted >= GUARD, "{voted:?}");
    wait_for_vote(&client, NODE);
}

fn new_fixture() -> Fixture {
    fixture_with(MAX_TTL)
}

fn fixture_with(max_ttl: Duration) -> Fixture {
    Fixture::of(Server::builder().own_clock().start_many(3), max_ttl)
}

/// The ttl of locks that are not lost even on a busy machine.
const LONG_TTL: Duration = Duration::from_secs(5);

const NODE: usize = 1;
const STEPPED: &str = "its clock was set forward";
const MINUTE: Duration = Duration::from_secs(60);
