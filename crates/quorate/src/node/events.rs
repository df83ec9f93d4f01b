//! Who hears what nodes answer, and what they tell unasked.

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
    /// Takes in answers of one node, in their order.
    fn handle_answers(
        self: Arc<Self>,
        node: usize,
        answers: &mut dyn Iterator<Item = (About, Command, Result<Reply, NodeError>)>,
        now: Moment,
    );

    /// Hears what the node tells unasked.
    fn handle_event(self: Arc<Self>, node: usize, kind: NodeEvent);

    /// The node's driver takes all that the client has for it. It writes by itself.
    fn serve(self: Arc<Self>, node: usize);
}

/// What a node tells unasked.
#[derive(Debug)]
pub(crate) enum NodeEvent {
    /// It can be asked.
    Up,
    /// It cannot be asked any more, or has even forgotten us.
    Down { is_forgotten: bool },
    /// Its quarantine has ended, and it has a session of ours again: what we hold is renewed there
    /// before others ask for it.
    Recovering,
    /// Its clock showed `time_us` at `at`.
    Time { time_us: u64, at: Moment },
    /// Something about one of our owners.
    Push(Push),
}

/// Passes on what nodes tell unasked. It is there before its listener is.
#[derive(Debug, Default)]
pub(crate) struct NodeEvents {
    listener: OnceLock<Weak<dyn Listener>>,
    timers: OnceLock<Weak<Timers>>,
    posted: Mutex<VecDeque<(usize, NodeEvent)>>,
    hearing: Mutex<()>,
}

impl NodeEvents {
    /// From now on this listener hears.
    pub(crate) fn belong_to(&self, listener: Weak<dyn Listener>, timers: &Arc<Timers>) {
        // There is one listener to a set of ears, and it is told once.
        let _ = self.listener.set(listener);
        let _ = self.timers.set(Arc::downgrade(timers));
    }

    /// Who hears, while it is there.
    pub(crate) fn listener(&self) -> Option<Arc<dyn Listener>> {
        self.listener.get().and_then(Weak::upgrade)
    }

    /// The listener hears this at once.
    pub(crate) fn tell(&self, node: usize, kind: NodeEvent) {
        if let Some(listener) = self.listener() {
            listener.handle_event(node, kind);
        }
    }

    /// The listener hears this on its own thread.
    ///
    /// It does not take hold of the listener: a node in memory posts under its own mutex, and
    /// whoever lets go of a listener last takes leave of its nodes.
    pub(crate) fn post(self: &Arc<Self>, node: usize, kind: NodeEvent, now: Moment) {
        if self.timers.get().is_some() {
            self.posted().push_back((node, kind));
            let weak: Weak<Self> = Arc::downgrade(self);
            self.call_at(now, weak);
        }
    }

    /// Calls `timed` at `at`, on the listener's own thread. One that has ended calls nobody, and
    /// waits for nothing.
    pub(crate) fn call_at(&self, at: Moment, timed: Weak<dyn Timed>) {
        if let Some(timers) = self.timers.get().and_then(Weak::upgrade) {
            let _ = timers.add(at, timed);
        }
    }

    /// The listener hears at once what was posted, in its order.
    pub(crate) fn hear_posted(&self) {
        let _in_order = self.hearing.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let Some((node, kind)) = self.posted().pop_front() else { return };
            self.tell(node, kind);
        }
    }

    fn posted(&self) -> MutexGuard<'_, VecDeque<(usize, NodeEvent)>> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timed for NodeEvents {
    fn handle_timeout(self: Arc<Self>, _now: Moment) {
        self.hear_posted();
    }
}
