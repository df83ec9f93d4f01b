//! Renewals of a held lock: that they continue, that they end, and the ttl that they store.

use std::{thread, time::Duration};

use quorate::{
    Client,
    error::{LockError, LostReason},
    memory::{
        Behaviour::{Answer, Fail, Hang},
        MemoryNodes,
    },
};
use quorate_testkit::{Fault, Server, eventually};

use super::{
    fixture::{NAME, PausedFixture, TTL, loss, pass, take},
    journal::Journal,
};
use crate::{
    faults::fixture::{PATIENCE, ProxyFixture, connect_to_all},
    links::executor::block_on,
};

#[test]
fn released_lock_is_not_renewed() {
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
fn renewals_continue_after_connection_errors() {
    let fixture = ProxyFixture::start(1);
    let journal = Journal::default();
    let settings = fixture.through_proxies().ttl(RENEWED).vote_timeout(RENEWED / 10);
    let client = connect_to_all(settings.observer(journal.clone()));
    let guard = block_on(client.mutex(NAME).lock()).unwrap();
    for fault in [Fault::Reset, Fault::Refuse, Fault::CutAfter { bytes: 1 }] {
        fixture.set(&[0], fault);
        eventually("the connection is gone", PATIENCE, || journal.count("down") > 0);
        fixture.set(&[0], Fault::Pass);
        let renewed = journal.count("renewed orders:42 done");
        eventually("it is renewed again", PATIENCE, || {
            journal.count("renewed orders:42 done") > renewed + 2
        });
        guard.check().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_continue_after_a_node_has_failed() {
    let fixture = PausedFixture::new(1);
    let guard = fixture.hold().await;
    for _ in 0..10 {
        fixture.behave(&[Fail]);
        pass(TTL / 2).await;
        fixture.behave(&[Answer]);
        pass(TTL / 2).await;
        guard.check().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn number_of_renewals_is_not_limited() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    pass(50 * TTL).await;
    guard.check().unwrap();
    assert!(fixture.journal.count("renewed") > 100);
}

#[tokio::test(start_paused = true)]
async fn failed_renewals_are_reported() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    fixture.behave(&[Fail; 3]);
    pass(TTL / 2).await;
    assert!(guard.is_at_risk());
    assert_eq!(fixture.holding(), 3, "and it does not release");
    loss(&guard).await;
}

#[tokio::test(start_paused = true)]
async fn call_that_timed_out_leaves_nothing_to_renew() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    let mutex = fixture.other().mutex(NAME);
    let waiting = tokio::spawn(async move { mutex.lock_timeout(TTL).await.map(drop) });
    assert!(waiting.await.unwrap().is_err(), "interrupted while it waits");
    drop(guard);
    pass(5 * TTL).await;
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn renewals_end_at_max_hold() {
    let fixture = PausedFixture::new(3);
    let guard = take(&fixture.mutex().max_hold(2 * TTL)).await;
    assert_eq!(loss(&guard).await.0.reason, LostReason::MaxHold);
}

#[test]
fn key_always_has_a_ttl() {
    let server = Server::start();
    let journal = Journal::default();
    let settings =
        Client::builder().quarantine(false).nodes([server.url()]).observer(journal.clone());
    let client = block_on(settings.connect()).unwrap();
    let guard = block_on(client.mutex(NAME).ttl(SHORT).lock()).unwrap();
    let is_finite = |ttl: Duration| {
        let left = server.pttl(NAME);
        assert!((1..=ttl.as_millis() as i64).contains(&left), "{left} ms of {ttl:?}");
    };
    is_finite(SHORT);
    eventually("it is renewed", PATIENCE, || {
        is_finite(SHORT);
        journal.count("renewed orders:42 done") > 3
    });
    for ttl in [3 * SHORT, SHORT] {
        block_on(guard.extend(ttl)).unwrap();
        is_finite(3 * SHORT);
    }
}

#[test]
fn ttl_below_a_second_is_kept() {
    let server = Server::start();
    let client = block_on(Client::connect([server.url()])).unwrap();
    let mutex = client.mutex(NAME).ttl(Duration::from_millis(123)).no_renew();
    let guard = block_on(mutex.lock()).unwrap();
    assert!((-2..=123).contains(&server.pttl(NAME)));
    eventually("it expires", PATIENCE, || server.lock_keys().is_empty());
    assert!(guard.check().is_err(), "its holder knew before");
}

#[tokio::test(start_paused = true)]
async fn shortest_ttls_do_not_underflow() {
    let fixture = PausedFixture::new(3);
    for ms in 0..=20 {
        let mutex = fixture.client.mutex(format!("order:{ms}")).ttl(Duration::from_millis(ms));
        match mutex.lock().await {
            Ok(guard) => {
                assert!(guard.remaining() < Duration::from_millis(ms));
                fixture.behave(&[Hang; 3]);
                loss(&guard).await;
                fixture.behave(&[Answer; 3]);
            }
            Err(error) => assert!(matches!(error, LockError::InvalidTtl(_)) && ms <= 2, "{error}"),
        }
    }
}

const SHORT: Duration = Duration::from_millis(800);
const RENEWED: Duration = Duration::from_millis(1_500);
