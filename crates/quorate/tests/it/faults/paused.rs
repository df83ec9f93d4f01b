//! Nodes in memory that fail while a lock is acquired. Time is paused.

use std::time::Duration;

use quorate::{
    error::{LockError, NodeAnswer, NodeError},
    memory::{
        Behaviour::{Answer, Fail, Hang, Mute},
        MemoryNodes,
    },
};
use tokio::time::Instant;

use crate::{
    mode::Mode,
    watchdog::fixture::{FAR, NAME, PausedFixture, TTL, build, is_taken, pass, settings},
};

in_both_modes! {
    paused:
    failing_nodes_do_not_make_a_call_spin,
}

#[tokio::test(start_paused = true)]
async fn no_owner_wins_a_tie() {
    for nodes in [2, 4] {
        let fixture = PausedFixture::new(nodes);
        (0..nodes / 2).for_each(|node| fixture.nodes.plant(node, NAME, b"another's"));
        let mutex = fixture.mutex();
        let tried = tokio::time::timeout(FAR, mutex.try_lock()).await.expect("it ends");
        assert!(tried.unwrap().is_none(), "no owner wins a tie");
    }
}

#[tokio::test(start_paused = true)]
async fn grants_after_the_lease_has_expired_give_no_lock() {
    let nodes = MemoryNodes::new(3);
    let client = build(settings(&nodes).vote_timeout(5 * TTL));
    (0..3).for_each(|node| nodes.set(node, Hang));
    let mutex = client.mutex(NAME);
    let call = tokio::spawn(async move { mutex.try_lock().await });
    pass(2 * TTL).await;
    // Every node grants, but the lease has expired by then.
    (0..3).for_each(|node| nodes.set(node, Answer));
    let called = call.await.unwrap();
    assert!(matches!(called, Err(LockError::NoQuorum { .. })), "{called:?}");
    assert!((0..3).all(|node| nodes.names(node).is_empty()));
}

#[tokio::test(start_paused = true)]
async fn hung_majority_ends_a_call() {
    let fixture = PausedFixture::new(3);
    fixture.behave(&[Hang; 3]);
    let mutex = fixture.mutex();
    let tried = tokio::time::timeout(TTL / 10, mutex.try_lock()).await.expect("it ends");
    assert!(matches!(tried, Err(LockError::NoQuorum { .. })), "{tried:?}");
    let waited = tokio::time::timeout(2 * TTL, mutex.lock()).await.expect("it ends");
    assert!(matches!(waited, Err(LockError::NoQuorum { .. })), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn error_names_the_holder_or_the_failure_of_each_node() {
    let fixture = PausedFixture::new(3);
    fixture.nodes.plant(0, NAME, b"an app's own data");
    fixture.nodes.plant(1, NAME, b"an app's own data");
    let Err(error) = fixture.mutex().lock_timeout(TTL).await else { panic!("it is held") };
    let text = error.to_string();
    assert!(text.contains("held by an app") && text.contains("app\\'s own data"), "{text}");
    assert!(text.contains("never expires"), "{text}");

    fixture.behave(&[Fail, Hang, Answer]);
    let Err(error) = fixture.mutex().lock_timeout(TTL).await else { panic!("no majority") };
    let text = error.to_string();
    for part in ["no quorum", "memory:0: connection refused", "memory:1: timed out"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn failing_nodes_are_not_contention() {
    let fixture = PausedFixture::new(3);
    for behaviour in [Fail, Hang, Mute] {
        fixture.behave(&[behaviour; 3]);
        let tried = fixture.mutex().try_lock().await;
        assert!(matches!(tried, Err(LockError::NoQuorum { .. })), "{behaviour:?}: {tried:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn key_that_was_stored_without_an_answer_is_deleted() {
    let fixture = PausedFixture::new(3);
    fixture.behave(&[Mute; 3]);
    let Err(LockError::NoQuorum { nodes, .. }) = fixture.mutex().try_lock().await else {
        panic!("nobody answers");
    };
    let timed_out = NodeAnswer::NodeError(NodeError::TimedOut);
    assert!(nodes.iter().all(|report| report.answer == timed_out), "{nodes:?}");
    assert_eq!(fixture.holding(), 0, "what was written was removed");
}

#[tokio::test(start_paused = true)]
async fn quorum_counts_all_configured_nodes() {
    let fixture = PausedFixture::new(3);
    for up in 0..3 {
        (0..3).for_each(|node| fixture.nodes.set(node, if node == up { Answer } else { Fail }));
        let tried = fixture.mutex().try_lock().await;
        assert!(matches!(tried, Err(LockError::NoQuorum { .. })), "one of three: {tried:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn late_attempt_is_undone() {
    let fixture = PausedFixture::new(3);
    let other = settings(&fixture.nodes).vote_timeout(5 * TTL);
    let client = build(other);
    fixture.behave(&[Hang; 3]);
    let mutex = client.mutex(NAME).ttl(TTL / 10);
    let call = tokio::spawn(async move { mutex.try_lock().await.map(|guard| guard.is_some()) });
    pass(TTL / 9).await;
    fixture.behave(&[Answer; 3]);
    assert!(call.await.unwrap().is_err());
    assert_eq!(fixture.holding(), 0, "the nodes had granted it");
    assert!(!is_taken(&fixture.mutex()).await);
}

#[tokio::test(start_paused = true)]
async fn one_silent_node_delays_no_call() {
    let fixture = PausedFixture::new(3);
    fixture.nodes.set(0, Hang);
    let started = Instant::now();
    let guard = fixture.hold().await;
    guard.extend(TTL).await.unwrap();
    guard.verify().await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO, "no call waited for it");
}

async fn failing_nodes_do_not_make_a_call_spin(mode: Mode) {
    let fixture = PausedFixture::new_in(mode, 3);
    fixture.behave(&[Fail; 3]);
    let mutex = fixture.mutex();
    let locked = tokio::time::timeout(FAR, mutex.lock()).await.expect("it ends");
    assert!(matches!(locked, Err(LockError::NoQuorum { .. })), "{locked:?}");
    let lines = fixture.journal.lines();
    let answers = lines.iter().filter(|line| line.contains(" answered ")).count();
    assert!(answers <= 3, "it waits for the report of a node: {answers} answers");
}

#[tokio::test(start_paused = true)]
async fn one_failing_node_is_tolerated() {
    for dead in 0..3 {
        let fixture = PausedFixture::new(3);
        fixture.nodes.set(dead, Fail);
        let guard = fixture.hold().await;
        assert!(is_taken(&fixture.mutex()).await);
        guard.release().await.unwrap();
        assert_eq!(fixture.holding(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn failed_attempt_leaves_no_key() {
    let fixture = PausedFixture::new(5);
    fixture.behave(&[Answer, Answer, Fail, Fail, Fail]);
    assert!(fixture.mutex().try_lock().await.is_err());
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn cancelled_call_is_undone_on_every_node() {
    let fixture = PausedFixture::new(3);
    fixture.behave(&[Answer, Hang, Hang]);
    let mutex = fixture.mutex();
    let cut = tokio::time::timeout(TTL / 1_000, mutex.lock()).await;
    assert!(cut.is_err());
    assert_eq!(fixture.holding(), 0, "it is deleted where it was stored");
    fixture.behave(&[Answer; 3]);
    assert_eq!(fixture.holding(), 0, "it is not stored where it was in flight");
}
