//! Waiters in the queue, and clients that do not use a queue.

use quorate_testkit::redis::cmd;

use super::fixture::{NAME, Queue};
use crate::conformance::fixture::{Fixture, PATIENCE, take};

in_default_mode! {
    [1, 3, 5] => waiter_acquires_after_a_lock_of_another_library_is_deleted,
        waiter_acquires_after_a_classic_holder_releases,
        default_holder_excludes_classic_clients,
        classic_and_default_mode_never_hold_at_once;
}

async fn waiter_acquires_after_a_lock_of_another_library_is_deleted(fixture: &Fixture) {
    let queue = Queue::new(fixture);
    let client = queue.client("alice").await;
    fixture.all().for_each(|node| fixture.plant(node, NAME, b"another's"));
    let waiters = [queue.join(&client, 0), queue.join(&client, 1)];
    fixture.all().for_each(|node| assert!(fixture.names(node).contains(&NAME.to_owned())));
    // It notifies no client when it is deleted.
    for server in fixture.servers() {
        cmd("DEL").arg(NAME).exec(&mut server.connection()).expect("it is deleted");
    }
    if fixture.servers().is_empty() {
        fixture.all().for_each(|node| fixture.forget(node));
    }
    for waiter in waiters {
        waiter.await.expect("no panic");
    }
    let mut turns = queue.turns();
    turns.sort_unstable();
    assert_eq!(turns, [0, 1], "in any order: the first try that finds it free acquires it");
    fixture.wait_until_empty(fixture.all());
}

async fn waiter_acquires_after_a_classic_holder_releases(fixture: &Fixture) {
    let queue = Queue::new(fixture);
    let classic = fixture.connect(fixture.builder().classic().who("classic")).await;
    let client = queue.client("alice").await;
    let guard = take(classic.mutex(NAME)).await;
    assert!(client.mutex(NAME).try_lock().await.expect("every node answers").is_none());
    let waiting = queue.join(&client, 0);
    assert!(!waiting.is_finished());
    guard.release().await.expect("it is held");
    waiting.await.expect("no panic");
    fixture.wait_until_empty(fixture.all());
}

async fn default_holder_excludes_classic_clients(fixture: &Fixture) {
    let classic = fixture.connect(fixture.builder().classic().who("classic")).await;
    let client = fixture.client("alice").await;
    let guard = take(client.mutex(NAME)).await;
    assert!(classic.mutex(NAME).try_lock().await.expect("every node answers").is_none());
    let mutex = classic.mutex(NAME);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    guard.verify().await.expect("it is held");
    guard.release().await.expect("it is held");
    let had = tokio::time::timeout(PATIENCE, waiting).await.expect("it asks again and again");
    let had = had.expect("no panic").expect("it is free");
    assert_eq!(had.fence(), None);
    assert!(client.mutex(NAME).try_lock().await.expect("every node answers").is_none());
    had.release().await.expect("it is held");
    fixture.wait_until_empty(fixture.all());
}

async fn classic_and_default_mode_never_hold_at_once(fixture: &Fixture) {
    let classic = fixture.connect(fixture.builder().classic()).await;
    let client = fixture.client("alice").await;
    let is_held = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8 {
        let mutex = [&classic, &client][number % 2].mutex(NAME);
        let is_held = is_held.clone();
        tasks.spawn(async move {
            for _ in 0..5 {
                let guard = mutex.lock().await.expect("every node answers");
                assert!(
                    !is_held.swap(true, std::sync::atomic::Ordering::SeqCst),
                    "it has two holders"
                );
                tokio::task::yield_now().await;
                is_held.store(false, std::sync::atomic::Ordering::SeqCst);
                guard.release().await.expect("it is held");
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no contender fails");
    }
    fixture.wait_until_empty(fixture.all());
}
