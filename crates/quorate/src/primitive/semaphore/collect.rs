//! How several permits are acquired: together if they are free, or one after the other by the
//! first in the queue.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use quorate_core::{client::watchdog::Renewal, moment::Moment};

use super::{Seen, Semaphore, holders, wait::is_full};
use crate::{
    engine::held::{Hold, Loss},
    error::LockError,
    primitive::{acquire::Got, guard::Guard, join::join, mutex::Mutex},
};

impl Semaphore {
    /// Acquires `wanted` permits that look free. If others try the same ones, all are released.
    pub(super) async fn try_several(
        &self,
        wanted: usize,
        deadline: Option<Moment>,
    ) -> Result<Seen<Vec<Guard>>, LockError> {
        let (engine, slots) = (&self.client.engine, &self.parts()?.slots);
        // After a shutdown nodes may still answer, but timers no longer wait.
        if self.client.is_closed() {
            return Err(LockError::ShutDown);
        }
        // It asks for the holders first, even if most permits are free: a caller that tries without
        // asking holds permits that it has to release again, and others miss them meanwhile.
        let holders = holders(engine, slots, self.patience(deadline)).await;
        let is_free = |slot: &usize| holders[*slot].is_none();
        let mut free: Vec<usize> = (0..slots.len()).filter(is_free).collect();
        if free.len() < wanted {
            return Ok(Seen::Taken(holders));
        }
        self.shuffle(&mut free);
        let mut got = Vec::with_capacity(wanted);
        while got.len() < wanted && got.len() + free.len() >= wanted {
            let next = free.split_off(got.len() + free.len() - wanted);
            let tries = next.iter().map(async |slot| {
                self.part(slots[*slot].clone(), self.hold).try_once(deadline).await
            });
            for (slot, tried) in next.iter().zip(join(tries).await) {
                match tried? {
                    Got::Held(guard) => got.push((*slot, guard)),
                    Got::Contended => {}
                    Got::Silence(nodes) => return Ok(Seen::Silence(nodes)),
                }
            }
            if deadline.is_some_and(|deadline| engine.now() >= deadline) {
                break;
            }
        }
        // The task may not have run until now.
        if got.len() < wanted || got.iter().any(|(_, guard)| guard.check().is_err()) {
            return Ok(Seen::Missed);
        }
        Ok(Seen::Got(sorted(got)))
    }
}

/// A caller that waits for several permits. Only the first in the queue keeps permits while it
/// waits for more. Two callers that did so could wait for each other forever.
pub(super) struct Collecting<'a> {
    semaphore: &'a Semaphore,
    wanted: usize,
    deadline: Option<Moment>,
    /// The lock of each permit.
    slots: Vec<Mutex>,
    /// The lock of the first in the queue.
    queue: Mutex,
}

impl<'a> Collecting<'a> {
    pub(super) fn new(
        semaphore: &'a Semaphore,
        wanted: usize,
        deadline: Option<Moment>,
    ) -> Result<Self, LockError> {
        // A permit must last until there are enough, however it is held then. The lock of the queue
        // is renewed for the same reason as in `wait`.
        let hold = Hold { renewal: Renewal::On, max: None };
        let parts = semaphore.parts()?;
        let part = |name: &_| semaphore.part(Clone::clone(name), hold);
        let (slots, queue) = (parts.slots.iter().map(part).collect(), semaphore.queue(hold)?);
        Ok(Self { semaphore, wanted, deadline, slots, queue })
    }

    /// The permits; `None` at the deadline. Dropping the future releases everything.
    pub(super) async fn run(&self) -> Result<Option<Vec<Guard>>, LockError> {
        loop {
            let Some(place) = self.queue.wait_until(self.deadline).await?.into_guard()? else {
                return Ok(None);
            };
            // Dropped before the place: the next waiter must find no other waiter when it asks for
            // the permits.
            match self.run_as_first(&place).await? {
                Ended::Complete(guards) => return Ok(Some(guards)),
                Ended::Late => return Ok(None),
                // Another waiter may be the first by now. Release the permits and wait again.
                Ended::Overtaken => {}
            }
        }
    }

    async fn run_as_first(&self, place: &Guard) -> Result<Ended, LockError> {
        let mut kept = Vec::with_capacity(self.wanted);
        loop {
            let collected = match self.collect(place, &mut kept).await {
                // As with one permit: a full server keeps the first waiter, and queues no others
                // before it has memory again.
                Err(error)
                    if self.deadline.is_none() && is_full(&error) && place.check().is_ok() =>
                {
                    continue;
                }
                collected => collected?,
            };
            match collected {
                Collected::Enough => {}
                Collected::Late => return Ok(Ended::Late),
                Collected::Overtaken => return Ok(Ended::Overtaken),
            }
            if !self.make_whole(&kept).await {
                return Ok(Ended::Late);
            }
            // A permit may have been lost meanwhile.
            kept.retain(|kept| kept.guard.check().is_ok());
            if kept.len() == self.wanted {
                let hold = self.semaphore.hold;
                kept.iter().for_each(|kept| kept.guard.set_hold(hold));
                let kept = kept.into_iter().map(|kept| (kept.slot, kept.guard)).collect();
                return Ok(Ended::Complete(sorted(kept)));
            }
        }
    }

    /// Waits for all permits, and keeps what it gets until it has enough.
    async fn collect(&self, place: &Guard, kept: &mut Vec<Kept>) -> Result<Collected, LockError> {
        let mut missing: Vec<usize> = (0..self.slots.len()).collect();
        missing.retain(|slot| kept.iter().all(|kept| kept.slot != *slot));
        self.semaphore.shuffle(&mut missing);
        let wait = |slot: usize| (slot, Box::pin(self.slots[slot].wait_until(self.deadline)));
        let mut waits: Vec<_> = missing.into_iter().map(wait).collect();
        let mut overtaken = pin!(place.loss());
        poll_fn(|cx| {
            if overtaken.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(Collected::Overtaken));
            }
            loop {
                let mut failed = None;
                waits.retain_mut(|(slot, wait)| {
                    if kept.len() >= self.wanted || failed.is_some() {
                        return true;
                    }
                    match wait.as_mut().poll(cx).map(|won| won.and_then(Got::into_guard)) {
                        Poll::Pending => return true,
                        Poll::Ready(Ok(guard)) => {
                            kept.extend(guard.map(|guard| Kept::new(*slot, guard)));
                        }
                        Poll::Ready(Err(error)) => failed = Some(error),
                    }
                    false
                });
                if let Some(error) = failed {
                    return Poll::Ready(Err(error));
                }
                let lost: Vec<usize> = kept.iter_mut().filter_map(|it| it.lost(cx)).collect();
                if lost.is_empty() {
                    break;
                }
                kept.retain(|kept| !lost.contains(&kept.slot));
                waits.extend(lost.into_iter().map(wait));
            }
            if kept.len() >= self.wanted {
                return Poll::Ready(Ok(Collected::Enough));
            }
            match kept.len() + waits.len() < self.wanted {
                true => Poll::Ready(Ok(Collected::Late)),
                false => Poll::Pending,
            }
        })
        .await
    }

    /// Leases that are not renewed begin when all permits are held. False at the deadline.
    async fn make_whole(&self, kept: &[Kept]) -> bool {
        let semaphore = self.semaphore;
        if semaphore.hold.renewal == Renewal::On {
            return true;
        }
        // A lease that cannot be extended is lost in the end, which the caller checks next.
        let mut extended = pin!(join(kept.iter().map(|it| it.guard.extend(semaphore.ttl))));
        let never = Moment::from_nanos(u64::MAX);
        let deadline = self.deadline.unwrap_or(never);
        let mut late = pin!(semaphore.client.engine.sleep_until(deadline));
        poll_fn(|cx| match extended.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending => late.as_mut().poll(cx).map(|()| false),
        })
        .await
    }
}

/// A permit that is held while others are missing.
struct Kept {
    slot: usize,
    loss: Loss,
    guard: Guard,
}

impl Kept {
    fn new(slot: usize, guard: Guard) -> Self {
        Self { slot, loss: guard.loss(), guard }
    }

    /// Its slot, if it is lost.
    fn lost(&mut self, cx: &mut Context<'_>) -> Option<usize> {
        Pin::new(&mut self.loss).poll(cx).is_ready().then_some(self.slot)
    }
}

/// How a wait for several permits ends.
enum Ended {
    Complete(Vec<Guard>),
    /// The deadline has passed.
    Late,
    /// It is no longer the first waiter.
    Overtaken,
}

enum Collected {
    Enough,
    Late,
    Overtaken,
}

/// In the order of the permits' numbers.
fn sorted(mut guards: Vec<(usize, Guard)>) -> Vec<Guard> {
    guards.sort_unstable_by_key(|(slot, _)| *slot);
    guards.into_iter().map(|(_, guard)| guard).collect()
}
