//! What clients, locks and guards share: a running engine, and the default settings of locks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use quorate_core::{
    quorum::majority,
    terms::{Drift, Terms},
};

use crate::{
    engine::{Engine, Running},
    error::{NodeAnswer, NodeError, NodeReport, TtlError},
    membership::SharedMembership,
};

/// What clients, locks and guards share. Dropping the last of them ends the engine.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) engine: Arc<Engine>,
    pub(crate) running: Running,
    pub(crate) defaults: Defaults,
    /// What is known of the set of nodes, if they are members of one.
    pub(crate) membership: Option<Arc<SharedMembership>>,
    /// Every node was attached, or failed to, at least once.
    was_contacted: AtomicBool,
}

/// The settings of a lock that has none of its own.
#[derive(Debug)]
pub(crate) struct Defaults {
    pub(crate) ttl: Duration,
    pub(crate) max_ttl: Duration,
    pub(crate) drift: Drift,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) prefix: String,
    /// The identity of reentrant locks.
    pub(crate) identity: Arc<str>,
}

impl Inner {
    pub(crate) const fn new(
        engine: Arc<Engine>,
        running: Running,
        defaults: Defaults,
        membership: Option<Arc<SharedMembership>>,
    ) -> Self {
        let was_contacted = AtomicBool::new(false);
        Self { engine, running, defaults, membership, was_contacted }
    }

    /// Calls `check` whenever the state of a link changes, until it returns a value. `None` if it
    /// returns none within `patience`.
    pub(crate) async fn watch_nodes<T>(
        &self,
        patience: Duration,
        mut check: impl FnMut(&[NodeReport]) -> Option<T>,
    ) -> Option<T> {
        let engine = &self.engine;
        let deadline = engine.now().saturating_add(patience);
        let mut sleep = std::pin::pin!(engine.sleep_until(deadline));
        loop {
            let changed = engine.status.notified();
            let mut changed = std::pin::pin!(changed);
            // Enabled before `check`, so that a change between the two is not missed.
            changed.as_mut().enable();
            if let Some(seen) = check(&engine.reports()) {
                return Some(seen);
            }
            if engine.now() >= deadline {
                return None;
            }
            std::future::poll_fn(|cx| {
                if sleep.as_mut().poll(cx).is_ready() {
                    return std::task::Poll::Ready(());
                }
                changed.as_mut().poll(cx)
            })
            .await;
        }
    }

    /// True once every node was attached, or failed to.
    pub(crate) fn was_contacted(&self) -> bool {
        self.was_contacted.load(Ordering::Relaxed)
    }

    /// Waits for the first connections of a new client: until a majority is attached, or every node
    /// is attached or has failed. The connect timeout of the links bounds it.
    pub(crate) async fn first_contact(&self) {
        if self.was_contacted() || self.is_closed() {
            return;
        }
        let contacted = self.watch_nodes(FIRST_CONTACT_MAX, |nodes| {
            let attached = |report: &&NodeReport| report.answer == NodeAnswer::Attached;
            let is_majority = nodes.iter().filter(attached).count() >= majority(nodes.len());
            let is_all = !nodes.iter().any(is_coming);
            (is_majority || is_all).then_some(is_all)
        });
        if contacted.await == Some(true) {
            self.was_contacted.store(true, Ordering::Relaxed);
        }
    }

    /// Waits for the nodes that a new client has not contacted yet. Returns false if there were
    /// none.
    ///
    /// A try whose majority was not enough, because one of its nodes is full, may succeed with
    /// them.
    pub(crate) async fn contact_rest(&self) -> bool {
        if self.was_contacted() || self.is_closed() {
            return false;
        }
        let is_all = |nodes: &[NodeReport]| (!nodes.iter().any(is_coming)).then_some(());
        self.watch_nodes(FIRST_CONTACT_MAX, is_all).await;
        !self.was_contacted.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.engine.is_closed.load(Ordering::SeqCst)
    }

    /// The terms of a lock with this ttl.
    pub(crate) fn terms(&self, ttl: Duration) -> Result<Terms, TtlError> {
        let max = self.defaults.max_ttl;
        if ttl > max {
            return Err(TtlError::AboveMax { ttl, max });
        }
        Ok(Terms::new(ttl, self.engine.vote_timeout(ttl), self.defaults.drift)?)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.engine.is_closed.store(true, Ordering::SeqCst);
        self.running.order_end(DROP_GRACE);
        // The engine ends within the grace; the bound is for an engine that cannot run at all.
        self.running.wait_for_end(DROP_GRACE * 2);
    }
}

/// Whether the node may be attached in a moment: it was not tried yet, or the links have just
/// agreed on the nodes and ask again.
fn is_coming(report: &NodeReport) -> bool {
    match &report.answer {
        NodeAnswer::NodeError(NodeError::Connecting | NodeError::SessionLost) => true,
        NodeAnswer::NodeError(NodeError::Quarantined { left, .. }) => left.is_zero(),
        NodeAnswer::Attached
        | NodeAnswer::Granted
        | NodeAnswer::Refused
        | NodeAnswer::NotAwaited
        | NodeAnswer::Ready(_)
        | NodeAnswer::NodeError(_) => false,
    }
}

/// More than a link needs to connect or to fail.
pub(crate) const FIRST_CONTACT_MAX: Duration = Duration::from_secs(2);

/// How long dropping the last handle waits for pending releases.
const DROP_GRACE: Duration = Duration::from_millis(100);
