//! Delivers the answers and events of nodes to their client.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

use quorate_core::{
    client::About,
    command::{Command, Reply},
    moment::Moment,
    queue::Push,
};

use crate::{
    error::NodeError,
    timers::{Timed, Timers},
};

/// The client of a node.
pub(crate) trait Listener: fmt::Debug + Send + Sync {
    /// Handles answers of one node, in order.
    fn handle_answers(
        self: Arc<Self>,
        node: usize,
        answers: &mut dyn Iterator<Item = (About, Command, Result<Reply, NodeError>)>,
        now: Moment,
    );

    /// Handles an event of the node.
    fn handle_event(self: Arc<Self>, node: usize, kind: NodeEvent);

    /// Makes the node's driver take all that the client has for it. The driver writes by itself.
    fn serve(self: Arc<Self>, node: usize);
}

/// What a node reports without a request.
#[derive(Debug)]
pub(crate) enum NodeEvent {
    /// The node can be used.
    Up,
    /// The node cannot be used any longer, or has even forgotten this client.
    Down { is_forgotten: bool },
    /// The node's quarantine has ended, and the client has a session there again. Holders renew
    /// their leases on it before other clients request locks.
    Recovering,
    /// The node's clock showed `time_us` at `at`.
    Time { time_us: u64, at: Moment },
    /// Something about one of our owners.
    Push(Push),
}

/// Passes the events of nodes to a listener. It is created before its listener.
#[derive(Debug, Default)]
pub(crate) struct NodeEvents {
    listener: OnceLock<Weak<dyn Listener>>,
    timers: OnceLock<Weak<Timers>>,
    queued: Mutex<VecDeque<(usize, NodeEvent)>>,
    delivering: Mutex<()>,
}

impl NodeEvents {
    /// Sets the listener.
    pub(crate) fn set_listener(&self, listener: Weak<dyn Listener>, timers: &Arc<Timers>) {
        // The listener is set only once.
        let _ = self.listener.set(listener);
        let _ = self.timers.set(Arc::downgrade(timers));
    }

    /// The listener, unless it was dropped.
    pub(crate) fn listener(&self) -> Option<Arc<dyn Listener>> {
        self.listener.get().and_then(Weak::upgrade)
    }

    /// Delivers an event to the listener immediately.
    pub(crate) fn deliver(&self, node: usize, kind: NodeEvent) {
        if let Some(listener) = self.listener() {
            listener.handle_event(node, kind);
        }
    }

    /// Delivers an event to the listener on the listener's own thread.
    ///
    /// It does not upgrade the listener: a node in memory calls this under its own mutex, and
    /// dropping the last reference to a listener disconnects it from its nodes.
    pub(crate) fn enqueue(self: &Arc<Self>, node: usize, kind: NodeEvent, now: Moment) {
        if self.timers.get().is_some() {
            self.queued().push_back((node, kind));
            let weak: Weak<Self> = Arc::downgrade(self);
            self.call_at(now, weak);
        }
    }

    /// Calls `timed` at `at`, on the listener's own thread. A listener that has ended calls
    /// nothing.
    pub(crate) fn call_at(&self, at: Moment, timed: Weak<dyn Timed>) {
        if let Some(timers) = self.timers.get().and_then(Weak::upgrade) {
            let _ = timers.add(at, timed);
        }
    }

    /// Delivers the queued events to the listener immediately, in order.
    pub(crate) fn deliver_queued(&self) {
        let _in_order = self.delivering.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let Some((node, kind)) = self.queued().pop_front() else { return };
            self.deliver(node, kind);
        }
    }

    fn queued(&self) -> MutexGuard<'_, VecDeque<(usize, NodeEvent)>> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timed for NodeEvents {
    fn handle_timeout(self: Arc<Self>, _now: Moment) {
        self.deliver_queued();
    }
}
