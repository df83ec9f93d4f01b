//! Nodes in memory, a client whose engine has the paused clock, and a journal of what it does.

use std::time::Duration;

use quorate::{
    Client, ClientBuilder, Guard, Mutex,
    error::Lost,
    memory::{Behaviour, MemoryNodes},
};
use tokio::time::Instant;

use super::journal::Journal;
use crate::mode::Mode;

pub(crate) struct PausedFixture {
    pub(crate) nodes: MemoryNodes,
    pub(crate) client: Client,
    pub(crate) journal: Journal,
    mode: Mode,
}

impl PausedFixture {
    pub(crate) fn new(nodes: usize) -> Self {
        Self::new_in(Mode::Queue, nodes)
    }

    /// A fixture whose clients are in this mode.
    pub(crate) fn new_in(mode: Mode, nodes: usize) -> Self {
        let nodes = MemoryNodes::new(nodes);
        let journal = Journal::default();
        let client = build(mode.of(settings(&nodes)).observer(journal.clone()));
        Self { nodes, client, journal, mode }
    }

    pub(crate) fn behave(&self, behaviours: &[Behaviour]) {
        behaviours.iter().enumerate().for_each(|(node, to)| self.nodes.set(node, *to));
    }

    /// Another client of the same nodes.
    pub(crate) fn other(&self) -> Client {
        build(self.mode.of(settings(&self.nodes)))
    }

    pub(crate) fn mutex(&self) -> Mutex {
        self.client.mutex(NAME)
    }

    /// Takes the lock while all nodes answer.
    pub(crate) async fn hold(&self) -> Guard {
        take(&self.mutex()).await
    }

    /// How many rounds of the client have begun.
    pub(crate) fn started(&self) -> usize {
        self.journal.lines().iter().filter(|line| line.ends_with(" started")).count()
    }

    /// How many nodes store the lock, or did when they were last asked.
    pub(crate) fn holding(&self) -> usize {
        (0..self.nodes.len()).filter(|node| self.nodes.names(*node) == [NAME]).count()
    }
}

/// Settings under which the engine has the paused clock.
pub(crate) fn settings(nodes: &MemoryNodes) -> ClientBuilder {
    Client::builder().memory(nodes).ttl(TTL).danger_engine_on_this_runtime()
}

pub(crate) fn build(settings: ClientBuilder) -> Client {
    settings.build().expect("the settings are valid")
}

/// Takes a free lock.
pub(crate) async fn take(mutex: &Mutex) -> Guard {
    mutex.try_lock().await.expect("a majority answers").expect("it is free")
}

/// True if the lock is held.
pub(crate) async fn is_taken(mutex: &Mutex) -> bool {
    mutex.try_lock().await.expect("a majority answers").is_none()
}

/// Lets time pass: whatever is due happens exactly when it is due, since the paused clock jumps
/// from one timer to the next.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await; // tidy: paused clock
}

/// Waits for the loss, and returns when it was reported.
pub(crate) async fn loss(guard: &Guard) -> (Lost, Instant) {
    let lost = tokio::time::timeout(FAR, guard.lost()).await.expect("the lock is lost in the end");
    (lost, Instant::now())
}

/// The end of a lease that was requested at `asked`: ttl, less one per cent and 2 milliseconds.
pub(crate) fn promised_until(asked: Instant, ttl: Duration) -> Instant {
    asked + ttl - ttl / 100 - Duration::from_millis(2)
}

pub(crate) const NAME: &str = "orders:42";
pub(crate) const TTL: Duration = Duration::from_secs(10);

/// The resolution of the runtime's timers.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// Longer than any wait here on the paused clock.
pub(crate) const FAR: Duration = Duration::from_secs(24 * 60 * 60);
