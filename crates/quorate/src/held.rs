//! A held lease, shared by its guard, the keeper, and those who watch for its loss.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use quorate_core::{
    command::Owner,
    lease::{Lease, LostReason},
    moment::Moment,
    name::Name,
    terms::Terms,
};

use crate::error::Lost;

/// One held lease.
pub(crate) struct Held {
    /// The keeper's number for it.
    pub(crate) number: u64,
    pub(crate) name: Name,
    pub(crate) owner: Owner,
    pub(crate) acquired_at: Moment,
    hand: Mutex<Hand>,
}

/// What changes while the lock is held.
pub(crate) struct Hand {
    pub(crate) lease: Lease,
    /// What it is renewed with.
    pub(crate) terms: Terms,
    /// The terms of the longest life that any node may have given the key.
    pub(crate) longest: Terms,
    watchers: Watchers,
}

impl Held {
    pub(crate) fn new(
        number: u64,
        name: Name,
        owner: Owner,
        terms: Terms,
        acquired_at: Moment,
        lease: Lease,
    ) -> Self {
        let hand = Hand { lease, terms, longest: terms, watchers: Watchers::default() };
        Self { number, name, owner, acquired_at, hand: Mutex::new(hand) }
    }

    pub(crate) fn check(&self, now: Moment) -> Result<(), Lost> {
        self.hand().lease.check(now).map_err(Lost::new)
    }

    pub(crate) fn remaining(&self, now: Moment) -> Duration {
        self.hand().lease.remaining(now)
    }

    /// The lease is gone: tells everybody who watches. Returns the reason, and whether it is news.
    pub(crate) fn lose(&self, reason: LostReason) -> (Lost, bool) {
        let mut hand = self.hand();
        let is_news = hand.lease.lost().is_none();
        hand.lease.handle_lost(reason);
        let lost = Lost::new(hand.lease.lost().unwrap_or(reason));
        let watchers = std::mem::take(&mut hand.watchers.waiting);
        drop(hand);
        watchers.into_iter().for_each(|(_, waker)| waker.wake());
        (lost, is_news)
    }

    pub(crate) fn hand(&self) -> MutexGuard<'_, Hand> {
        self.hand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Those who wait for the loss.
#[derive(Default)]
struct Watchers {
    next: u64,
    waiting: Vec<(u64, Waker)>,
}

/// Completes when the lease is lost.
///
/// The keeper completes it at the local deadline, whatever the nodes do or do not say.
#[derive(Debug)]
pub(crate) struct Loss {
    held: Arc<Held>,
    key: Option<u64>,
}

impl Loss {
    pub(crate) const fn of(held: Arc<Held>) -> Self {
        Self { held, key: None }
    }
}

impl Future for Loss {
    type Output = Lost;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Lost> {
        let key = self.key;
        let mut hand = self.held.hand();
        if let Some(reason) = hand.lease.lost() {
            return Poll::Ready(Lost::new(reason));
        }
        let watchers = &mut hand.watchers;
        match watchers.waiting.iter_mut().find(|(known, _)| Some(*known) == key) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => {
                let key = watchers.next;
                watchers.next += 1;
                watchers.waiting.push((key, cx.waker().clone()));
                drop(hand);
                self.key = Some(key);
            }
        }
        Poll::Pending
    }
}

impl Drop for Loss {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.held.hand().watchers.waiting.retain(|(known, _)| *known != key);
        }
    }
}
