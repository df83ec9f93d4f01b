//! Waiters are served in FIFO order, whether they wait for one lock or for several.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use quorate::Client;
use tokio::task::JoinHandle;

use super::{pair, take_all, wait_until_only, wait_until_queued};
use crate::conformance::fixture::{Fixture, PATIENCE, on_memory, take};

in_line_on_every_engine! {
    [1, 3, 5] => waiting_set_is_not_passed_by_later_locks_of_its_names,
        waiting_set_does_not_pass_earlier_locks,
        set_is_not_starved_by_locks_that_keep_coming;
}

/// All by one client: two clients' estimates of the nodes' time may differ by a round trip.
async fn waiting_set_is_not_passed_by_later_locks_of_its_names(fixture: &Fixture) {
    let alice = fixture.client("alice").await;
    not_passed(fixture, [&alice, &alice, &alice]).await;
}

/// Nodes in memory have the clock of their clients, so that the order is exact.
#[test]
fn waiting_set_is_not_passed_by_later_locks_of_other_clients() {
    on_memory(&[1, 3, 5], async |fixture| {
        let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
        let carol = fixture.client("carol").await;
        not_passed(fixture, [&alice, &bob, &carol]).await;
    });
}

async fn not_passed(fixture: &Fixture, [first, second, third]: [&Client; 3]) {
    let turns = Turns::default();
    let guard = take(first.mutex("a")).await;
    let set = turns.of_pair(second);
    wait_until_queued(fixture, third, "a", 1).await;
    wait_until_reserved(third, "b").await;
    let later = [turns.of_one(third, "b"), turns.of_one(first, "b"), turns.of_one(second, "a")];
    wait_until_queued(fixture, third, "a", 2).await;
    wait_until_queued(fixture, third, "b", 2).await;
    assert_eq!(turns.get(), [""; 0], "b is reserved for the set");
    guard.release().await.expect("it was held");
    set.await.expect("no panic");
    for waiter in later {
        waiter.await.expect("no panic");
    }
    assert_eq!(turns.get()[0], "pair");
    wait_until_only(fixture, &[]);
}

async fn waiting_set_does_not_pass_earlier_locks(fixture: &Fixture) {
    let alice = fixture.client("alice").await;
    let turns = Turns::default();
    let guard = take_all(pair(&alice)).await;
    let a = turns.of_one(&alice, "a");
    wait_until_queued(fixture, &alice, "a", 1).await;
    let b = turns.of_one(&alice, "b");
    wait_until_queued(fixture, &alice, "b", 1).await;
    let set = turns.of_pair(&alice);
    wait_until_queued(fixture, &alice, "a", 2).await;
    wait_until_queued(fixture, &alice, "b", 2).await;
    guard.release().await.expect("both were held");
    for waiter in [a, b, set] {
        waiter.await.expect("no panic");
    }
    assert_eq!(turns.get()[2], "pair");
    wait_until_only(fixture, &[]);
}

/// One of them is always held or waited for: without a queue the set would never acquire both.
async fn set_is_not_starved_by_locks_that_keep_coming(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut crowd = Vec::new();
    for name in ["a", "b", "a", "b"] {
        let (mutex, is_over) = (bob.mutex(name), is_over.clone());
        crowd.push(tokio::spawn(async move {
            let mut guard = mutex.lock().await.expect("its turn comes");
            while !is_over.load(Ordering::Relaxed) {
                let next = mutex.lock();
                let (released, next) = tokio::join!(guard.release(), next);
                released.expect("it was held");
                guard = next.expect("its turn comes");
            }
        }));
    }
    for _ in 0..10 {
        take_all(pair(&alice)).await.release().await.expect("both were held");
    }
    is_over.store(true, Ordering::Relaxed);
    for task in crowd {
        task.await.expect("no panic");
    }
    wait_until_only(fixture, &[]);
}

/// Waits until the nodes have granted a lock to a set that does not hold it yet.
async fn wait_until_reserved(client: &Client, name: &str) {
    let reserved =
        async { while client.inspect(name).await.expect("the nodes tell").holder.is_none() {} };
    tokio::time::timeout(PATIENCE, reserved).await.expect("the set asks for all of its locks");
}

/// The holders of a lock, in order. Clones are the same list.
#[derive(Clone, Default)]
struct Turns(Arc<Mutex<Vec<&'static str>>>);

impl Turns {
    fn of_pair(&self, client: &Client) -> JoinHandle<()> {
        let (set, turns) = (pair(client), self.clone());
        tokio::spawn(async move {
            let guard = set.lock().await.expect("its turn comes");
            turns.take("pair");
            guard.release().await.expect("both are held");
        })
    }

    fn of_one(&self, client: &Client, name: &'static str) -> JoinHandle<()> {
        let (mutex, turns) = (client.mutex(name), self.clone());
        tokio::spawn(async move {
            let guard = mutex.lock().await.expect("its turn comes");
            turns.take(name);
            guard.release().await.expect("it is held");
        })
    }

    fn take(&self, who: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(who);
    }

    fn get(&self) -> Vec<&'static str> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
