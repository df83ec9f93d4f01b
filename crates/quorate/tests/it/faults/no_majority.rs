//! With three nodes of five down nobody gets the lock, and the error says why, node by node.

use quorate::{
    Client,
    error::{LockError, NodeAnswer, NodeReport, Trouble},
};
use quorate_testkit::eventually;

use super::{
    cluster::{Cluster, PATIENCE, wait_until_attached},
    ways_down::WayDown,
};
use crate::links::executor::block_on;

#[test]
fn three_killed_nodes_are_named() {
    the_nodes_are_named(WayDown::Killed);
}

#[test]
fn three_stopped_nodes_are_named() {
    the_nodes_are_named(WayDown::Stopped);
}

#[test]
fn three_black_holed_nodes_are_named() {
    the_nodes_are_named(WayDown::BlackHoled);
}

#[test]
fn three_nodes_that_refuse_connections_are_named() {
    the_nodes_are_named(WayDown::Refused);
}

fn the_nodes_are_named(way: WayDown) {
    let cluster = Cluster::start(5);
    let [client, other] = way.clients(&cluster);
    way.take_down(&cluster, &DOWN);
    if way.trouble() == Trouble::ConnectionRefused {
        // Before that it is the loss of the connection that is told.
        eventually("the client has noticed", PATIENCE, || {
            let nodes = client.nodes();
            DOWN.iter().all(|node| nodes[*node].answer == NodeAnswer::Trouble(way.trouble()))
        });
    }

    let labels: Vec<String> = client.nodes().iter().map(|report| report.node.clone()).collect();
    let reports = no_quorum(&client);
    for (node, report) in reports.iter().enumerate() {
        assert_eq!(report.node, labels[node]);
        let is_named = report.answer == NodeAnswer::Trouble(way.trouble());
        if DOWN.contains(&node) {
            assert!(is_named, "node {node} of {reports:?}");
        } else if way.trouble() == Trouble::TimedOut {
            assert_eq!(report.answer, NodeAnswer::Granted, "node {node} of {reports:?}");
        } else {
            // Three refusals settle it, before the others have had the time to answer.
            let is_plain = matches!(report.answer, NodeAnswer::Granted | NodeAnswer::NotAwaited);
            assert!(is_plain, "node {node} of {reports:?}");
        }
    }
    for node in UP {
        let server = &cluster.servers[node];
        eventually("the attempt has arrived", PATIENCE, || server.command_calls("set") == 1);
        eventually("no key is left", PATIENCE, || server.lock_keys().is_empty());
    }

    way.bring_back(&cluster, &DOWN);
    wait_until_attached(&client);
    assert!(block_on(client.shutdown(PATIENCE)).is_clean, "every undo has been confirmed");
    assert!(cluster.is_empty(), "no key is left on any node");
    wait_until_attached(&other);
    drop(block_on(other.mutex(NAME).lock_timeout(PATIENCE)).expect("all nodes are back"));
}

fn no_quorum(client: &Client) -> Box<[NodeReport]> {
    match block_on(client.mutex(NAME).try_lock()) {
        Err(LockError::NoQuorum { nodes }) => nodes,
        other => panic!("three of five nodes are down, and yet: {other:?}"),
    }
}

const DOWN: [usize; 3] = [0, 2, 4];
const UP: [usize; 2] = [1, 3];
const NAME: &str = "orders:42";
