//! A client as one state machine without I/O.
//!
//! It contains everything that a client decides: the calls that acquire, extend, verify and release
//! locks; owners and the routing of pushes; the watchdog; tickets; and the commands to be sent to
//! each node. Time, randomness and replies are arguments. The library and the simulator drive the
//! same code: they deliver commands and replies, call back at deadlines, and decide nothing.
//!
//! ```text
//! acquire · ask · extend · verify · release · abandon
//! handle_{up, down, time, push, answer, unsent, timeout}
//!                        │
//!                     Client
//!                        │
//! poll_transmit(node) · poll_event · poll_timeout
//! ```

mod call;
mod debts;
mod downgrade;
mod drive;
pub mod held;
mod leases;
mod outgoing;
pub mod owners;
mod parts;
mod registry;
pub mod round;
mod sets;
pub mod waiter;
pub mod watchdog;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

pub use self::{
    call::{Call, CallId, Ended, Hold, Purpose},
    outgoing::{About, Joins, Question, Transmit},
    parts::Observer,
    sets::SET_MAX,
};
use self::{
    call::{Caller, Work},
    debts::Debts,
    outgoing::Outgoing,
    owners::{Naming, OwnerSource},
    registry::{Registry, Route},
    round::{Claim, Machine},
    waiter::{Waiter, Want},
    watchdog::{HeldLease, LeaseId, Watchdog},
};
use crate::{
    backoff::Jitter,
    command::{ClientId, Command, Reply},
    dialect::CommandBuilder,
    moment::Moment,
    name::Name,
    queue::{Push, retry_release_until},
    quorum::NodeSet,
    round::RoundKind,
    terms::Terms,
    tickets::Tickets,
};

/// A release that is repeated until the node answers it, or until the key has expired.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Debt {
    /// The release.
    pub release: Command,
    /// When the key has expired on the node.
    pub until: Moment,
}

/// The settings of a client, which never change.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The id of the client.
    pub client: ClientId,
    /// The number of nodes.
    pub nodes: usize,
    /// Whether the nodes require a session.
    pub has_sessions: bool,
    /// The longest ttl.
    pub max_ttl: Duration,
}

/// A client.
#[derive(Clone, Debug)]
pub struct Client<S> {
    config: Config,
    naming: Naming<S>,
    /// The nodes that accept requests for locks.
    up: NodeSet,
    registry: Registry<CallId>,
    /// Boxed, because a map moves its values around.
    calls: BTreeMap<CallId, Box<Call>>,
    /// The calls of each set that is not held and has not failed yet.
    sets: BTreeMap<CallId, Box<[CallId]>>,
    deadlines: BTreeSet<(Moment, CallId)>,
    calls_begun: u64,
    watchdog: Watchdog,
    outgoing: Box<[Outgoing]>,
    debts: Box<[Debts]>,
    events: VecDeque<Event>,
    is_closed: bool,
}

/// An event of a client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// The outcome of a call is certain. It is reported once, unless the call is abandoned later.
    Ended(CallId, Ended),
    /// There are no more events about this call.
    Closed(CallId),
    /// An event about a lease.
    Lease(watchdog::Event),
}

impl Config {
    const fn builder(&self) -> CommandBuilder {
        CommandBuilder::of(self.client, self.has_sessions)
    }
}

impl Debt {
    /// The debt for a release that a node has not answered by `now`.
    fn new(release: &Command, terms: Terms, config: &Config, now: Moment) -> Self {
        let until = match release {
            Command::DeleteKey { .. } => terms.expired_everywhere_at(now),
            _ => retry_release_until(now, config.max_ttl),
        };
        Self { release: release.clone(), until }
    }
}

impl<S: OwnerSource> Client<S> {
    /// A client that holds nothing and has no session yet.
    #[must_use]
    pub fn new(config: Config, source: S, jitter: Jitter) -> Self {
        let Config { client, nodes, .. } = config;
        Self {
            config,
            naming: Naming {
                client,
                tickets: Tickets::new(nodes),
                of_sets: BTreeMap::new(),
                source,
                // The watchdog has its own: its delays must not depend on the waiters.
                jitter: Jitter::new(jitter.clone().next()),
            },
            up: NodeSet::EMPTY,
            registry: Registry::default(),
            calls: BTreeMap::new(),
            sets: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            calls_begun: 0,
            watchdog: Watchdog::new(&config, jitter),
            outgoing: (0..nodes).map(|_| Outgoing::default()).collect(),
            debts: (0..nodes).map(|_| Debts::default()).collect(),
            events: VecDeque::new(),
            is_closed: false,
        }
    }

    /// Starts to acquire a lock.
    pub fn acquire(&mut self, want: Want, now: Moment) -> CallId {
        let id = self.next_call();
        self.begin_waiter(id, want, None, now)
    }

    pub(super) fn begin_waiter(
        &mut self,
        id: CallId,
        want: Want,
        set: Option<CallId>,
        now: Moment,
    ) -> CallId {
        let (nodes, up) = (self.config.nodes, self.up);
        let waiter = Waiter::start(want, set, nodes, up, &mut self.naming, now);
        if waiter.want().gets_pushes() {
            self.registry.wait(waiter.owner(), &waiter.want().name, id);
        }
        self.begin(id, Work::Acquire(waiter), now)
    }

    /// Sends one command about an owner to all nodes. A release ends the use of the owner.
    pub fn ask(&mut self, claim: Claim, machine: Machine, now: Moment) -> CallId {
        if machine.kind() == RoundKind::Release {
            self.registry.forget(&claim.owner, &claim.name);
        }
        self.begin_round(claim, machine, Purpose::Round, now)
    }

    /// Records that the caller has left. An acquire releases what it was granted. Other calls
    /// continue.
    pub fn abandon(&mut self, id: CallId, now: Moment) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        call.caller = Caller::Gone;
        self.give_up(id, now);
    }

    /// Records that the caller has taken the outcome and is done with the call.
    pub fn close_call(&mut self, id: CallId) {
        if let Some(call) = self.calls.get_mut(&id) {
            call.caller = Caller::Gone;
        }
        self.remove_if_done(id);
    }

    /// Closes the client. From now on it acquires no lock.
    pub fn close(&mut self, now: Moment) {
        self.is_closed = true;
        for id in self.call_ids(|call| call.caller == Caller::Waits) {
            self.give_up(id, now);
        }
    }

    /// The node accepts requests for locks from now on.
    pub fn handle_up(&mut self, node: usize, now: Moment) {
        self.pay_debts(node, now);
        if self.up.contains(node) {
            return;
        }
        self.up.insert(node);
        self.update_waiters(|waiter| waiter.handle_up(node, now), now);
    }

    /// The node cannot be reached any more. `is_forgotten`: it has also lost what it knew about
    /// this client.
    pub fn handle_down(&mut self, node: usize, is_forgotten: bool, now: Moment) {
        self.up.remove(node);
        self.update_waiters(|waiter| waiter.handle_down(node, is_forgotten), now);
    }

    /// The node has a session with this client again and may lack keys. Renews all leases there
    /// before locks are requested from it.
    pub fn handle_recovering(&mut self, node: usize, patience: Patience<'_>, now: Moment) {
        self.pay_debts(node, now);
        self.watchdog.renew_all(patience, now);
        self.send_renewals();
    }

    /// Renews these leases immediately.
    pub fn renew(&mut self, leases: &[LeaseId], patience: Patience<'_>, now: Moment) {
        self.watchdog.renew(leases, patience, now);
        self.send_renewals();
    }

    /// Records that the node's clock showed `time_us` at `at`.
    pub fn handle_time(&mut self, node: usize, time_us: u64, at: Moment) {
        self.naming.tickets.handle_time(node, time_us, at);
    }

    /// Handles a push from a node.
    pub fn handle_push(&mut self, node: usize, push: Push, now: Moment) {
        match self.registry.route(&push) {
            Route::Waiter(id) => {
                if let Some(waiter) = self.waiter_mut(id) {
                    waiter.handle_push(node, &push, now);
                    self.drive(id, now);
                }
            }
            Route::Ignore => {}
            Route::Release => self.release_orphan(node, push.name, push.owner),
        }
    }

    /// Handles the reply of a node. `None`: there was no usable reply.
    pub fn handle_answer(
        &mut self,
        node: usize,
        (about, command): (&About, &Command),
        reply: Option<&Reply>,
        now: Moment,
    ) {
        for (about, command, answer) in about.entries(command, reply) {
            mutate!(FailedEntryDropped
                if answer.is_none() && matches!(reply, Some(Reply::Batch(_))) => continue);
            // A full node counts as an error.
            let answer = answer.filter(|answer| **answer != Reply::Full);
            self.handle_entry(node, (about, command), answer, now);
        }
    }

    fn handle_entry(
        &mut self,
        node: usize,
        (about, command): (&About, &Command),
        reply: Option<&Reply>,
        now: Moment,
    ) {
        match about {
            About::Waiter(question) => {
                mutate!(LostIsUnsent if reply.is_none()
                    => return self.handle_unsent(node, (about, command), now));
                self.handle_waiter_reply(node, (question, command), reply, now);
            }
            About::Round(id) => {
                let Some(call) = self.calls.get_mut(id) else { return };
                let debt = call.handle_vote(&self.config, node, command, reply, now);
                self.owe(node, debt, now);
                self.drive(*id, now);
            }
            About::Renewals(batch) => self.watchdog.handle_answer(*batch, node, reply, now),
            About::Orphan if reply.is_none() => {
                let until = retry_release_until(now, self.config.max_ttl);
                self.owe(node, Some(Debt { release: command.clone(), until }), now);
            }
            About::Debt(until) if reply.is_none() => {
                mutate!(DebtOnce => return);
                self.owe(node, Some(Debt { release: command.clone(), until: *until }), now);
            }
            About::Orphan | About::Debt(_) | About::Batch(_) => {}
        }
    }

    /// Records that the command could not be sent to this node.
    pub fn handle_unsent(
        &mut self,
        node: usize,
        (about, command): (&About, &Command),
        now: Moment,
    ) {
        for (about, command, _) in about.entries(command, None) {
            match about {
                About::Waiter(question) => {
                    if let Some(waiter) = self.waiter_mut(question.call) {
                        waiter.handle_unsent(node, question.node_call, question.is_first);
                    }
                    self.handle_waiter_reply(node, (question, command), None, now);
                }
                About::Round(id) => {
                    let Some(call) = self.calls.get_mut(id) else { continue };
                    let debt = call.handle_vote(&self.config, node, command, None, now);
                    self.owe(node, debt, now);
                    self.drive(*id, now);
                }
                About::Renewals(_) | About::Orphan | About::Debt(_) | About::Batch(_) => {
                    self.handle_entry(node, (about, command), None, now);
                }
            }
        }
    }

    /// Does what is due at `now`. `wall` is the time of the wall clock.
    pub fn handle_timeout(&mut self, wall: Duration, patience: Patience<'_>, now: Moment) {
        // Each at most once. What is due again immediately waits for the next call.
        let due: Vec<CallId> =
            self.deadlines.range(..=(now, CallId::LAST)).map(|it| it.1).collect();
        for id in due {
            if let Some(call) = self.calls.get_mut(&id) {
                call.handle_timeout(now);
            }
            self.drive(id, now);
        }
        for node in self.up.iter() {
            if self.debts[node].retry_at().is_some_and(|at| at <= now) {
                self.pay_debts(node, now);
            }
        }
        self.watchdog.handle_timeout(wall, patience, now);
        self.send_renewals();
    }

    /// Ends every call that has no outcome with what is known: no more timeouts are handled.
    pub fn handle_end(&mut self, now: Moment) {
        self.close(now);
        for id in self.call_ids(|call| call.ended().is_none()) {
            if let Some(call) = self.calls.get_mut(&id) {
                call.handle_timeout(Moment::from_nanos(u64::MAX));
            }
            self.drive(id, now);
        }
    }

    /// The next command for a node, in the order in which commands must arrive. Only commands for
    /// which `joins` is true are sent in a batch.
    pub fn poll_transmit(&mut self, node: usize, joins: Joins) -> Option<Transmit> {
        self.outgoing.get_mut(node)?.pop(joins)
    }

    /// The number of commands that are waiting for a node.
    #[must_use]
    pub fn waiting_for(&self, node: usize) -> usize {
        self.outgoing.get(node).map_or(0, Outgoing::len)
    }

    /// The nodes for which commands are waiting.
    #[must_use]
    pub fn nodes_to_send(&self) -> NodeSet {
        let mut nodes = NodeSet::EMPTY;
        for (node, _) in self.outgoing.iter().enumerate().filter(|(_, it)| !it.is_empty()) {
            nodes.insert(node);
        }
        nodes
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        let lease = self.watchdog.poll_event().map(Event::Lease);
        lease.or_else(|| self.events.pop_front())
    }

    /// When to call `handle_timeout` next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Moment> {
        let call = self.deadlines.first().map(|(at, _)| *at);
        let debt = self.up.iter().filter_map(|node| self.debts[node].retry_at()).min();
        [call, debt, self.watchdog.poll_timeout()].into_iter().flatten().min()
    }

    /// Whether a node has not answered a release yet.
    #[must_use]
    pub fn is_owing(&self, now: Moment) -> bool {
        self.debts.iter().any(|debts| debts.is_owed(now))
    }

    /// An open call.
    #[must_use]
    pub fn call(&self, id: CallId) -> Option<&Call> {
        self.calls.get(&id).map(|call| &**call)
    }

    /// Takes the outcome of a call, if it is certain. From now on the caller is responsible for it:
    /// a lock that was acquired is not released when the client closes.
    pub fn take_outcome(&mut self, id: CallId) -> Option<Ended> {
        let call = self.calls.get_mut(&id)?;
        let ended = call.ended()?;
        call.caller = Caller::Took;
        Some(ended)
    }

    /// A lease, lost or not, until its guard is dropped.
    #[must_use]
    pub fn lease(&self, lease: LeaseId) -> Option<&HeldLease> {
        self.watchdog.lease(lease)
    }

    /// The nodes that accept requests for locks.
    #[must_use]
    pub const fn up(&self) -> NodeSet {
        self.up
    }

    /// Whether an acquire of this client waits for the lock.
    #[must_use]
    pub fn is_awaited(&self, name: &Name) -> bool {
        self.registry.is_awaited(name)
    }

    /// The source of owners and tickets.
    pub const fn naming(&mut self) -> &mut Naming<S> {
        &mut self.naming
    }
}

/// The vote timeout for a ttl.
pub type Patience<'a> = &'a dyn Fn(Duration) -> Duration;

#[cfg(test)]
mod tests;
