//! Clients of nodes in memory that come and go.

use std::{sync::mpsc::channel, thread, time::Duration};

use quorate::{
    Client,
    memory::{Behaviour, MemoryNodes},
};
use quorate_testkit::eventually;

use crate::{conformance::fixture::PATIENCE, watchdog::journal::Journal};

/// A node that told its clients something while one of them ended could wait for itself for ever.
#[test]
fn a_node_that_changes_while_a_client_ends_does_not_hang() {
    let (done, is_done) = channel();
    thread::spawn(move || {
        let nodes = MemoryNodes::new(1);
        for _ in 0..ROUNDS {
            let client = Client::builder().memory(&nodes).build().expect("valid");
            let ending = thread::spawn(move || drop(client));
            while !ending.is_finished() {
                nodes.set(0, Behaviour::Fail);
                nodes.set(0, Behaviour::Answer);
            }
            ending.join().expect("no panic");
            done.send(()).expect("somebody waits");
        }
    });
    // Each by itself: on a machine with much to do all of them take long.
    for _ in 0..ROUNDS {
        is_done.recv_timeout(PATIENCE).expect("it ends");
    }
}

const ROUNDS: usize = 500;

/// Every look at another library's lock left one more timer behind.
#[tokio::test(flavor = "multi_thread")]
async fn one_who_looks_again_and_again_has_few_timers() {
    let (nodes, journal) = (MemoryNodes::new(1), Journal::default());
    nodes.plant(0, "a", b"another library's");
    let settings = Client::builder().memory(&nodes).ttl(Duration::from_secs(60));
    let client = settings.observer(journal.clone()).build().expect("valid");
    let mutex = client.mutex("a");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    let looks = || journal.lines().iter().filter(|line| line.contains(" answered ")).count();
    eventually("it has looked often", PATIENCE, || looks() >= 20);
    let timers = timers(&client);
    assert!(timers <= 3, "{timers} timers");
    waiter.abort();
}

/// How many timers are set, as the client shows itself.
fn timers(client: &Client) -> usize {
    let shown = format!("{client:?}");
    let (_, rest) = shown.split_once("Timers { waiting: ").expect("it shows its timers");
    rest.split_once(' ').expect("there is more").0.parse().expect("a number")
}
