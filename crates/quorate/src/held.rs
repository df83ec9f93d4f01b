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
    quorum::NodeSet,
    terms::Terms,
};

use crate::{
    engine::{Claim, Engine, Fenced},
    error::Lost,
    guard::Won,
    handover::LeaseHandover,
    keeper::Renewal,
};

/// One held lease.
pub(crate) struct Held {
    /// The keeper's number for it.
    pub(crate) number: u64,
    pub(crate) name: Name,
    pub(crate) owner: Owner,
    pub(crate) acquired_at: Moment,
    /// From when on the nodes count the first ttl.
    pub(crate) granted_at: Moment,
    /// Absent in classic mode.
    pub(crate) fenced: Option<Fenced>,
    pub(crate) renewal: Renewal,
    /// Nodes to which the owner was never sent.
    untaken: NodeSet,
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
    /// The loss was told.
    is_loss_told: bool,
    /// An extension was sent.
    pub(crate) is_extended: bool,
    /// It was given back or left: no extension may follow.
    is_over: bool,
}

impl Held {
    pub(crate) fn new(number: u64, won: Won, lease: Lease) -> Self {
        let hand = Hand {
            lease,
            terms: won.terms,
            longest: won.terms,
            watchers: Watchers::default(),
            is_loss_told: false,
            is_extended: false,
            is_over: false,
        };
        Self {
            number,
            name: won.name,
            owner: won.owner,
            acquired_at: won.acquired_at,
            granted_at: won.granted_at,
            fenced: won.fenced,
            renewal: won.hold.renewal,
            untaken: won.untaken,
            hand: Mutex::new(hand),
        }
    }

    /// What a round about this lease is about.
    pub(crate) fn claim(&self, terms: Terms) -> Claim {
        let (name, owner) = (self.name.clone(), self.owner.clone());
        // An extension may have made the key anew where it never was.
        let is_spread = self.fenced.is_some() && self.hand().is_extended;
        let untaken = if is_spread { NodeSet::EMPTY } else { self.untaken };
        Claim { name, owner, terms, from: None, untaken, fenced: self.fenced }
    }

    /// The lease, for another process that goes on as this owner.
    pub(crate) fn handover(&self, owner: Owner) -> LeaseHandover {
        let (ttl, fence) = (self.hand().terms.ttl(), self.fenced.map(|fenced| fenced.fence));
        LeaseHandover::new(self.name.clone(), owner, ttl, fence)
    }

    /// The lease is given back or left to another. Every extension is queued on all nodes by then,
    /// or never leaves: one that came after the release would take the key again for nobody.
    pub(crate) fn retire(&self, engine: &Engine) {
        let _order = engine.extending.lock().unwrap_or_else(PoisonError::into_inner);
        self.hand().is_over = true;
    }

    /// Says whether the holder may act at `now`. Whoever was told that it may not is never told
    /// that it may again.
    pub(crate) fn check(&self, now: Moment) -> Result<(), Lost> {
        let mut hand = self.hand();
        let checked = hand.lease.check(now);
        if let Err(reason) = checked {
            hand.lease.handle_lost(reason);
        }
        checked.map_err(Lost::new)
    }

    pub(crate) fn remaining(&self, now: Moment) -> Duration {
        match self.check(now) {
            Ok(()) => self.hand().lease.remaining(now),
            Err(_) => Duration::ZERO,
        }
    }

    /// The lease is gone: tells everybody who watches. Returns the reason, and whether it is news.
    pub(crate) fn lose(&self, reason: LostReason) -> (Lost, bool) {
        let mut hand = self.hand();
        let is_news = !std::mem::replace(&mut hand.is_loss_told, true);
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

impl Hand {
    /// Says whether an extension may leave at `now`; the order of extensions must be held.
    ///
    /// # Errors
    ///
    /// The reason for which the lease ended.
    pub(crate) fn check_extension(&self, now: Moment) -> Result<(), LostReason> {
        match self.is_over {
            true => Err(LostReason::ShutDown),
            false => self.lease.check(now),
        }
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
