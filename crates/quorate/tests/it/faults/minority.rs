//! With two nodes of five down, in any way, locks work as if nothing had happened.

use std::time::Duration;

use quorate::{Client, error::NodeAnswer};
use quorate_testkit::eventually;

use super::{
    fixture::{PATIENCE, ProxyFixture, wait_until_attached},
    ways_down::WayDown,
};
use crate::links::executor::block_on;

#[test]
fn locks_work_on_with_two_nodes_killed() {
    locks_work_on(WayDown::Killed);
}

#[test]
fn locks_work_on_with_two_nodes_stopped() {
    locks_work_on(WayDown::Stopped);
}

#[test]
fn locks_work_on_with_two_nodes_black_holed() {
    locks_work_on(WayDown::BlackHoled);
}

#[test]
fn locks_work_on_with_two_nodes_refusing_connections() {
    locks_work_on(WayDown::Refused);
}

fn locks_work_on(way: WayDown) {
    let fixture = ProxyFixture::start(5);
    let clients = way.clients(&fixture);
    way.take_down(&fixture, &DOWN);
    take_turns(&clients);

    // Once more when the links have noticed: then nothing is sent to those nodes any more.
    eventually("the clients have noticed", PATIENCE, || {
        clients.iter().all(|client| {
            let nodes = client.node_status();
            DOWN.iter().all(|node| nodes[*node].answer == NodeAnswer::NodeError(way.node_error()))
        })
    });
    take_turns(&clients);
    eventually("no key is left on the nodes that are up", PATIENCE, || {
        let up = (0..5).filter(|node| !DOWN.contains(node));
        up.into_iter().all(|node| fixture.servers[node].lock_keys().is_empty())
    });

    way.bring_back(&fixture, &DOWN);
    clients.iter().for_each(wait_until_attached);
    for client in clients {
        let ended = block_on(client.shutdown(PATIENCE));
        assert!(ended.is_clean, "every release has been confirmed by every node");
    }
    assert!(fixture.is_empty(), "no key is left on any node");
}

/// Two clients acquire the lock in turns, many times; they never hold it at the same time.
fn take_turns(clients: &[Client; 2]) {
    for round in 0..ROUNDS {
        let [holder, other] = [&clients[round % 2], &clients[(round + 1) % 2]];
        let guard = block_on(holder.mutex(NAME).lock_timeout(PATIENCE)).expect("a majority is up");
        let refused = block_on(other.mutex(NAME).try_lock()).expect("a majority is up");
        assert!(refused.is_none(), "the lock is held");
        let refused = block_on(other.mutex(NAME).lock_timeout(Duration::from_millis(1)));
        assert!(refused.is_err(), "the lock is held");
        if round % 3 == 0 {
            drop(guard);
        } else {
            block_on(guard.release()).expect("a majority is up, and the lock is ours");
        }
    }
}

const DOWN: [usize; 2] = [1, 3];
const NAME: &str = "orders:42";
const ROUNDS: usize = 30;
