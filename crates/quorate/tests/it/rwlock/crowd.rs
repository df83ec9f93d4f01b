//! Many readers and writers at once: a writer is always alone, and all are granted the lock.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use quorate::Guard;

use super::together::{lock, read, reported};
use crate::conformance::fixture::{Fixture, PATIENCE};

in_line_on_every_engine! {
    [1, 3, 5] => writer_excludes_all_others,
        writer_acquires_among_readers_that_keep_arriving;
}

async fn writer_excludes_all_others(fixture: &Fixture) {
    let clients =
        [fixture.client("one").await, fixture.client("two").await, fixture.client("three").await];
    // Readers count up, a writer goes far below zero.
    let (inside, most) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for task in 0..24_usize {
        let (lock, inside) = (lock(&clients[task % 3]), inside.clone());
        let most = most.clone();
        let is_writer = task % 4 == 0;
        tasks.push(tokio::spawn(async move {
            for _ in 0..8 {
                let guard = match is_writer {
                    true => lock.write_timeout(PATIENCE).await.map(Guard::from),
                    false => lock.read_timeout(PATIENCE).await.map(Guard::from),
                };
                let guard = guard.expect("its turn comes");
                let step = if is_writer { -1_000 } else { 1 };
                let now = inside.fetch_add(step, Ordering::SeqCst) + step;
                assert!(if is_writer { now == -1_000 } else { now > 0 }, "{now} beside us");
                most.fetch_max(now.unsigned_abs(), Ordering::SeqCst);
                tokio::task::yield_now().await;
                guard.check().expect("it is held");
                inside.fetch_sub(step, Ordering::SeqCst);
                guard.release().await.expect("it was held");
            }
        }));
    }
    for task in tasks {
        task.await.expect("a writer is alone");
    }
    assert_eq!(inside.load(Ordering::SeqCst), 0);
    fixture.wait_until_empty(fixture.all());
}

/// Each reader releases only when the next one holds the lock or waits for it. Without a queue the
/// lock would never be free for the writer.
async fn writer_acquires_among_readers_that_keep_arriving(fixture: &Fixture) {
    let [alice, bob, writer] = [
        fixture.client("alice").await,
        fixture.client("bob").await,
        fixture.client("writer").await,
    ];
    let mut reader = read(&alice).await;
    let mut turns = tokio::spawn({
        let lock = lock(&writer);
        async move {
            for _ in 0..TURNS {
                let guard = lock.write_timeout(PATIENCE).await.expect("its turn comes");
                guard.release().await.expect("it was held");
            }
        }
    });
    let mut readers = [&bob, &alice].into_iter().cycle();
    while !turns.is_finished() {
        let client = readers.next().expect("they never end");
        let lock = lock(client);
        let next = tokio::spawn(async move { lock.read_timeout(PATIENCE).await });
        // It shares the lock with the reader before it, or waits behind the writer.
        reported(fixture, client, |report| {
            next.is_finished() || report.waiting.iter().any(|waiter| waiter.who != "writer")
        })
        .await;
        reader.release().await.expect("it was held");
        reader = next.await.expect("no panic").expect("its turn comes");
    }
    (&mut turns).await.expect("the writer was granted the lock each time");
    reader.release().await.expect("it was held");
    fixture.wait_until_empty(fixture.all());
}

const TURNS: usize = 5;
