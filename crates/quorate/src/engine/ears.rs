//! Where nodes say what nobody asked for.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

use quorate_core::{line::Push, moment::Moment};

use super::{
    Engine,
    timers::{Timed, Timers},
};

/// What a node tells unasked, and the node's number.
#[derive(Debug)]
pub(crate) enum News {
    Up(usize),
    Down(usize),
    Push(usize, Push),
}

/// Hears what nodes tell unasked. It is there before the engine is.
#[derive(Debug, Default)]
pub(crate) struct Ears {
    engine: OnceLock<Weak<Engine>>,
    timers: OnceLock<Weak<Timers>>,
    posted: Mutex<VecDeque<News>>,
    hearing: Mutex<()>,
}

impl Ears {
    /// From now on this engine hears.
    pub(crate) fn belong_to(&self, engine: &Arc<Engine>) {
        // There is one engine to a set of ears, and it is told once.
        let _ = self.engine.set(Arc::downgrade(engine));
        let _ = self.timers.set(Arc::downgrade(&engine.timers));
        // Under the lock: a node that comes up meanwhile says so before or after.
        engine.work(|shared, now| shared.learn_who_is_up(engine, now));
    }

    pub(crate) fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.get().and_then(Weak::upgrade)
    }

    /// Hears this on the engine's own thread.
    ///
    /// It does not take hold of the engine: a node in memory posts under its own mutex, and whoever
    /// lets go of an engine last takes leave of its nodes.
    pub(crate) fn post(self: &Arc<Self>, news: News, now: Moment) {
        let Some(timers) = self.timers.get().and_then(Weak::upgrade) else { return };
        self.posted().push_back(news);
        let weak: Weak<Self> = Arc::downgrade(self);
        // An engine that has ended hears nothing any more.
        let _ = timers.add(now, weak);
    }

    /// Hears at once what was posted, in its order.
    pub(crate) fn hear_posted(&self) {
        let _in_order = self.hearing.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let Some(news) = self.posted().pop_front() else { return };
            match news {
                News::Up(node) => self.handle_up(node),
                News::Down(node) => self.handle_down(node, false),
                News::Push(node, push) => self.handle_push(node, push),
            }
        }
    }

    fn posted(&self) -> MutexGuard<'_, VecDeque<News>> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node whose guard has ended has a session of ours again: what we hold is renewed there
    /// before others ask for it.
    pub(crate) fn handle_recovering(&self, node: usize) {
        if let Some(engine) = self.engine() {
            engine.work(|shared, now| {
                shared.machine.handle_recovering(node, &|ttl| engine.vote_timeout(ttl), now);
            });
        }
    }

    /// The node can be reached.
    pub(crate) fn handle_up(&self, node: usize) {
        if let Some(engine) = self.engine() {
            engine.work(|shared, now| shared.machine.handle_up(node, now));
        }
    }

    /// The node cannot be reached any more, or has even forgotten us.
    pub(crate) fn handle_down(&self, node: usize, is_forgotten: bool) {
        if let Some(engine) = self.engine() {
            engine.work(|shared, now| {
                shared.machine.handle_down(node, is_forgotten, now);
                shared.give_up_where_denied(&engine, now);
            });
        }
    }

    /// The node's clock showed `time_us` at `at`.
    pub(crate) fn handle_time(&self, node: usize, time_us: u64, at: Moment) {
        if let Some(engine) = self.engine() {
            engine.lock().machine.handle_time(node, time_us, at);
        }
    }

    /// A node tells something about one of our owners.
    pub(crate) fn handle_push(&self, node: usize, push: Push) {
        if let Some(engine) = self.engine() {
            engine.work(|shared, now| shared.machine.handle_push(node, push, now));
        }
    }
}

impl Timed for Ears {
    fn handle_timeout(self: Arc<Self>, _now: Moment) {
        self.hear_posted();
    }
}
