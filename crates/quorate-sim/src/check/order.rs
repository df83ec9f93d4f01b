//! Who waits for what since when, and how often others came first.

use std::collections::HashSet;

use quorate_core::{client::CallId, command::Owner, line::Place};

use crate::clock::{MS, Nanos};

/// Somebody who stands in line on a majority of the nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct InLine {
    pub(crate) client: usize,
    pub(crate) ticket: u64,
    /// On all of them.
    pub(crate) is_everywhere: bool,
}

/// Those who stand in line, for all locks.
#[derive(Debug, Default)]
pub(crate) struct Order {
    waiting: Vec<Waiter>,
    /// Those to whom a node has handed a lock on.
    handed: HashSet<Owner>,
    /// From when on the order is judged.
    healed_at: Option<Nanos>,
    /// Whether nothing ever goes wrong: then tickets tell the order in which callers came.
    is_calm: bool,
}

/// How somebody came to hold a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum How {
    /// Nobody else holds it.
    First,
    /// Others hold it as well.
    Together,
    /// Others hold it since before it asked.
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
    /// Since when it is known to stand in line on all nodes.
    stood_since: Option<Nanos>,
    /// How often somebody with a later ticket came first.
    overtaken: u32,
}

impl Order {
    /// Faults have stopped.
    pub(super) fn heal(&mut self, now: Nanos) {
        self.healed_at = Some(now);
        self.is_calm |= now == 0;
    }

    /// Somebody stands in line from now on.
    pub(crate) fn stand(&mut self, now: Nanos, who: Who, lock: usize, ticket: u64) {
        self.waiting.push(Waiter {
            who,
            lock,
            ticket,
            since: now,
            stood_since: None,
            overtaken: 0,
        });
    }

    /// A node tells that it has handed a lock on. One that runs out goes to whoever asks first,
    /// which nobody can be blamed for.
    pub(crate) fn hand_on(&mut self, owner: &Owner) {
        self.handed.insert(owner.clone());
    }

    /// It has got the lock, or has gone.
    pub(crate) fn step_out(&mut self, who: Who) {
        self.waiting.retain(|waiter| waiter.who != who);
    }

    /// Nobody of this client waits any more.
    pub(crate) fn forget(&mut self, client: usize) {
        self.waiting.retain(|waiter| waiter.who.0 != client);
    }

    /// Those who wait for a lock, by client and ticket.
    pub(crate) fn tickets(&self, lock: usize) -> Vec<(usize, u64)> {
        let waiting = self.waiting.iter().filter(|waiter| waiter.lock == lock);
        waiting.map(|waiter| (waiter.who.0, waiter.ticket)).collect()
    }

    /// These stand in line now; what was known of others is not known any more.
    fn note(&mut self, now: Nanos, lock: usize, in_line: &[InLine]) {
        for waiter in self.waiting.iter_mut().filter(|waiter| waiter.lock == lock) {
            let is_everywhere = waiter.find(in_line).is_some_and(|seen| seen.is_everywhere);
            let since = waiter.stood_since.unwrap_or(now);
            waiter.stood_since = is_everywhere.then_some(since);
        }
    }

    /// Somebody who asked at `asked_at` holds the lock, and `in_line` stand in line on a majority
    /// of the nodes. Returns since when another waits who was overtaken too often.
    ///
    /// Whoever joined those who share a lock cannot have found it free on a majority, so it passed
    /// those who stood in line on all nodes before it asked: once is too often. Those who are let
    /// in together are one: whoever came to the nodes after that, and before they had heard of it,
    /// was passed once.
    pub(super) fn overtake(
        &mut self,
        now: Nanos,
        lock: usize,
        (owner, asked_at, how): (&Owner, Nanos, How),
        in_line: &[InLine],
    ) -> Option<(Nanos, u32)> {
        self.note(now, lock, in_line);
        let ticket = Place::of(owner.as_bytes())?.ticket;
        let is_handed = self.handed.contains(owner);
        let healed_at = self.healed_at?;
        let mut worst = None;
        for waiter in self.waiting.iter_mut().filter(|waiter| waiter.lock == lock) {
            let known_at = waiter.since.max(healed_at) + ARRIVES_WITHIN;
            // A caller that comes before all nodes have told their time may misjudge it.
            let is_told = self.is_calm && waiter.since > ARRIVES_WITHIN;
            let is_later = (waiter.ticket < ticket || is_told) && known_at < asked_at;
            let is_in_line = waiter.find(in_line).is_some();
            let is_passed =
                how == How::Joining && waiter.stood_since.is_some_and(|since| since < asked_at);
            if is_later && is_in_line && (is_handed && how == How::First || is_passed) {
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
    fn find<'a>(&self, in_line: &'a [InLine]) -> Option<&'a InLine> {
        in_line.iter().find(|seen| (seen.client, seen.ticket) == (self.who.0, self.ticket))
    }
}

/// By then all nodes know of one who came.
const ARRIVES_WITHIN: Nanos = 100 * MS;

/// A lock that is handed on may have run out on other nodes.
const OVERTAKEN_MAX: u32 = 2;
