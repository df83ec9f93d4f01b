//! How a permit is found: trying, asking for holders, and waiting for all permits.

use std::{future::poll_fn, task::Poll};

use quorate_core::{backoff::Backoff, moment::Moment};

use super::{MISSED_DELAY_MAX, MISSED_DELAY_MIN, Mutex, Seen, Semaphore, below, holders};
use crate::{
    error::LockError,
    primitive::{acquire::Got, guard::Guard},
};

impl Semaphore {
    /// Tries a permit at random, then those that look free.
    pub(super) async fn try_any(
        &self,
        misses_max: usize,
        deadline: Option<Moment>,
    ) -> Result<Seen, LockError> {
        let slots = &self.parts()?.slots;
        let slot = &slots[self.client.engine.draw(|jitter| below(jitter, slots.len()))];
        match self.part(slot.clone(), self.hold).try_once(deadline).await? {
            Got::Held(guard) => Ok(Seen::Got(guard)),
            Got::Contended => self.try_free(misses_max, deadline).await,
            Got::Silence(nodes) => Ok(Seen::Silence(nodes)),
        }
    }

    /// Tries permits that look free, and again if others tried them at the same moment: the first
    /// waiter briefly holds all free permits, so it is better not to be queued.
    pub(super) async fn try_free(
        &self,
        misses_max: usize,
        deadline: Option<Moment>,
    ) -> Result<Seen, LockError> {
        let engine = &self.client.engine;
        let mut backoff = Backoff::new(MISSED_DELAY_MIN, MISSED_DELAY_MAX);
        for missed in 1.. {
            let asked_at = engine.now();
            match self.try_each(deadline).await? {
                Seen::Missed => {}
                seen @ (Seen::Got(_) | Seen::Taken(_) | Seen::Silence(_)) => return Ok(seen),
            }
            let now = engine.now();
            if missed >= misses_max || deadline.is_some_and(|deadline| now >= deadline) {
                break;
            }
            // Callers that have split the votes must not do so again.
            let took = now.saturating_since(asked_at);
            let next = now.saturating_add(took + engine.draw(|jitter| backoff.next(jitter)));
            engine.sleep_until(deadline.map_or(next, |deadline| next.min(deadline))).await;
        }
        Ok(Seen::Missed)
    }

    /// Tries the permits that look free, one after another: a caller that tries several at once
    /// briefly holds permits that others could have.
    pub(super) async fn try_each(&self, deadline: Option<Moment>) -> Result<Seen, LockError> {
        let (engine, slots) = (&self.client.engine, &self.parts()?.slots);
        // After a shutdown nodes may still answer, but timers no longer wait.
        if self.client.is_closed() {
            return Err(LockError::ShutDown);
        }
        let holders = holders(engine, slots, self.patience(deadline)).await;
        let free = slots.iter().zip(&holders).filter(|(_, holder)| holder.is_none());
        let free = self.shuffled(free.map(|(slot, _)| slot.clone()).collect());
        if free.is_empty() {
            return Ok(Seen::Taken(holders));
        }
        for slot in free {
            match self.part(slot, self.hold).try_once(deadline).await? {
                Got::Held(guard) => return Ok(Seen::Got(guard)),
                Got::Contended => {}
                Got::Silence(nodes) => return Ok(Seen::Silence(nodes)),
            }
            if deadline.is_some_and(|deadline| engine.now() >= deadline) {
                break;
            }
        }
        Ok(Seen::Missed)
    }

    /// Waits for all permits until it gets one of them; `None` at the deadline.
    pub(super) async fn wait_for_any(
        &self,
        deadline: Option<Moment>,
    ) -> Result<Option<Guard>, LockError> {
        let slots = self.shuffled(self.parts()?.slots.to_vec());
        let slots: Vec<Mutex> = slots.into_iter().map(|slot| self.part(slot, self.hold)).collect();
        let mut waits: Vec<_> =
            slots.iter().map(|slot| Box::pin(slot.wait_until(deadline))).collect();
        // Dropping a wait leaves its queue and releases what it acquired meanwhile.
        poll_fn(|cx| {
            let mut failed = None;
            let mut got = None;
            waits.retain_mut(|wait| {
                if got.is_some() {
                    return true;
                }
                match wait.as_mut().poll(cx).map(|won| won.and_then(Got::into_guard)) {
                    Poll::Pending => return true,
                    Poll::Ready(Ok(guard)) => got = guard,
                    Poll::Ready(Err(error)) => failed = Some(error),
                }
                false
            });
            match (got, failed) {
                (Some(guard), _) => Poll::Ready(Ok(Some(guard))),
                (None, Some(error)) => Poll::Ready(Err(error)),
                (None, None) if waits.is_empty() => Poll::Ready(Ok(None)),
                (None, None) => Poll::Pending,
            }
        })
        .await
    }
}
