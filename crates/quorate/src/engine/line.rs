//! Who of this client waits in line or holds a lock, and where the nodes' news go.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};

use quorate_core::{
    client::registry::{Registry, Route},
    command::{Command, Owner, Reply},
    line::{Push, owed_until},
    moment::Moment,
    name::Name,
    quorum::NodeSet,
    tickets::Tickets,
};

use super::{
    Contender, Engine,
    heartbeats::Heartbeats,
    timers::{Timed, Timers},
};
use crate::{
    error::Trouble,
    node::{Inbox, Request, Sent},
    watchdog::Watchdog,
};

/// The part of an engine that deals with lines.
#[derive(Debug)]
pub(crate) struct Line {
    owners: Mutex<Owners>,
    tickets: Mutex<Tickets>,
    pub(super) heartbeats: Heartbeats,
    /// No lease of these nodes is longer.
    max_ttl: Duration,
}

#[derive(Debug)]
struct Owners {
    registry: Registry<Weak<Contender>>,
    /// The nodes that can be reached.
    up: NodeSet,
}

impl Line {
    pub(super) fn new(nodes: usize, tickets: Tickets, max_ttl: Duration) -> Self {
        let heartbeats = Heartbeats::new(nodes);
        let owners = Owners { registry: Registry::default(), up: NodeSet::EMPTY };
        Self { owners: Mutex::new(owners), tickets: Mutex::new(tickets), heartbeats, max_ttl }
    }

    /// A ticket for a caller that came at `came_at`, if enough nodes have told their time.
    pub(super) fn draw_ticket(&self, came_at: Moment) -> Option<u64> {
        self.tickets().draw(came_at)
    }

    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `enter` gets the nodes that can be reached right now; what it adds hears of every change.
    /// Returns true if others of ours wait for the lock already.
    pub(super) fn enter(
        &self,
        name: &Name,
        enter: impl FnOnce(NodeSet) -> (Owner, Weak<Contender>),
    ) -> bool {
        let mut owners = self.lock();
        let (owner, contender) = enter(owners.up);
        let is_behind = owners.registry.is_awaited(name);
        owners.registry.wait(&owner, name, contender);
        is_behind
    }

    /// Another owner of the same contender.
    pub(super) fn enter_again(&self, owner: &Owner, name: &Name, contender: Weak<Contender>) {
        self.lock().registry.wait(owner, name, contender);
    }

    /// The owner holds a lock, or is about to: what nodes tell about it is no news.
    pub(crate) fn hold(&self, owner: &Owner) {
        self.lock().registry.hold(owner);
    }

    /// Nobody wants anything for this owner any more.
    pub(crate) fn forget(&self, owner: &Owner) {
        self.lock().registry.forget(owner);
    }

    /// No lease of these nodes is longer.
    pub(super) const fn max_ttl(&self) -> Duration {
        self.max_ttl
    }

    /// Until when a release that got no answer at `now` is sent again.
    pub(crate) fn owed_until(&self, now: Moment) -> Moment {
        owed_until(now, self.max_ttl)
    }

    /// Tells all who wait that the engine ends.
    pub(crate) fn abandon_all(&self, now: Moment) {
        self.contenders().iter().for_each(|contender| contender.handle_end(now));
    }

    /// All waiters in the order in which they came: the earliest asks first on a node that is back.
    fn contenders(&self) -> Vec<Arc<Contender>> {
        let owners = self.lock();
        let mut contenders: Vec<_> = owners.registry.waiters().filter_map(Weak::upgrade).collect();
        drop(owners);
        contenders.sort_by_key(|contender| contender.arrival());
        contenders
    }

    fn lock(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
}

impl Ears {
    /// From now on this engine hears.
    pub(crate) fn belong_to(&self, engine: &Arc<Engine>) {
        // There is one engine to a set of ears, and it is told once.
        let _ = self.engine.set(Arc::downgrade(engine));
        let _ = self.timers.set(Arc::downgrade(&engine.timers));
        // Under the lock: a node that comes up meanwhile says so before or after.
        let mut owners = engine.line.lock();
        owners.up = engine.reachable();
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

    fn posted(&self) -> MutexGuard<'_, VecDeque<News>> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node whose guard has ended has a session of ours again: what we hold is renewed there
    /// before others ask for it.
    pub(crate) fn handle_recovering(&self) {
        if let Some(engine) = self.engine() {
            Watchdog::renew_all(&engine);
        }
    }

    /// The node can be reached.
    pub(crate) fn handle_up(&self, node: usize, now: Moment) {
        let Some(engine) = self.engine() else { return };
        engine.line.lock().up.insert(node);
        for contender in engine.line.contenders() {
            contender.handle_up(node, now);
        }
        engine.line.heartbeats.flush(&engine, now);
    }

    /// The node cannot be reached any more, or has even forgotten us.
    pub(crate) fn handle_down(&self, node: usize, is_forgotten: bool, now: Moment) {
        let Some(engine) = self.engine() else { return };
        engine.line.lock().up.remove(node);
        for contender in engine.line.contenders() {
            contender.handle_down(node, is_forgotten, now);
        }
    }

    /// The node's clock showed `time_us` at `at`.
    pub(crate) fn handle_time(&self, node: usize, time_us: u64, at: Moment) {
        if let Some(engine) = self.engine() {
            engine.line.tickets().handle_time(node, time_us, at);
        }
    }

    /// A node tells something about one of our owners.
    pub(crate) fn handle_push(&self, node: usize, push: Push, now: Moment) {
        let Some(engine) = self.engine() else { return };
        let route = engine.line.lock().registry.route(&push);
        match route {
            Route::Waiter(contender) => match contender.upgrade() {
                Some(contender) => contender.handle_push(node, &push, now),
                // It is about to be forgotten.
                None => Orphan::release(&engine, node, push.name, push.owner, now),
            },
            Route::Ignore => {}
            Route::Release => Orphan::release(&engine, node, push.name, push.owner, now),
        }
    }
}

impl Timed for Ears {
    fn handle_timeout(self: Arc<Self>, _now: Moment) {
        let Some(now) = self.engine().map(|engine| engine.now()) else { return };
        loop {
            let Some(news) = self.posted().pop_front() else { return };
            match news {
                News::Up(node) => self.handle_up(node, now),
                News::Down(node) => self.handle_down(node, false, now),
                News::Push(node, push) => self.handle_push(node, push, now),
            }
        }
    }
}

/// Gives back whatever an owner of ours has on any node, and its places in line.
pub(crate) fn forget_everywhere(engine: &Arc<Engine>, name: &Name, owner: &Owner) {
    let now = engine.now();
    for node in 0..engine.nodes.len() {
        Orphan::release(engine, node, name.clone(), owner.clone(), now);
    }
    engine.line.forget(owner);
}

/// Gives back what was handed to somebody who has gone.
#[derive(Debug)]
struct Orphan {
    engine: Weak<Engine>,
}

impl Orphan {
    fn release(engine: &Arc<Engine>, node: usize, name: Name, owner: Owner, now: Moment) {
        let command = Command::Release { name, owner, yields: None };
        let inbox = Arc::new(Self { engine: Arc::downgrade(engine) });
        let request = Request { command: command.clone(), node, inbox: inbox.clone() };
        match engine.nodes[node].send(request, now) {
            Sent::Queued => engine.nodes[node].flush(),
            Sent::Answered(answer) => inbox.handle_answer(node, command, answer, now),
        }
    }
}

impl Inbox for Orphan {
    fn handle_answer(
        self: Arc<Self>,
        node: usize,
        command: Command,
        answer: Result<Reply, Trouble>,
        now: Moment,
    ) {
        if answer.is_err()
            && let Some(engine) = self.engine.upgrade()
        {
            engine.nodes[node].owe(command, engine.line.owed_until(now));
        }
    }
}
