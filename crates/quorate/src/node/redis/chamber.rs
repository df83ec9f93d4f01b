//! The restart guard on the client's side: what the links of one client know of their nodes.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use quorate_core::guard::{Council, Mark, Met, Opinion, Pact, guard_ms, slack_us};
use tokio::sync::watch;

/// One council for all links of a client.
#[derive(Debug)]
pub(crate) struct Chamber {
    state: Mutex<State>,
    /// Counts the lists of nodes that were in force: a link that was judged by another one ends.
    lists: watch::Sender<u64>,
    pub(crate) guard_ms: u64,
    /// Whether a server that writes everything to disk at once may vote again at once.
    pub(crate) is_durable: bool,
}

#[derive(Debug)]
struct State {
    council: Council,
    /// New nodes are let in without a wait.
    is_admitting: bool,
}

/// What a node was judged to be.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) mark: Mark,
    pub(crate) slack_us: u64,
    /// Told when that is void.
    pub(crate) lists: watch::Receiver<u64>,
}

impl Chamber {
    pub(crate) fn new(
        labels: impl IntoIterator<Item = Arc<str>>,
        max_ttl: Duration,
        is_durable: bool,
    ) -> Self {
        let max_ttl_ms = u64::try_from(max_ttl.as_millis()).unwrap_or(u64::MAX);
        let guard_ms = guard_ms(max_ttl_ms);
        let council = Council::new(labels, max_ttl_ms, guard_ms);
        let state = Mutex::new(State { council, is_admitting: false });
        Self { state, lists: watch::Sender::new(0), guard_ms, is_durable }
    }

    /// Takes in what a node told, and says what to do about it.
    pub(crate) fn hear(&self, node: usize, met: Met) -> Opinion {
        let (opinion, is_changed) = self.lock().council.hear(node, met);
        if is_changed {
            self.lists.send_modify(|count| *count += 1);
        }
        opinion
    }

    /// What a link goes by that was judged now.
    pub(crate) fn judged(&self, mark: Mark, lists: watch::Receiver<u64>) -> Judged {
        let guard_ms = self.lock().council.pact().map(|pact| pact.guard_ms);
        Judged { mark, slack_us: slack_us(guard_ms), lists }
    }

    /// Tells of every list that comes into force from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.lists.subscribe()
    }

    /// The link to a node is down.
    pub(crate) fn leave(&self, node: usize) {
        self.lock().council.leave(node);
    }

    /// Waits for news of every node that does not vote.
    pub(crate) fn forget(&self) {
        self.lock().council.forget();
    }

    pub(crate) fn set_admitting(&self, is_admitting: bool) {
        self.lock().is_admitting = is_admitting;
    }

    pub(crate) fn is_admitting(&self) -> bool {
        self.lock().is_admitting
    }

    /// What each node told last, by its address.
    pub(crate) fn met(&self) -> Vec<(Arc<str>, Option<Met>)> {
        let state = self.lock();
        state.council.met().map(|(label, met)| (label.clone(), met.cloned())).collect()
    }

    /// From now on this is the set: every node is told as soon as it is met again.
    pub(crate) fn propose(&self, pact: Pact) {
        self.lock().council.propose(pact);
        self.lists.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
