//! Clients of memory nodes that end.

use std::{
    sync::mpsc::channel,
    thread,
    time::{Duration, Instant},
};

use quorate::{
    Client,
    error::LockError,
    memory::{
        Behaviour::{Answer, Fail, Hang, Mute},
        MemoryNodes,
    },
};

use crate::{
    cancellation::fixture::poll,
    faults::fixture::PATIENCE,
    links::executor::block_on,
    watchdog::fixture::{NAME, PausedFixture, TICK, TTL, is_taken, pass, take},
};

#[tokio::test(start_paused = true)]
async fn shutdown_leaves_the_locks_of_other_clients() {
    // The last commands of the client must not run at a time at which every key has expired.
    let fixture = PausedFixture::new(3);
    let guard = take(&fixture.other().mutex("another's")).await;
    fixture.behave(&[Mute; 3]);
    let mutex = fixture.mutex();
    let mut call = Box::pin(mutex.try_lock());
    assert!(poll(call.as_mut()).is_pending());
    let _ = fixture.client.clone().shutdown(10 * TICK).await;
    fixture.behave(&[Answer; 3]);
    assert!(is_taken(&fixture.other().mutex("another's")).await);
    guard.check().unwrap();
    guard.verify().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_nodes_that_were_sent_nothing() {
    // No release is owed to a node that never received the lock.
    let fixture = PausedFixture::new(3);
    fixture.nodes.set(2, Fail);
    fixture.hold().await.release().await.unwrap();
    drop(fixture.hold().await);
    let called_at = tokio::time::Instant::now();
    assert!(fixture.client.clone().shutdown(PATIENCE).await.is_clean);
    assert!(called_at.elapsed() < 100 * TICK, "{:?}", called_at.elapsed());
}

#[test]
fn dropping_a_client_does_not_wait_for_nodes_that_were_sent_nothing() {
    // The drop would block its thread for its whole grace period.
    let drop_time = |_| {
        let nodes = MemoryNodes::new(3);
        nodes.set(2, Fail);
        let client = Client::builder().memory(&nodes).build().expect("the settings are valid");
        drop(block_on(client.mutex(NAME).lock()).expect("two nodes answer"));
        let called_at = Instant::now();
        drop(client);
        called_at.elapsed()
    };
    // The minimum of several: on a busy machine a single drop can take any time.
    let shortest = (0..5).map(drop_time).min().unwrap();
    assert!(shortest < DROP_GRACE, "{shortest:?}");
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_when_a_hanging_node_answers() {
    // The answer must wake the shutdown before its grace period ends.
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    fixture.nodes.set(1, Hang);
    drop(guard);
    let ending = tokio::spawn(fixture.client.clone().shutdown(PATIENCE));
    pass(PATIENCE / 2).await;
    assert!(!ending.is_finished(), "a node has not confirmed");
    fixture.nodes.set(1, Answer);
    let ended = tokio::time::timeout(PATIENCE / 4, ending).await.unwrap().unwrap();
    assert!(ended.is_clean);
    assert_eq!(fixture.holding(), 0);
}

/// A node that notifies its clients can drop the last handle of one of them.
#[test]
fn node_that_changes_while_a_client_ends_does_not_deadlock() {
    let (done, is_done) = channel();
    thread::spawn(move || {
        let nodes = MemoryNodes::new(1);
        for _ in 0..ROUNDS {
            let client = Client::builder().memory(&nodes).build().expect("valid");
            let ending = thread::spawn(move || drop(client));
            while !ending.is_finished() {
                nodes.set(0, Fail);
                nodes.set(0, Answer);
            }
            ending.join().expect("no panic");
            done.send(()).expect("the receiver waits");
        }
    });
    // One timeout for each round: on a busy machine all of them together take long.
    for _ in 0..ROUNDS {
        is_done.recv_timeout(PATIENCE).expect("it ends");
    }
}

const ROUNDS: usize = 500;

/// How long the drop of the last handle waits for releases.
const DROP_GRACE: Duration = Duration::from_millis(100);

#[tokio::test(start_paused = true)]
async fn waiter_of_a_client_that_was_shut_down_stops_waiting() {
    let fixture = PausedFixture::new(3);
    let guard = fixture.hold().await;
    let client = fixture.other();
    let mutex = client.mutex(NAME);
    let waiting = tokio::spawn(async move { mutex.lock().await.map(drop) });
    pass(TTL).await;
    let _ = client.shutdown(TTL).await;
    assert_eq!(waiting.await.unwrap(), Err(LockError::ShutDown));
    guard.verify().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn client_that_was_shut_down_acquires_nothing() {
    let fixture = PausedFixture::new(3);
    let _ = fixture.client.clone().shutdown(TTL).await;
    assert_eq!(fixture.mutex().lock().await.map(drop), Err(LockError::ShutDown));
    assert_eq!(fixture.holding(), 0);
}
