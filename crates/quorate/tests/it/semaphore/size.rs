//! Callers that name different sizes: a semaphore grows or shrinks while it is used.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use quorate::error::LockError;
use tokio::task::JoinSet;

use super::{jobs, names, take, wait_for_queue, wait_until_only};
use crate::{
    conformance::fixture::{Fixture, LONG, PATIENCE},
    mode::Mode,
};

on_every_engine! {
    [1, 3] => semaphore_that_grows_while_it_is_full_admits_more_at_once,
        semaphore_that_shrinks_grants_nothing_until_a_remaining_permit_is_free,
        permits_beyond_the_new_number_do_not_count,
        while_callers_disagree_there_is_one_queue,
        permits_never_exceed_the_largest_size;
}

async fn semaphore_that_grows_while_it_is_full_admits_more_at_once(fixture: &Fixture) {
    let (few, many) = (fixture.client("few").await, fixture.client("many").await);
    let mut guards = take(&jobs(&few, 2), 2).await;
    assert!(jobs(&few, 2).try_acquire().await.expect("all answer").is_none());
    let more = jobs(&many, 4).try_acquire().await.expect("all answer").expect("there are more");
    guards.push(more);
    guards.extend(jobs(&many, 4).try_acquire().await.expect("all answer"));
    assert_eq!(names(&guards), ["jobs#1", "jobs#2", "jobs#3", "jobs#4"]);
    assert!(jobs(&many, 4).try_acquire().await.expect("all answer").is_none());
    // A client that still names a smaller size cannot acquire it.
    let waited = jobs(&few, 2).acquire_timeout(Duration::from_millis(30)).await;
    assert!(matches!(waited, Err(LockError::Timeout { .. })), "{waited:?}");
    wait_until_only(fixture, &guards);
    drop(guards);
    wait_until_only(fixture, &[]);
}

async fn semaphore_that_shrinks_grants_nothing_until_a_remaining_permit_is_free(fixture: &Fixture) {
    let (few, many) = (fixture.client("few").await, fixture.client("many").await);
    let mut guards = take(&jobs(&many, 4), 4).await;
    guards.sort_by_key(|guard| guard.name().to_owned());
    let semaphore = jobs(&few, 2);
    let waiting = tokio::spawn(async move { semaphore.acquire().await });
    wait_for_queue(fixture, &many, 2, 0).await;
    // Higher permits that are released are of no use to it: they no longer exist.
    for number in [4, 3] {
        guards.pop().expect("it is held").release().await.expect("it is held");
        wait_until_only_and_queue(fixture, &names(&guards));
        assert!(jobs(&few, 2).try_acquire().await.expect("all answer").is_none(), "{number}");
        assert!(!waiting.is_finished(), "every remaining permit is held");
    }
    guards.pop().expect("it is held").release().await.expect("it is held");
    let got = tokio::time::timeout(LONG / 3, waiting).await.expect("it is notified");
    guards.push(got.expect("no panic").expect("one is free"));
    assert_eq!(names(&guards), ["jobs#1", "jobs#2"]);
    wait_until_only(fixture, &guards);
}

/// The size is not stored: a client that names 2 uses the first two permits, and no others. So
/// there are up to four owners until the holders of the higher permits release them.
async fn permits_beyond_the_new_number_do_not_count(fixture: &Fixture) {
    let (few, many) = (fixture.client("few").await, fixture.client("many").await);
    let mut guards = take(&jobs(&many, 4), 4).await;
    guards.sort_by_key(|guard| guard.name().to_owned());
    for guard in guards.drain(..2) {
        guard.release().await.expect("it is held");
    }
    guards.extend(jobs(&few, 2).acquire_many(2).await.expect("free").into_permits());
    assert_eq!(names(&guards), ["jobs#1", "jobs#2", "jobs#3", "jobs#4"]);
    // After the release of the higher ones there are two.
    guards.drain(..2).for_each(drop);
    wait_until_only(fixture, &guards);
    assert!(jobs(&few, 2).try_acquire().await.expect("all answer").is_none());
}

async fn while_callers_disagree_there_is_one_queue(fixture: &Fixture) {
    if fixture.mode() == Mode::Classic {
        return; // In classic mode there is none.
    }
    let (few, many) = (fixture.client("few").await, fixture.client("many").await);
    let mut guards = take(&jobs(&many, 4), 4).await;
    guards.sort_by_key(|guard| guard.name().to_owned());
    let semaphore = jobs(&few, 2);
    let first = tokio::spawn(async move { semaphore.acquire().await });
    wait_for_queue(fixture, &many, 2, 0).await;
    let semaphore = jobs(&many, 4);
    let second = tokio::spawn(async move { semaphore.acquire().await });
    wait_for_queue(fixture, &many, 2, 1).await;
    // The first one cannot use it, and the second one waits for its turn.
    guards.pop().expect("it is held").release().await.expect("it is held");
    wait_until_only_and_queue(fixture, &names(&guards));
    assert!(!first.is_finished() && !second.is_finished());
    // New callers with a larger size find it.
    guards.extend(jobs(&many, 4).try_acquire().await.expect("all answer"));
    assert_eq!(guards.len(), 4, "it is free");
    guards.remove(0).release().await.expect("it is held");
    let got = tokio::time::timeout(LONG / 3, first).await.expect("it is notified");
    guards.push(got.expect("no panic").expect("one is free"));
    wait_for_queue(fixture, &many, 4, 0).await;
    guards.retain(|guard| guard.name() != "jobs#4");
    let got = tokio::time::timeout(LONG / 3, second).await.expect("it is notified");
    guards.push(got.expect("no panic").expect("one is free"));
    assert_eq!(names(&guards), ["jobs#1", "jobs#2", "jobs#3", "jobs#4"]);
    wait_until_only(fixture, &guards);
}

async fn permits_never_exceed_the_largest_size(fixture: &Fixture) {
    let held = Arc::new(AtomicUsize::new(0));
    let mut crowd = JoinSet::new();
    for (client, first) in [("alice", 1), ("bob", 2), ("carol", 3)] {
        let client = fixture.client(client).await;
        for task in 0..3 {
            let (client, held) = (client.clone(), held.clone());
            crowd.spawn(async move {
                for round in 0..4 {
                    let semaphore = jobs(&client, (first + task + round) % 3 + 1);
                    let guard = semaphore.acquire_timeout(PATIENCE).await.expect("its turn comes");
                    let now = held.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(now <= 3, "{now} of at most three");
                    tokio::task::yield_now().await;
                    held.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await.expect("it is held");
                }
            });
        }
    }
    while let Some(ended) = crowd.join_next().await {
        ended.expect("no task fails");
    }
    wait_until_only(fixture, &[]);
}

/// Waits until no node has other permits than these, while the queue has a first waiter.
fn wait_until_only_and_queue(fixture: &Fixture, wanted: &[String]) {
    quorate_testkit::eventually(&format!("only {wanted:?} are held"), PATIENCE, || {
        let found: Vec<String> = fixture.all().flat_map(|node| fixture.names(node)).collect();
        let mut permits = found.iter().filter(|it| it.starts_with("jobs#") && *it != "jobs#queue");
        permits.all(|name| wanted.contains(name))
    });
}
