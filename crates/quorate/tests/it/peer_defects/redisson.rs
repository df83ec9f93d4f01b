//! Redisson.

use std::{thread, time::Duration};

use quorate::{Client, error::LostReason, memory::MemoryNodes};
use quorate_testkit::{Fault, eventually};

use crate::{
    faults::cluster::{Cluster, PATIENCE, connect_to_all},
    links::executor::block_on,
    watchdog::{
        fixture::{NAME, PausedFixture, TTL, loss, pass},
        journal::Journal,
    },
};

#[test]
fn redisson_watchdog_does_not_outlive_unlock() {
    let nodes = MemoryNodes::new(1);
    let journal = Journal::default();
    let settings = Client::builder().memory(&nodes).ttl(Duration::from_millis(40));
    let client = settings.observer(journal.clone()).build().unwrap();
    // Released about when the renewal is due, so that the two race.
    thread::scope(|scope| {
        for number in 0..4 {
            let (client, name) = (&client, format!("order:{number}"));
            scope.spawn(move || {
                for _ in 0..20 {
                    let guard = block_on(client.mutex(&name).lock()).unwrap();
                    let due = guard.remaining().mul_f64(0.72);
                    eventually("it is due", PATIENCE, || guard.remaining() < due);
                    drop(guard);
                }
            });
        }
    });
    eventually("all are released", PATIENCE, || nodes.names(0).is_empty());
    let renewals = journal.count("renewed");
    // Long enough that a busy machine does not lose it.
    let witness = client.mutex("witness").ttl(Duration::from_millis(600));
    let witness = block_on(witness.lock()).unwrap();
    eventually("others are renewed", PATIENCE, || journal.count("renewed witness") > 10);
    drop(witness);
    assert_eq!(journal.count("renewed") - journal.count("renewed witness"), renewals);
    eventually("the last one is released", PATIENCE, || nodes.names(0).is_empty());
}

#[test]
fn redisson_renewal_survives_connection_errors() {
    let cluster = Cluster::start(1);
    let journal = Journal::default();
    let settings = cluster.through_proxies().ttl(RENEWED).vote_timeout(RENEWED / 10);
    let client = connect_to_all(settings.observer(journal.clone()));
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    for fault in [Fault::Reset, Fault::Refuse, Fault::CutAfter { bytes: 1 }] {
        cluster.set(&[0], fault);
        eventually("the connection is gone", PATIENCE, || journal.count("down") > 0);
        cluster.set(&[0], Fault::Pass);
        let renewed = journal.count("renewed orders:42 done");
        eventually("it is renewed again", PATIENCE, || {
            journal.count("renewed orders:42 done") > renewed + 2
        });
        guard.check().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn redisson_loss_is_reported_to_the_holder() {
    let fixture = PausedFixture::new(1);
    let guard = fixture.hold().await;
    fixture.nodes.plant(0, NAME, b"another's");
    assert_eq!(loss(&guard).await.0.reason, LostReason::Gone);
}

#[test]
fn redisson_partitioned_holder_stops_before_another_begins() {
    let cluster = Cluster::start(3);
    let holder = connect_to_all(cluster.through_proxies().ttl(RENEWED).vote_timeout(RENEWED / 10));
    let other = connect_to_all(cluster.direct());
    let guard = block_on(holder.mutex(NAME).lock()).unwrap();
    cluster.set(&[0, 1, 2], Fault::BlackHole);
    let taken = block_on(other.mutex(NAME).lock_timeout(PATIENCE)).unwrap();
    assert!(guard.check().is_err(), "it has two holders");
    cluster.set(&[0, 1, 2], Fault::Pass);
    drop(guard);
    assert!(block_on(holder.shutdown(PATIENCE)).is_clean);
    block_on(taken.verify()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn redisson_waiter_does_not_sleep_for_a_whole_ttl() {
    let fixture = PausedFixture::new(3);
    let long = fixture.client.mutex(NAME).ttl(6 * TTL);
    let guard = long.lock().await.unwrap();
    let waiting = tokio::spawn(async move { long.lock().await });
    pass(TTL).await;
    drop(guard);
    let soon = tokio::time::timeout(TTL / 10, waiting).await.unwrap();
    soon.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn redisson_abandoned_lock_is_not_renewed() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    let mutex = fixture.other().mutex(NAME);
    let waiting = tokio::spawn(async move { mutex.lock_timeout(TTL).await.map(drop) });
    assert!(waiting.await.unwrap().is_err(), "interrupted while it waits");
    drop(guard);
    pass(5 * TTL).await;
    assert_eq!(fixture.holding(), 0);
}

const RENEWED: Duration = Duration::from_millis(1_500);
