//! Memory nodes under a paused clock, and futures that are polled by hand.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use quorate::{
    Client, Guard, Mutex,
    memory::{Behaviour, MemoryNodes},
};

/// Nodes that behave in a given way, and a client whose engine runs on the paused runtime.
pub(super) struct Fixture {
    pub(super) nodes: MemoryNodes,
    pub(super) client: Client,
}

impl Fixture {
    pub(super) fn new(behaviours: &[Behaviour]) -> Self {
        let nodes = MemoryNodes::new(behaviours.len());
        let fixture = Self { client: client(&nodes), nodes };
        fixture.behave(behaviours);
        fixture
    }

    pub(super) fn behave(&self, behaviours: &[Behaviour]) {
        behaviours.iter().enumerate().for_each(|(node, to)| self.nodes.set(node, *to));
    }

    pub(super) fn answer_again(&self) {
        (0..self.nodes.len()).for_each(|node| self.nodes.set(node, Behaviour::Answer));
    }

    /// How many nodes hold the lock that all these tests use.
    pub(super) fn holding(&self) -> usize {
        (0..self.nodes.len()).filter(|node| self.nodes.names(*node) == [NAME]).count()
    }

    pub(super) fn mutex(&self) -> Mutex {
        self.client.mutex(NAME)
    }

    /// Takes the lock while all nodes answer.
    pub(super) async fn hold(&self) -> Guard {
        self.mutex().try_lock().await.expect("all nodes answer").expect("the lock is free")
    }
}

/// A client of these nodes with an engine on this runtime, so that it has the paused clock.
pub(super) fn client(nodes: &MemoryNodes) -> Client {
    let settings = Client::builder().memory(nodes).ttl(TTL).vote_timeout(VOTE_TIMEOUT);
    settings.danger_engine_on_this_runtime().build().expect("the settings are valid")
}

/// Polls once, without a waker: the tests poll again by themselves.
pub(crate) fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets time pass, and the engine run what is due.
pub(super) async fn pass(time: Duration) {
    tokio::time::advance(time).await;
    // The timer wakes the engine, and the engine may wake another task.
    for _ in 0..YIELDS {
        tokio::task::yield_now().await;
    }
}

/// Lets all calls end: silent nodes are given up, and their grants are undone.
pub(super) async fn settle() {
    pass(VOTE_TIMEOUT).await;
    pass(VOTE_TIMEOUT).await;
}

/// All ways in which `nodes` nodes can behave.
pub(super) fn combinations(choices: &[Behaviour], nodes: u32) -> Vec<Vec<Behaviour>> {
    let count = choices.len().pow(nodes);
    let combination = |number: usize| {
        let mut rest = number;
        let pick = |_| {
            let choice = choices[rest % choices.len()];
            rest /= choices.len();
            choice
        };
        (0..nodes).map(pick).collect()
    };
    (0..count).map(combination).collect()
}

/// The lock of these tests.
pub(super) const NAME: &str = "orders:42";

/// Longer than any of these tests runs on the paused clock: no key expires.
pub(super) const TTL: Duration = Duration::from_secs(60);

pub(super) const VOTE_TIMEOUT: Duration = Duration::from_millis(50);

/// Two polls and more fit into a vote timeout.
pub(super) const STEP: Duration = Duration::from_millis(20);

const YIELDS: usize = 3;
