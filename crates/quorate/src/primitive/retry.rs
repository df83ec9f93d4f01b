//! Waiting in classic mode: asking again after random times.

use std::{ops::ControlFlow, time::Duration};

use quorate_core::{backoff::Backoff, moment::Moment};

use crate::{
    engine::{Engine, Sleep},
    error::{LockError, NodeAnswer, NodeReport, Trouble},
    guard::Guard,
    observe::Event,
    primitive::mutex::Tried,
};

/// One call that waits by trying again and again.
pub(super) struct Retry<'a> {
    engine: &'a Engine,
    name: &'a str,
    ttl: Duration,
    deadline: Option<Moment>,
    asked_at: Moment,
    backoff: Backoff,
    silent_since: Option<Moment>,
    waiting: Option<Waiting<'a>>,
}

impl<'a> Retry<'a> {
    /// Without a deadline it gives up if no majority answers for a whole `ttl`.
    pub(super) fn start(
        engine: &'a Engine,
        name: &'a str,
        ttl: Duration,
        deadline: Option<Moment>,
    ) -> Self {
        let backoff = Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX);
        let (asked_at, silent_since, waiting) = (engine.now(), None, None);
        Self { engine, name, ttl, deadline, asked_at, backoff, silent_since, waiting }
    }

    /// Goes on when it is time to try again. It is over with what was won, or with nothing if
    /// another has it at the deadline.
    pub(super) async fn handle(
        &mut self,
        tried: Tried,
    ) -> Result<ControlFlow<Option<Guard>>, LockError> {
        let (engine, asked_at, deadline) = (self.engine, self.asked_at, self.deadline);
        let now = engine.now();
        let is_over = deadline.is_some_and(|deadline| now >= deadline);
        match tried {
            Tried::Held(guard) => return Ok(ControlFlow::Break(Some(guard))),
            Tried::Contended if is_over => return Ok(ControlFlow::Break(None)),
            Tried::Contended => self.silent_since = None,
            Tried::Silence(nodes) => {
                let since = *self.silent_since.get_or_insert(asked_at);
                let patience = deadline.map_or(self.ttl, |_| Duration::MAX);
                let is_in_vain = now.saturating_since(since) >= patience;
                if is_over || is_in_vain && !is_guarded(&engine.reports()) {
                    return Err(LockError::NoQuorum { nodes });
                }
            }
        }
        self.waiting.get_or_insert_with(|| Waiting::start(engine, self.name, now));
        // At least as long as it takes to ask a majority, so that contenders do not split the
        // vote for ever.
        let delay = now.saturating_since(asked_at) + engine.draw(|j| self.backoff.next(j));
        let next = now.saturating_add(delay);
        Sleep::until(engine, deadline.map_or(next, |deadline| next.min(deadline))).await;
        self.asked_at = engine.now();
        Ok(ControlFlow::Continue(()))
    }
}

/// True if there will be a majority when the restart guard is over: whoever waits waits for that.
pub(super) fn is_guarded(nodes: &[NodeReport]) -> bool {
    let is_guarded = |report: &&NodeReport| {
        matches!(&report.answer, NodeAnswer::Trouble(Trouble::Guarded { .. }))
    };
    let guarded = nodes.iter().filter(is_guarded).count();
    let attached = nodes.iter().filter(|report| report.answer == NodeAnswer::Attached).count();
    guarded > 0 && guarded + attached >= quorate_core::quorum::majority(nodes.len())
}

/// Tells the observer that a call waits, and when it does no longer.
struct Waiting<'a> {
    engine: &'a Engine,
    name: &'a str,
    since: Moment,
}

impl<'a> Waiting<'a> {
    fn start(engine: &'a Engine, name: &'a str, since: Moment) -> Self {
        engine.tell(&Event::WaitStarted { name });
        Self { engine, name, since }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited = self.engine.now().saturating_since(self.since);
        self.engine.tell(&Event::WaitEnded { name: self.name, waited });
    }
}

const RETRY_DELAY_MIN: Duration = Duration::from_millis(4);
const RETRY_DELAY_MAX: Duration = Duration::from_millis(100);
