//! Requests that run later than the release of their owner: they must acquire nothing.

use std::{cell::Cell, time::Duration};

use quorate::Client;
use tokio::time::sleep;

use crate::{
    dice::{Dice, for_seeds},
    fixture::{Fixture, Program},
    network::STRAGGLE_MAX_MS,
    trace::now,
    waiting::{all_attached, polled},
};

#[test]
fn late_requests_of_a_broken_connection_take_nothing() {
    let late = Cell::new(0);
    let seeds = for_seeds(25, |seed| late.set(late.get() + run(seed)));
    assert!(late.get() > 10 || seeds < 25, "only {} requests were late", late.get());
}

/// Another client may have taught the server the script of the release meanwhile.
#[test]
fn acquire_that_the_server_did_not_know_is_not_sent_again_behind_its_release() {
    for_seeds(25, |seed| {
        let mut fixture = Fixture::new(seed, 3, Duration::from_millis(20)).quarantined(TTL);
        fixture.program("caller", call_unknown);
        fixture.run(Duration::from_secs(60), |_| {});
    });
}

async fn call_unknown(program: Program) {
    let mut dice = program.dice("calls");
    let client = admitted(&program).await;
    for round in 0..6 {
        all_attached(&client).await;
        program.nodes.iter().for_each(|node| node.forget_how_to_acquire());
        let lock = format!("lock-{round}");
        drop(polled(client.mutex(lock).lock(), 1 + dice.below(15)).await);
        sleep(Duration::from_millis(200)).await;
        assert_nothing_is_held(&program);
    }
}

async fn admitted(program: &Program) -> Client {
    let client = program.client("").ttl(TTL).build().expect("valid");
    client.admit().await.expect("the servers are new");
    client
}

fn assert_nothing_is_held(program: &Program) {
    for node in &program.nodes {
        let (keys, queues) = (node.names(now()), node.queues(now()));
        assert_eq!((keys, queues), (vec![], vec![]), "on node-{}", node.number);
    }
}

/// Returns how many requests arrived behind the attach of a newer connection.
fn run(seed: u64) -> usize {
    let mut fixture = Fixture::new(seed, 3, Duration::from_millis(20)).quarantined(TTL);
    fixture.wires.leave_stragglers(Dice::new(seed, "stragglers"));
    fixture.program("caller", call_and_break);
    fixture.run(Duration::from_secs(60), |_| {});
    let lines = fixture.trace.lines();
    let is_acquire = |line: &str| line.contains(" Acquire ") || line.contains(" Take ");
    let is_late = |pair: &&[String]| {
        let [first, second] = pair else { return false };
        first.contains(" an old connection") && is_acquire(second) && second.ends_with("-> Stale")
    };
    lines.windows(2).filter(is_late).count()
}

/// Breaks connections under a call, and drops the call.
async fn call_and_break(program: Program) {
    let mut dice = program.dice("breaks");
    let client = admitted(&program).await;
    for round in 0..4 {
        all_attached(&client).await;
        let got = polled(client.mutex(format!("lock-{round}")).lock(), 1 + dice.below(15)).await;
        for node in program.nodes.iter().filter(|_| dice.chance(70)) {
            program.cut(node.number);
        }
        drop(got);
        all_attached(&client).await;
        // By then all servers have run the release, and all bytes have arrived.
        sleep(Duration::from_millis(STRAGGLE_MAX_MS + 300)).await;
        assert_nothing_is_held(&program);
    }
}

/// Longer than a round, so that a key that was taken is still there.
const TTL: Duration = Duration::from_secs(10);
