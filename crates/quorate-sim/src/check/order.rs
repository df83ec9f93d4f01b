//! Queue order: which clients wait, since when, and how often they were overtaken.

use std::collections::HashSet;

use quorate_core::{client::CallId, command::Owner, queue::Position};

use crate::clock::{MS, Nanos};

/// A waiter that is queued on a majority of the nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Queued {
    pub(crate) client: usize,
    pub(crate) ticket: u64,
    /// True if it is queued on all nodes.
    pub(crate) is_everywhere: bool,
}

/// The waiters for all locks.
#[derive(Debug, Default)]
pub(crate) struct Order {
    waiting: Vec<Waiter>,
    /// Owners to which a node has handed a lock off.
    handed: HashSet<Owner>,
    /// When the check of the order begins.
    healed_at: Option<Nanos>,
    /// True if nothing ever goes wrong: then the tickets give the order of arrival.
    is_calm: bool,
}

/// How a client came to hold a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum How {
    /// It is the only holder.
    First,
    /// It shares the lock with other holders.
    Together,
    /// It joined holders that had shared the lock since before it asked.
    Joining,
}

/// A client, and one of its calls.
type Who = (usize, CallId);

#[derive(Debug)]
struct Waiter {
    who: Who,
    lock: usize,
    ticket: u64,
    since: Nanos,
    /// Since when it has been queued on all nodes.
    queued_since: Option<Nanos>,
    /// How often a waiter with a later ticket was served first.
    overtaken: u32,
}

impl Order {
    /// Faults have stopped.
    pub(super) fn heal(&mut self, now: Nanos) {
        self.healed_at = Some(now);
        self.is_calm |= now == 0;
    }

    /// A waiter enters the queue.
    pub(crate) fn enter(&mut self, now: Nanos, who: Who, lock: usize, ticket: u64) {
        self.waiting.push(Waiter {
            who,
            lock,
            ticket,
            since: now,
            queued_since: None,
            overtaken: 0,
        });
    }

    /// A node reports that it handed a lock off. The order is not checked for a lock that expires:
    /// it goes to the next client that asks.
    pub(crate) fn hand_off(&mut self, owner: &Owner) {
        self.handed.insert(owner.clone());
    }

    /// The waiter got the lock, or left the queue.
    pub(crate) fn leave(&mut self, who: Who) {
        self.waiting.retain(|waiter| waiter.who != who);
    }

    /// No call of this client waits any more.
    pub(crate) fn forget(&mut self, client: usize) {
        self.waiting.retain(|waiter| waiter.who.0 != client);
    }

    /// The waiters for a lock, by client and ticket.
    pub(crate) fn tickets(&self, lock: usize) -> Vec<(usize, u64)> {
        let waiting = self.waiting.iter().filter(|waiter| waiter.lock == lock);
        waiting.map(|waiter| (waiter.who.0, waiter.ticket)).collect()
    }

    /// Records which waiters are queued now, and forgets what was known of the others.
    fn note(&mut self, now: Nanos, lock: usize, queued: &[Queued]) {
        for waiter in self.waiting.iter_mut().filter(|waiter| waiter.lock == lock) {
            let is_everywhere = waiter.find(queued).is_some_and(|seen| seen.is_everywhere);
            let since = waiter.queued_since.unwrap_or(now);
            waiter.queued_since = is_everywhere.then_some(since);
        }
    }

    /// A client that asked at `asked_at` now holds the lock, while `queued` are in the queue of a
    /// majority of the nodes. Returns since when a waiter has waited that was overtaken too often.
    ///
    /// A client that joins readers or entries cannot have found the lock free on a majority. So it
    /// passed every waiter that was queued on all nodes before it asked, and once is too often.
    /// Clients that are granted a share together count as one: a waiter that reached the nodes
    /// after that grant, but before it received the grant, was passed once.
    pub(super) fn overtake(
        &mut self,
        now: Nanos,
        lock: usize,
        (owner, asked_at, how): (&Owner, Nanos, How),
        queued: &[Queued],
    ) -> Option<(Nanos, u32)> {
        self.note(now, lock, queued);
        let ticket = Position::of(owner.as_bytes())?.ticket;
        let is_handed = self.handed.contains(owner);
        let healed_at = self.healed_at?;
        let mut worst = None;
        for waiter in self.waiting.iter_mut().filter(|waiter| waiter.lock == lock) {
            let known_at = waiter.since.max(healed_at) + ARRIVES_WITHIN;
            // A caller that comes before all nodes have reported their time may draw a wrong
            // ticket.
            let is_exact = self.is_calm && waiter.since > ARRIVES_WITHIN;
            let is_later = (waiter.ticket < ticket || is_exact) && known_at < asked_at;
            let has_queue = waiter.find(queued).is_some();
            let is_passed =
                how == How::Joining && waiter.queued_since.is_some_and(|since| since < asked_at);
            if is_later && has_queue && (is_handed && how == How::First || is_passed) {
                waiter.overtaken += 1;
                if waiter.overtaken > OVERTAKEN_MAX || is_passed {
                    worst = Some((waiter.since, waiter.overtaken));
                }
            }
        }
        worst
    }
}

impl Waiter {
    fn find<'a>(&self, queued: &'a [Queued]) -> Option<&'a Queued> {
        queued.iter().find(|seen| (seen.client, seen.ticket) == (self.who.0, self.ticket))
    }
}

/// By this time all nodes know of a new waiter.
const ARRIVES_WITHIN: Nanos = 100 * MS;

/// A lock that is handed off may have expired on other nodes.
const OVERTAKEN_MAX: u32 = 2;
