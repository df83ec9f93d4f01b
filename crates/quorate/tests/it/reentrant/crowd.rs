//! Many tasks of several identities: never two identities at once, and all are granted the lock.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use super::{entry, release};
use crate::conformance::fixture::{Fixture, PATIENCE, on_memory, on_servers};

#[test]
fn identities_never_overlap_in_memory() {
    on_memory(&[1, 3, 5], identities_never_overlap);
}

#[test]
fn identities_never_overlap_on_servers() {
    on_servers(&[3], identities_never_overlap);
}

#[cfg(feature = "local")]
#[test]
fn identities_never_overlap_on_a_local_node() {
    crate::conformance::fixture::on_local(identities_never_overlap);
}

async fn identities_never_overlap(fixture: &Fixture) {
    let mut clients = Vec::new();
    for who in ["one", "two", "three", "four"] {
        clients.push(fixture.client(who).await);
    }
    let (inside, entered) = (Arc::new(Inside::default()), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        // Every identity is in every client.
        let (client, identity) = (clients[task % 4].clone(), task / 4 % 4);
        let (inside, entered) = (inside.clone(), entered.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let mut guards = Vec::new();
                for depth in 0..DEPTH {
                    let mutex = entry(&client, IDENTITIES[identity]);
                    let guard = mutex.lock_timeout(PATIENCE).await.expect("its turn comes");
                    inside.enter(identity);
                    entered.fetch_add(1, Ordering::Relaxed);
                    if let Some(outer) = guards.first() {
                        let outer: &quorate::Guard = outer;
                        assert!(guard.fence() >= outer.fence(), "at depth {depth}");
                    }
                    guards.push(guard);
                    tokio::task::yield_now().await;
                }
                // Every other task releases its outer entry first.
                if task % 2 == 0 {
                    guards.reverse();
                }
                for guard in guards {
                    guard.check().expect("it is held");
                    inside.leave(identity);
                    release(guard).await;
                }
            }
        }));
    }
    for task in tasks {
        task.await.expect("identities never overlap, and all are granted the lock");
    }
    assert_eq!(entered.load(Ordering::Relaxed), (TASKS * ROUNDS * DEPTH) as u64);
    fixture.wait_until_empty(fixture.all());
}

/// The identity that is inside, and how often.
#[derive(Default)]
pub(super) struct Inside(Mutex<Option<(usize, u64)>>);

impl Inside {
    pub(super) fn enter(&self, identity: usize) {
        let mut inside = self.0.lock().expect("nobody overlaps");
        let (known, times) = inside.unwrap_or((identity, 0));
        assert_eq!(known, identity, "two identities are inside");
        *inside = Some((identity, times + 1));
    }

    pub(super) fn leave(&self, identity: usize) {
        let mut inside = self.0.lock().expect("nobody overlaps");
        let (known, times) = inside.expect("an entry holds the lock");
        assert_eq!(known, identity, "two identities are inside");
        *inside = (times > 1).then_some((identity, times - 1));
    }
}

const IDENTITIES: [&str; 4] = ["a", "b", "a b", "é"];
const TASKS: usize = 64;
const ROUNDS: usize = 2;
const DEPTH: usize = 3;
