//! Who of this client waits in line or holds a lock, and where the nodes' news go.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};

use quorate_core::{
    command::{Command, Owner, Reply},
    line::{News as Told, Push, owed_until},
    moment::Moment,
    name::Name,
    quorum::NodeSet,
};

use super::{
    Contender, Engine,
    heartbeats::Heartbeats,
    tickets::Tickets,
    timers::{Timed, Timers},
};
use crate::{
    error::Trouble,
    node::{Inbox, Request, Sent},
};

/// The part of an engine that deals with lines.
#[derive(Debug)]
pub(crate) struct Line {
    desk: Mutex<Desk>,
    pub(super) tickets: Tickets,
    pub(super) heartbeats: Heartbeats,
    /// No lease of these nodes is longer.
    max_ttl: Duration,
}

#[derive(Debug)]
struct Desk {
    claimants: HashMap<Owner, Claimant>,
    /// How many of them wait for each lock.
    waiting: HashMap<Name, usize>,
    /// The nodes that can be reached.
    up: NodeSet,
}

/// What an owner of ours is about.
#[derive(Debug)]
enum Claimant {
    Waits(Name, Weak<Contender>),
    Holds,
}

impl Line {
    pub(super) fn new(nodes: usize, tickets: Tickets, max_ttl: Duration) -> Self {
        let heartbeats = Heartbeats::new(nodes);
        let (claimants, waiting) = (HashMap::new(), HashMap::new());
        let desk = Desk { claimants, waiting, up: NodeSet::EMPTY };
        Self { desk: Mutex::new(desk), tickets, heartbeats, max_ttl }
    }

    /// `enter` gets the nodes that can be reached right now; what it adds hears of every change.
    /// Returns true if others of ours wait for the lock already.
    pub(super) fn enter(
        &self,
        owner: &Owner,
        name: &Name,
        enter: impl FnOnce(NodeSet) -> Weak<Contender>,
    ) -> bool {
        let mut desk = self.lock();
        let contender = enter(desk.up);
        let is_behind = desk.waiting.contains_key(name);
        desk.set(owner, Some(Claimant::Waits(name.clone(), contender)));
        is_behind
    }

    /// The owner of another life of the same contender.
    pub(super) fn enter_again(&self, owner: &Owner, name: &Name, contender: Weak<Contender>) {
        self.lock().set(owner, Some(Claimant::Waits(name.clone(), contender)));
    }

    /// The owner holds a lock, or is about to: what nodes tell about it is no news.
    pub(crate) fn hold(&self, owner: &Owner) {
        self.lock().set(owner, Some(Claimant::Holds));
    }

    /// Nobody wants anything for this owner any more.
    pub(crate) fn forget(&self, owner: &Owner) {
        self.lock().set(owner, None);
    }

    /// Until when a release that got no answer at `now` is sent again.
    pub(crate) fn owed_until(&self, now: Moment) -> Moment {
        owed_until(now, self.max_ttl)
    }

    /// Tells all who wait that the engine ends.
    pub(crate) fn abandon_all(&self, now: Moment) {
        self.contenders().iter().for_each(|contender| contender.handle_end(now));
    }

    fn contenders(&self) -> Vec<Arc<Contender>> {
        let waiting = |claimant: &Claimant| match claimant {
            Claimant::Waits(_, contender) => contender.upgrade(),
            Claimant::Holds => None,
        };
        self.lock().claimants.values().filter_map(waiting).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    fn set(&mut self, owner: &Owner, claimant: Option<Claimant>) {
        if let Some(Claimant::Waits(name, _)) = &claimant {
            *self.waiting.entry(name.clone()).or_default() += 1;
        }
        let before = match claimant {
            Some(claimant) => self.claimants.insert(owner.clone(), claimant),
            None => self.claimants.remove(owner),
        };
        if let Some(Claimant::Waits(name, _)) = before
            && let Entry::Occupied(mut count) = self.waiting.entry(name)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
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
        let mut desk = engine.line.lock();
        desk.up = engine.reachable();
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
            engine.line.tickets.handle_time(node, time_us, at);
        }
    }

    /// A node tells something about one of our owners.
    pub(crate) fn handle_push(&self, node: usize, push: Push, now: Moment) {
        let Some(engine) = self.engine() else { return };
        let desk = engine.line.lock();
        let contender = match desk.claimants.get(&push.owner) {
            Some(Claimant::Waits(_, contender)) => contender.upgrade(),
            Some(Claimant::Holds) => return,
            // It may be a lease that others hold by now: only what has just come to one who had
            // gone is nobody's.
            None if push.news == Told::Inquired => return,
            None => None,
        };
        drop(desk);
        match contender {
            Some(contender) => contender.handle_push(node, &push, now),
            // Nobody wants it any more: the next in line shall have it.
            None => Orphan::release(&engine, node, push.name, push.owner, now),
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
