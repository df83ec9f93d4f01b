//! Several permits for one caller: all or nothing, and in turn.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use quorate::{Client, Guard, Permits, Semaphore, error::LockError};
use tokio::task::{JoinHandle, JoinSet};

use super::{
    all_names, jobs, names, take, wait_for_queue, wait_until_held_are, wait_until_held_by,
    wait_until_only,
};
use crate::{
    conformance::fixture::{Fixture, PATIENCE},
    mode::Mode,
};

on_every_engine! {
    [1, 3, 5] => several_permits_are_acquired_together_or_not_at_all,
        waiter_keeps_released_permits_until_it_has_enough,
        callers_that_want_different_numbers_are_all_served,
        caller_that_wants_all_is_served_although_others_come_and_go,
        callers_that_want_several_permits_are_served_in_order,
        ended_wait_for_several_permits_leaves_nothing;
}

async fn several_permits_are_acquired_together_or_not_at_all(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let three = jobs(&alice, 5).try_acquire_many(3).await.expect("all answer").expect("free");
    assert_eq!(distinct(&three), 3);
    three.check().expect("all are held");
    for guard in three.guards() {
        assert_eq!(guard.fence().is_some(), fixture.mode() == Mode::Queue);
        assert_eq!(three.fence(guard.name()), guard.fence());
    }
    for count in [3, 4, 5] {
        let tried = jobs(&bob, 5).try_acquire_many(count).await.expect("all answer");
        assert!(tried.is_none(), "two are free");
    }
    let waited = jobs(&bob, 5).acquire_many_timeout(3, BRIEF).await;
    let Err(LockError::Timeout { waited, holder: Some(holder), .. }) = waited else {
        panic!("{waited:?}")
    };
    assert!(waited >= BRIEF && holder.who == "alice", "{waited:?} {holder}");
    wait_until_held_are(fixture, &all_names(&three));
    let two = jobs(&bob, 5).try_acquire_many(2).await.expect("all answer").expect("free");
    let mut guards = three.into_permits();
    guards.extend(two.into_permits());
    assert_eq!(names(&guards), ["jobs#1", "jobs#2", "jobs#3", "jobs#4", "jobs#5"]);
    assert!(jobs(&bob, 5).try_acquire_many(1).await.expect("all answer").is_none());
    drop(guards);
    wait_until_only(fixture, &[]);
    // Without waiting, in the order of their numbers.
    let all = jobs(&alice, 12).acquire_many(12).await.expect("free");
    let numbers: Vec<String> = (1..=12).map(|number| format!("jobs#{number}")).collect();
    assert_eq!(all.guards().iter().map(Guard::name).collect::<Vec<_>>(), numbers);
    all.release().await.expect("all are held");
    wait_until_only(fixture, &[]);
}

async fn waiter_keeps_released_permits_until_it_has_enough(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let mut guards = take(&jobs(&alice, 4), 4).await;
    let waiting = many(&bob, 4, 3);
    wait_for_queue(fixture, &alice, 4, 0).await;
    for _ in 0..2 {
        assert!(!waiting.is_finished());
        let freed = guards.remove(0);
        let name = freed.name().to_owned();
        freed.release().await.expect("it is held");
        wait_until_held_by(&alice, &name, "bob").await;
        assert!(jobs(&alice, 4).try_acquire().await.expect("all answer").is_none());
    }
    guards.remove(0).release().await.expect("it is held");
    let three = in_time(waiting).await;
    three.check().expect("all are held");
    guards.extend(three.into_permits());
    assert_eq!(names(&guards), ["jobs#1", "jobs#2", "jobs#3", "jobs#4"]);
    wait_until_only(fixture, &guards);
}

async fn callers_that_want_different_numbers_are_all_served(fixture: &Fixture) {
    let held = Arc::new(AtomicUsize::new(0));
    let mut crowd = JoinSet::new();
    for client in ["alice", "bob", "carol"] {
        let client = fixture.client(client).await;
        for count in [1, 2, 3, 4] {
            let (semaphore, held) = (jobs(&client, PERMITS), held.clone());
            crowd.spawn(async move {
                for round in 0..3 {
                    let guard = get(&semaphore, count, round).await;
                    work(guard, count as usize, &held).await;
                }
            });
        }
    }
    while let Some(ended) = crowd.join_next().await {
        ended.expect("no task fails");
    }
    wait_until_only(fixture, &[]);
}

/// Several permits, in one way or another.
async fn get(semaphore: &Semaphore, count: u32, way: usize) -> Permits {
    match way {
        0 => {
            if let Some(guard) = semaphore.try_acquire_many(count).await.expect("all answer") {
                return guard;
            }
            // Others may hold too many of them all the time.
            semaphore.acquire_many(count).await.expect("its turn comes")
        }
        1 => semaphore.acquire_many_timeout(count, PATIENCE).await.expect("its turn comes"),
        _ => semaphore.acquire_many(count).await.expect("its turn comes"),
    }
}

async fn work(guard: Permits, count: usize, held: &AtomicUsize) {
    assert_eq!(distinct(&guard), count);
    let now = held.fetch_add(count, Ordering::SeqCst) + count;
    assert!(now <= PERMITS as usize, "{now} of {PERMITS} are held");
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
    guard.check().expect("no test outlives its ttl");
    held.fetch_sub(count, Ordering::SeqCst);
    guard.release().await.expect("it is held");
}

async fn caller_that_wants_all_is_served_although_others_come_and_go(fixture: &Fixture) {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut others = JoinSet::new();
    for client in ["alice", "bob"] {
        let client = fixture.client(client).await;
        for way in 0..3 {
            let (semaphore, is_over) = (jobs(&client, 3), is_over.clone());
            others.spawn(async move {
                while !is_over.load(Ordering::SeqCst) {
                    let guard = match way {
                        0 => semaphore.try_acquire().await.expect("all answer"),
                        _ => Some(semaphore.acquire().await.expect("its turn comes")),
                    };
                    // Nodes in memory answer at once: no other task would run.
                    tokio::task::yield_now().await;
                    drop(guard);
                }
            });
        }
    }
    let carol = fixture.client("carol").await;
    for _ in 0..3 {
        let all = jobs(&carol, 3).acquire_many_timeout(3, PATIENCE).await.expect("its turn comes");
        all.check().expect("all are held");
    }
    is_over.store(true, Ordering::SeqCst);
    while let Some(ended) = others.join_next().await {
        ended.expect("no task fails");
    }
    wait_until_only(fixture, &[]);
}

/// A caller that wants few permits does not pass a caller that wants many.
async fn callers_that_want_several_permits_are_served_in_order(fixture: &Fixture) {
    if fixture.mode() == Mode::Classic {
        return; // Without a queue there is no order.
    }
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let mut guards = take(&jobs(&alice, 3), 3).await;
    let first = many(&bob, 3, 3);
    wait_for_queue(fixture, &alice, 3, 0).await;
    let second = many(&bob, 3, 1);
    wait_for_queue(fixture, &alice, 3, 1).await;
    let third = many(&bob, 3, 2);
    wait_for_queue(fixture, &alice, 3, 2).await;
    for _ in 0..2 {
        let freed = guards.remove(0).name().to_owned();
        wait_until_held_by(&alice, &freed, "bob").await;
    }
    assert!(!second.is_finished() && !third.is_finished(), "the first one keeps them");
    drop(guards);
    let first = in_time(first).await;
    assert!(!second.is_finished() && !third.is_finished(), "all are held");
    drop(first);
    let (second, third) = (in_time(second).await, in_time(third).await);
    drop((second, third));
    wait_until_only(fixture, &[]);
}

async fn ended_wait_for_several_permits_leaves_nothing(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    // One permit is free: the caller that waits for two holds it meanwhile.
    let guards = take(&jobs(&alice, 3), 2).await;
    for _ in 0..3 {
        let waited = jobs(&bob, 3).acquire_many_timeout(2, BRIEF).await;
        // On a busy machine the nodes may not even answer in this time.
        let is_told = matches!(waited, Err(LockError::Timeout { .. } | LockError::NoQuorum { .. }));
        assert!(is_told, "{waited:?}");
        wait_until_only(fixture, &guards);
    }
    for round in 0..20 {
        let waiting = many(&bob, 3, 2);
        match round % 4 {
            0 => wait_until_held_by(&alice, "jobs#queue", "bob").await,
            steps => {
                for _ in 0..round / 4 + steps {
                    tokio::task::yield_now().await;
                    drop(alice.inspect("jobs#1").await);
                }
            }
        }
        waiting.abort();
        assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
        wait_until_only(fixture, &guards);
    }
    let waiting = jobs(&bob, 3);
    let waiting = tokio::spawn(async move { waiting.acquire_many(2).await });
    wait_until_held_by(&alice, "jobs#queue", "bob").await;
    assert!(bob.shutdown(PATIENCE).await.is_clean);
    let ended = waiting.await.expect("no panic");
    assert!(matches!(ended, Err(LockError::ShutDown)), "{ended:?}");
    wait_until_only(fixture, &guards);
}

#[tokio::test]
async fn invalid_count_of_permits_is_an_error() {
    let client = Client::memory();
    let semaphore = jobs(&client, 3);
    for count in [0, 4] {
        let wrong = LockError::InvalidCount { lock: "jobs".into(), count, permits: 3 };
        assert_eq!(
            wrong.to_string(),
            format!("cannot acquire {count} permits of the semaphore \"jobs\": use 1 to 3")
        );
        let refused = [
            semaphore.try_acquire_many(count).await.expect_err("wrong"),
            semaphore.acquire_many(count).await.expect_err("wrong"),
            semaphore.acquire_many_timeout(count, BRIEF).await.expect_err("wrong"),
        ];
        assert!(refused.iter().all(|it| *it == wrong), "{refused:?}");
    }
    let guard = semaphore.acquire_many(3).await.expect("free");
    assert_eq!(guard.guards().len(), 3);
}

#[test]
fn threads_without_a_runtime_share_several_permits() {
    let client = quorate::blocking::Client::memory();
    let semaphore = client.semaphore("jobs", 3);
    let held = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (semaphore, held) = (&semaphore, &held);
            scope.spawn(move || {
                let count = thread % 3 + 1;
                for _ in 0..10 {
                    let seen = semaphore.with_many(count, |permits| {
                        let now = held.fetch_add(count as usize, Ordering::SeqCst);
                        std::thread::yield_now();
                        held.fetch_sub(count as usize, Ordering::SeqCst);
                        permits.check().map(|()| now + count as usize)
                    });
                    assert!(seen.expect("its turn comes").expect("held") <= 3);
                }
            });
        }
    });
    let two = semaphore.acquire_many(2).expect("free");
    assert!(semaphore.try_acquire_many(2).expect("all answer").is_none());
    let wait = semaphore.acquire_many_timeout(2, BRIEF);
    assert!(matches!(wait, Err(LockError::Timeout { holder: Some(_), .. })), "{wait:?}");
    two.release().expect("held");
}

fn many(client: &Client, permits: u32, count: u32) -> JoinHandle<Permits> {
    let semaphore = jobs(client, permits);
    tokio::spawn(async move { semaphore.acquire_many(count).await.expect("its turn comes") })
}

fn distinct(permits: &Permits) -> usize {
    all_names(permits).into_iter().collect::<std::collections::BTreeSet<_>>().len()
}

async fn in_time(waiting: JoinHandle<Permits>) -> Permits {
    let ended = tokio::time::timeout(PATIENCE, waiting).await.expect("its turn comes");
    ended.expect("no panic")
}

/// Less than any client holds a permit here.
const BRIEF: Duration = Duration::from_millis(100);

/// The permits of the semaphore.
const PERMITS: u32 = 4;
