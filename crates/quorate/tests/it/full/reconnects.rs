//! Connections that break while the server is full, and reconnect.

use std::time::Duration;

use quorate::{Client, error::NodeAnswer};
use quorate_testkit::{Fault, eventually};

use super::fixture::{Held, Nodes, Waiting, on_every_set, wait_until_attached};
use crate::{conformance::fixture::PATIENCE, mode::Mode, watchdog::journal::Journal};

#[test]
fn held_locks_and_waiters_outlive_a_reconnect_to_a_full_server() {
    on_every_set(TTL, async |nodes| {
        let journal = Journal::default();
        let (holder, other) = (nodes.client(&journal).await, nodes.client(&journal).await);
        let held = Held::take(&holder, nodes.mode).await;
        let waiting = (nodes.mode == Mode::Queue).then(|| Waiting::join(nodes, &other));

        nodes.set_full(true);
        let before = ups(nodes, &journal);
        for proxy in &nodes.proxies {
            proxy.close_all();
        }
        eventually("both clients have connected anew", PATIENCE, || {
            ups(nodes, &journal).iter().zip(&before).all(|(now, before)| *now == before + 2)
        });
        held.outlive(&journal, TTL);
        held.verify().await;
        held.release().await;
        if let Some(waiting) = waiting {
            waiting.take_over().await.0.verify().await;
        }
    });
}

/// The session has expired when the connection is made anew, and its key is gone.
#[test]
fn held_locks_and_waiters_outlive_a_long_cut_from_a_full_server() {
    on_every_set(LONG_TTL, async |nodes| {
        let journal = Journal::default();
        let (holder, other) = (nodes.client(&journal).await, nodes.client(&journal).await);
        let held = Held::take(&holder, nodes.mode).await;
        let waiting = (nodes.mode == Mode::Queue).then(|| Waiting::join(nodes, &other));

        nodes.set_full(true);
        nodes.proxies.iter().for_each(|proxy| proxy.set(Fault::Refuse));
        [&holder, &other].into_iter().for_each(wait_until_cut_off);
        eventually("every session has expired", PATIENCE, || {
            nodes.servers.iter().all(|server| server.sessions() == 0)
        });
        nodes.proxies.iter().for_each(|proxy| proxy.set(Fault::Pass));
        [&holder, &other].into_iter().for_each(wait_until_attached);
        held.verify().await;
        if let Some(waiting) = waiting {
            waiting.assert_waiting();
            waiting.wait_until_queued(nodes);
            held.release().await;
            waiting.take_over().await.0.verify().await;
        }
    });
}

fn wait_until_cut_off(client: &Client) {
    eventually("no node is attached", PATIENCE, || {
        client.node_status().iter().all(|report| report.answer != NodeAnswer::Attached)
    });
}

/// How often each node came up, for all clients.
fn ups(nodes: &Nodes, journal: &Journal) -> Vec<usize> {
    nodes.proxies.iter().map(|proxy| journal.count(&format!("up {}", proxy.url()))).collect()
}

const TTL: Duration = Duration::from_secs(6);

/// Longer than a session lasts, and than it takes to notice that all of them have expired.
const LONG_TTL: Duration = Duration::from_secs(20);
