//! Waiters for one lock, observed from outside.

use std::sync::{Arc, Mutex, PoisonError};

use quorate::{Client, Guard, error::LockError};
use quorate_core::fence::Fence;
use quorate_testkit::{Server, eventually, redis::cmd};
use tokio::task::JoinHandle;

use crate::{
    conformance::fixture::{Fixture, PATIENCE},
    watchdog::journal::Journal,
};

/// The lock of these tests.
pub(super) const NAME: &str = "a";

/// The queue of one lock on all nodes, and its former waiters.
pub(super) struct Queue<'a> {
    fixture: &'a Fixture,
    journal: Journal,
    turns: Turns,
}

/// The holders of the lock, in order, with their fences. Clones are the same list.
#[derive(Clone, Default)]
pub(super) struct Turns(Arc<Mutex<Vec<(usize, Fence)>>>);

impl<'a> Queue<'a> {
    pub(super) fn new(fixture: &'a Fixture) -> Self {
        Self { fixture, journal: Journal::default(), turns: Turns::default() }
    }

    /// A client whose waiters are counted.
    pub(super) async fn client(&self, who: &str) -> Client {
        self.fixture.connect(self.fixture.builder().who(who).observer(self.journal.clone())).await
    }

    /// How many wait right now, as they report.
    fn waiting(&self) -> usize {
        let count = |what: &str| self.journal.count(&format!("wait {NAME} {what}"));
        // Ended waiters first: a waiter that ends in between is still counted, and checked again.
        let ended = count("ended");
        count("started") - ended
    }

    /// Waits until this many owners wait on every node.
    pub(super) fn wait_until_queued(&self, count: usize) {
        eventually(&format!("{count} wait"), PATIENCE, || self.waiting() == count);
        for server in self.fixture.servers() {
            eventually(&format!("{count} wait in the queue"), PATIENCE, || {
                line(server).len() == count
            });
        }
    }

    /// One more waiter, which is queued when this returns. It holds the lock for a moment.
    pub(super) fn join(&self, client: &Client, number: usize) -> JoinHandle<()> {
        let before = self.waiting();
        let (mutex, turns) = (client.mutex(NAME), self.turns.clone());
        let waiter = tokio::spawn(async move {
            let guard = mutex.lock().await.expect("its turn comes");
            turns.take(number, &guard);
            guard.release().await.expect("it is held");
        });
        self.wait_until_queued(before + 1);
        waiter
    }

    /// One more waiter, who keeps the lock when it has it.
    pub(super) fn join_to_keep(&self, client: &Client) -> JoinHandle<Result<Guard, LockError>> {
        let before = self.waiting();
        let mutex = client.mutex(NAME);
        let waiter = tokio::spawn(async move { mutex.lock().await });
        self.wait_until_queued(before + 1);
        waiter
    }

    /// How often a node has answered one of these clients, who wanted a lock.
    pub(super) fn answers(&self) -> usize {
        let lines = self.journal.lines();
        let is_answer =
            |line: &&String| line.starts_with("acquire ") && line.contains(" answered ");
        lines.iter().filter(is_answer).count()
    }

    /// The clients that have held the lock so far.
    pub(super) fn turns(&self) -> Vec<usize> {
        self.turns.get().into_iter().map(|(number, _)| number).collect()
    }

    /// Their fences, in the same order.
    pub(super) fn fences(&self) -> Vec<Fence> {
        self.turns.get().into_iter().map(|(_, fence)| fence).collect()
    }
}

impl Turns {
    fn take(&self, number: usize, guard: &Guard) {
        let fence = guard.fence().expect("the default mode has fences");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((number, fence));
    }

    fn get(&self) -> Vec<(usize, Fence)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The waiters on a server, the next one first.
pub(super) fn line(server: &Server) -> Vec<String> {
    let mut range = cmd("ZRANGE");
    range.arg(format!("quorate:q:{{{NAME}}}")).arg(&[0, -1]);
    range.query(&mut server.connection()).expect("the server answers")
}
