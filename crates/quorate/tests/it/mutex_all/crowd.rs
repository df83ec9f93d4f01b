//! Many tasks of several clients want sets that overlap, and single locks of them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use quorate::{Client, GuardAll, MutexAll};
use tokio::task::{JoinSet, yield_now};

use super::wait_until_only;
use crate::{
    conformance::fixture::{Fixture, PATIENCE},
    mode::Mode,
};

on_every_engine! {
    [1, 3, 5] => sets_in_every_order_and_single_locks_make_progress_and_never_overlap;
}

async fn sets_in_every_order_and_single_locks_make_progress_and_never_overlap(fixture: &Fixture) {
    let mode = fixture.mode();
    let places: Arc<[Position]> = NAMES.iter().map(|_| Position::default()).collect();
    let mut crowd = JoinSet::new();
    for client in ["alice", "bob", "carol"] {
        let client = fixture.client(client).await;
        for task in 0..TASKS_OF_EACH {
            let (client, places) = (client.clone(), places.clone());
            crowd.spawn(async move {
                for round in 0..ROUNDS {
                    work(&client, task, way(mode, task + round), &places).await;
                }
            });
        }
    }
    while let Some(ended) = crowd.join_next().await {
        ended.expect("no task fails");
    }
    let visits: u64 = places.iter().map(|place| place.visits.load(Ordering::Relaxed)).sum();
    let expected: usize = WANTS.iter().map(|wants| 3 * ROUNDS * wants.len()).sum();
    assert_eq!(visits, expected as u64, "no visit is lost");
    wait_until_only(fixture, &[]);
}

async fn work(client: &Client, task: usize, way: Way, places: &[Position]) {
    let wants = WANTS[task % WANTS.len()];
    let names = wants.iter().map(|number| NAMES[*number]);
    if let [alone] = wants {
        let guard = client.mutex(NAMES[*alone]).lock().await.expect("its turn comes");
        places[*alone].visit().await;
        guard.check().expect("no test outlives its ttl");
        return guard.release().await.expect("it is held");
    }
    let guard = get(&client.mutex_all(names), way).await;
    wants.iter().for_each(|number| places[*number].enter());
    for number in wants {
        places[*number].count().await;
    }
    guard.check().expect("no test outlives its ttl");
    wants.iter().for_each(|number| places[*number].leave());
    guard.release().await.expect("all are held");
}

/// How a set is acquired.
#[derive(Clone, Copy)]
enum Way {
    Try,
    TryOnce,
    Timeout,
    Lock,
}

const fn way(mode: Mode, number: usize) -> Way {
    match number % 3 {
        0 if matches!(mode, Mode::Queue) => Way::Try,
        // Without a queue, sets that try again at once can keep each other from all of their locks.
        0 => Way::TryOnce,
        1 => Way::Timeout,
        _ => Way::Lock,
    }
}

async fn get(set: &MutexAll, way: Way) -> GuardAll {
    match way {
        Way::Try => loop {
            if let Some(guard) = set.try_lock().await.expect("the nodes answer") {
                return guard;
            }
            // Nodes in memory answer at once: no other task would run.
            yield_now().await;
        },
        Way::TryOnce => match set.try_lock().await.expect("the nodes answer") {
            Some(guard) => guard,
            None => set.lock().await.expect("its turn comes"),
        },
        Way::Timeout => set.lock_timeout(PATIENCE).await.expect("its turn comes"),
        Way::Lock => set.lock().await.expect("its turn comes"),
    }
}

/// What one lock protects: two holders at once would lose a visit.
#[derive(Default)]
struct Position {
    visits: AtomicU64,
    is_in_use: AtomicBool,
}

impl Position {
    async fn visit(&self) {
        self.enter();
        self.count().await;
        self.leave();
    }

    fn enter(&self) {
        assert!(!self.is_in_use.swap(true, Ordering::Relaxed), "two are inside at once");
    }

    async fn count(&self) {
        // Read here and written back below: not one atomic step, on purpose.
        let read = self.visits.load(Ordering::Relaxed);
        yield_now().await;
        self.visits.store(read + 1, Ordering::Relaxed);
    }

    fn leave(&self) {
        self.is_in_use.store(false, Ordering::Relaxed);
    }
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// What each task wants: in orders that would deadlock if locks were acquired one after another.
const WANTS: [&[usize]; TASKS_OF_EACH] = [&[0, 1], &[1, 2], &[2, 0], &[3, 0, 1, 2], &[0], &[1]];
const TASKS_OF_EACH: usize = 6;
const ROUNDS: usize = 3;
