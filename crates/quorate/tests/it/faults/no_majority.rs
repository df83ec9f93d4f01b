//! With three nodes of five down no client acquires the lock, and the error gives the reason of
//! each node.

use std::time::Duration;

use quorate::{
    Client,
    error::{LockError, NodeAnswer, NodeError, NodeReport},
    memory::{
        Behaviour::{self, Answer, Fail, Hang},
        MemoryNodes,
    },
};
use quorate_testkit::eventually;
use tokio::time::Instant;

use super::{
    fixture::{PATIENCE, ProxyFixture, wait_until_attached},
    ways_down::WayDown,
};
use crate::{
    links::executor::block_on,
    mode::Mode,
    watchdog::fixture::{FAR, PausedFixture, TICK, TTL, build, pass, settings, take},
};

in_both_modes! {
    three_killed_nodes_are_named,
    three_stopped_nodes_are_named,
    three_black_holed_nodes_are_named,
    three_nodes_that_refuse_connections_are_named,
}

fn three_killed_nodes_are_named(mode: Mode) {
    nodes_are_named(mode, WayDown::Killed);
}

fn three_stopped_nodes_are_named(mode: Mode) {
    nodes_are_named(mode, WayDown::Stopped);
}

fn three_black_holed_nodes_are_named(mode: Mode) {
    nodes_are_named(mode, WayDown::BlackHoled);
}

fn three_nodes_that_refuse_connections_are_named(mode: Mode) {
    nodes_are_named(mode, WayDown::Refused);
}

/// A waiter gives up after a ttl of silence. A reply about the holder restarts that time.
#[tokio::test(start_paused = true)]
async fn silence_counts_from_the_last_answer_of_a_majority() {
    for mode in [Mode::Queue, Mode::Classic] {
        let fixture = PausedFixture::new_in(mode, 3);
        let holder = take(&fixture.other().mutex(NAME).ttl(5 * TTL)).await;
        fixture.behave(&[Fail; 3]);
        let mutex = fixture.mutex();
        let waiter = tokio::spawn(async move { mutex.lock().await });
        pass(TTL * 3 / 4).await;
        fixture.behave(&[Answer; 3]);
        pass(TTL).await;
        fixture.behave(&[Fail; 3]);
        pass(TTL * 3 / 4).await;
        fixture.behave(&[Answer; 3]);
        holder.release().await.unwrap();
        let won = tokio::time::timeout(FAR, waiter).await.expect("it ends").expect("no panic");
        assert!(won.is_ok(), "{mode:?}: {won:?}");
    }
}

fn nodes_are_named(mode: Mode, way: WayDown) {
    let fixture = ProxyFixture::start_in(mode, 5);
    let [client, other] = way.clients(&fixture);
    way.take_down(&fixture, &DOWN);
    if way.node_error() == NodeError::ConnectionRefused {
        // Before that the error reports the loss of the connection.
        eventually("the client has noticed", PATIENCE, || {
            let nodes = client.node_status();
            DOWN.iter().all(|node| nodes[*node].answer == NodeAnswer::NodeError(way.node_error()))
        });
    }

    let labels: Vec<String> =
        client.node_status().iter().map(|report| report.node.clone()).collect();
    let reports = no_quorum(&client);
    for (node, report) in reports.iter().enumerate() {
        assert_eq!(report.node, labels[node]);
        let is_named = report.answer == NodeAnswer::NodeError(way.node_error());
        if DOWN.contains(&node) {
            assert!(is_named, "node {node} of {reports:?}");
        } else if way.node_error() == NodeError::TimedOut {
            assert_eq!(report.answer, NodeAnswer::Granted, "node {node} of {reports:?}");
        } else {
            // No node is asked if too few nodes can be reached at the start.
            assert_eq!(report.answer, NodeAnswer::Attached, "node {node} of {reports:?}");
        }
    }
    for node in UP {
        let is_asked = way.node_error() == NodeError::TimedOut;
        fixture.wait_until_undone_by(&fixture.servers[node], u64::from(is_asked));
    }

    way.bring_back(&fixture, &DOWN);
    wait_until_attached(&client);
    assert!(block_on(client.shutdown(PATIENCE)).is_clean, "every undo has been confirmed");
    assert!(fixture.is_empty(), "no key is left on any node");
    wait_until_attached(&other);
    drop(block_on(other.mutex(NAME).lock_timeout(PATIENCE)).expect("all nodes are back"));
}

fn no_quorum(client: &Client) -> Box<[NodeReport]> {
    match block_on(client.mutex(NAME).try_lock()) {
        Err(LockError::NoQuorum { nodes, .. }) => nodes,
        other => panic!("expected too few nodes, got {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn lock_timeout_is_not_extended_by_a_long_vote_timeout() {
    let nodes = MemoryNodes::new(3);
    let client = build(settings(&nodes).vote_timeout(Duration::from_secs(2)));
    (0..2).for_each(|node| nodes.set(node, Hang));
    let called_at = Instant::now();
    let called = client.mutex(NAME).lock_timeout(50 * TICK).await;
    assert!(matches!(called, Err(LockError::NoQuorum { .. })), "{called:?}");
    let waited = called_at.elapsed();
    assert!((50 * TICK..=110 * TICK).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn node_that_was_not_awaited_is_not_reported_as_timed_out() {
    // Two failures settle the call before the third node has answered.
    use Behaviour::{Fail, Hang};
    let fixture = PausedFixture::new(3);
    fixture.behave(&[Fail, Fail, Hang]);
    let error = fixture.mutex().try_lock().await.expect_err("two of three nodes fail");
    let LockError::NoQuorum { nodes, .. } = &error else { panic!("{error}") };
    let answers: Vec<_> = nodes.iter().map(|report| report.answer.clone()).collect();
    let refused = NodeAnswer::NodeError(NodeError::ConnectionRefused);
    assert_eq!(answers, [refused.clone(), refused, NodeAnswer::NotAwaited]);
    let text = error.to_string();
    assert!(text.contains("memory:2: not waited for"), "{text}");
    assert!(!text.contains("timed out"), "{text}");
}

const DOWN: [usize; 3] = [0, 2, 4];
const UP: [usize; 2] = [1, 3];
const NAME: &str = "orders:42";
