//! Waits for a permit: in the queue of `NAME#queue`, and as its first for all permits.

use std::time::Duration;

use quorate_core::{client::watchdog::Renewal, moment::Moment, quorum::majority};

use super::{Seen, Semaphore, holders::holders};
use crate::{
    engine::{held::Hold, survey},
    error::{LockError, NodeAnswer, NodeError, NodeReport},
    primitive::guard::Guard,
};

impl Semaphore {
    pub(super) async fn wait(&self, wait: Option<Duration>) -> Result<Guard, LockError> {
        let engine = &self.client.engine;
        let started = engine.now();
        let deadline = wait.map(|wait| started.saturating_add(wait));
        let is_over = || deadline.is_some_and(|deadline| engine.now() >= deadline);
        match self.try_any(MISSES_BEFORE_QUEUE, deadline).await? {
            Seen::Got(guard) => return Ok(guard),
            Seen::Taken(_) | Seen::Missed if is_over() => return Err(self.timeout(started).await),
            Seen::Silence(silence) if is_over() => return Err(silence.into()),
            Seen::Taken(_) | Seen::Missed | Seen::Silence(_) => {}
        }
        // Others would wait forever behind a first waiter that is not renewed. If it is lost
        // anyway, there are two first waiters, and each permit still goes to one of them.
        let hold = Hold { renewal: Renewal::On, max: None };
        let queue = self.queue(hold)?;
        let Some(place) = queue.wait_until(deadline).await?.into_guard()? else {
            return Err(self.timeout(started).await);
        };
        let got = loop {
            let got = self.wait_for_any(deadline).await;
            // A full server keeps the first waiter, and queues no others before it has memory
            // again.
            match &got {
                Err(error) if deadline.is_none() && is_full(error) && place.check().is_ok() => {}
                Ok(_) | Err(_) => break got,
            }
        };
        // Not earlier: the next waiter must find no other waiter when it asks for the permits.
        drop(place);
        match got? {
            Some(guard) => Ok(guard),
            None => Err(self.timeout(started).await),
        }
    }

    pub(super) async fn timeout(&self, started: Moment) -> LockError {
        let engine = &self.client.engine;
        let waited = engine.now().saturating_since(started);
        let slots = match self.parts() {
            Ok(parts) => &parts.slots,
            Err(error) => return error,
        };
        let patience = self.patience(None);
        let holders = holders(engine, slots, patience).await;
        let held = slots.iter().zip(&holders).filter(|(_, holder)| holder.is_some());
        let mut holder = None;
        // A permit that was held a moment ago may be free by now: it may be our own.
        for (slot, _) in held.take(SHOWN_TRIES_MAX) {
            holder = survey(engine, slot, patience).await;
            if holder.is_some() {
                break;
            }
        }
        LockError::Timeout { lock: self.name.to_string(), waited, holder: holder.map(Box::new) }
    }
}

/// True if too many nodes lack memory for a majority.
pub(super) fn is_full(error: &LockError) -> bool {
    let LockError::NoQuorum { nodes, .. } = error else { return false };
    let is_full = |it: &&NodeReport| it.answer == NodeAnswer::NodeError(NodeError::OutOfMemory);
    let full = nodes.iter().filter(is_full).count();
    nodes.len() - full < majority(nodes.len())
}

/// How often a waiter tries permits that others try too before it is queued: later callers must not
/// pass it meanwhile.
const MISSES_BEFORE_QUEUE: usize = 2;

/// For how many permits the holder is asked, until one is known.
const SHOWN_TRIES_MAX: usize = 16;
