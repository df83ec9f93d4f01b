//! A lease as its guard sees it. The guard, the watchdog and the tasks that wait for the loss share
//! it.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use quorate_core::{
    client::watchdog::{HeldLease, LeaseId, Renewal},
    command::Owner,
    lease::LostReason,
    moment::Moment,
    name::Name,
    queue::FencedLease,
};

use super::Engine;
use crate::{error::Lost, observe::LockKind};

/// The part of a lease that a guard reads without the engine's mutex.
pub(crate) struct Held {
    pub(crate) id: LeaseId,
    pub(crate) name: Name,
    pub(crate) kind: LockKind,
    pub(crate) owner: Owner,
    pub(crate) acquired_at: Moment,
    /// Absent in classic mode.
    pub(crate) fenced: Option<FencedLease>,
    /// Before this moment the lease is valid. Written under the engine's mutex.
    valid_until: AtomicU64,
    lost: OnceLock<LostReason>,
    /// Present once a task waits for the loss.
    watchers: Mutex<Option<Box<Watchers>>>,
}

impl Held {
    pub(crate) fn new(id: LeaseId, held: &HeldLease, kind: LockKind, acquired_at: Moment) -> Self {
        Self {
            id,
            name: held.name().clone(),
            kind,
            owner: held.owner().clone(),
            acquired_at,
            fenced: held.fenced(),
            valid_until: AtomicU64::new(held.lease().valid_until().as_nanos()),
            lost: OnceLock::new(),
            watchers: Mutex::default(),
        }
    }

    /// Checks whether the holder may act at `now`. A lost lease stays lost.
    pub(crate) fn check(&self, engine: &Engine, now: Moment) -> Result<(), Lost> {
        if now < self.valid_until() {
            return Ok(());
        }
        // The lease may have been extended since the deadline was read.
        engine.lock().check(self, now).map_err(|reason| Lost::new(&self.name, reason))
    }

    pub(crate) fn remaining(&self, engine: &Engine, now: Moment) -> Duration {
        match self.check(engine, now) {
            Ok(()) => self.valid_until().saturating_since(now),
            Err(_) => Duration::ZERO,
        }
    }

    /// When the lease ends. Zero once it is lost.
    pub(crate) fn valid_until(&self) -> Moment {
        Moment::from_nanos(self.valid_until.load(Ordering::Acquire))
    }

    /// Sets the end of the lease. The caller holds the engine's mutex.
    pub(crate) fn set_valid_until(&self, until: Moment) {
        if self.lost.get().is_none() {
            self.valid_until.store(until.as_nanos(), Ordering::Release);
        }
    }

    /// Marks the lease as lost. The first reason stays. The caller holds the engine's mutex.
    pub(crate) fn set_lost(&self, reason: LostReason) {
        // Before the reason is set: a task that sees the reason must not find the lease valid.
        self.valid_until.store(0, Ordering::Release);
        self.lost.get_or_init(|| reason);
    }

    pub(crate) fn check_deadline(&self, now: Moment) -> Result<(), LostReason> {
        match self.lost.get() {
            Some(reason) => Err(*reason),
            None if now < self.valid_until() => Ok(()),
            None => Err(LostReason::Expired),
        }
    }

    /// Wakes all tasks that wait for the loss.
    pub(crate) fn wake(&self) {
        let watchers = self.watchers().take();
        let waiting = watchers.map(|watchers| watchers.waiting).unwrap_or_default();
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn watchers(&self) -> MutexGuard<'_, Option<Box<Watchers>>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How long a lock is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) renewal: Renewal,
    /// `None` if there is no limit.
    pub(crate) max: Option<Duration>,
}

impl Hold {
    pub(crate) fn until(self, sent_at: Moment) -> Moment {
        self.max.map_or(Moment::from_nanos(u64::MAX), |max| sent_at.saturating_add(max))
    }
}

/// The tasks that wait for the loss.
#[derive(Default)]
struct Watchers {
    next: u64,
    waiting: Vec<(u64, Waker)>,
}

/// Completes when the lease is lost.
///
/// The watchdog completes it at the local deadline at the latest, even if no node replies.
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
        let mut guard = self.held.watchers();
        // Read under the watchers' mutex: the loss is set before the watchers are taken.
        if let Some(reason) = self.held.lost.get() {
            return Poll::Ready(Lost::new(&self.held.name, *reason));
        }
        let watchers = guard.get_or_insert_default();
        match watchers.waiting.iter_mut().find(|(known, _)| Some(*known) == key) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => {
                let key = watchers.next;
                watchers.next += 1;
                watchers.waiting.push((key, cx.waker().clone()));
                drop(guard);
                self.key = Some(key);
            }
        }
        Poll::Pending
    }
}

impl Drop for Loss {
    fn drop(&mut self) {
        if let Some(key) = self.key
            && let Some(watchers) = &mut *self.held.watchers()
        {
            watchers.waiting.retain(|(known, _)| *known != key);
        }
    }
}
