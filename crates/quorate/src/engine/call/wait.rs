//! Waiting for the outcome of a call and for later replies.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Poll, Waker, ready},
};

use quorate_core::{
    client::{self, Ended, watchdog::LeaseId},
    moment::Moment,
    round::{RoundKind, RoundOutcome},
    terms::Terms,
};

use super::{Call, Late, Progress, first_replies_timeout};
use crate::{engine::names::Names, timers::FOREVER};

impl Call {
    /// Waits for the outcome.
    pub(crate) async fn outcome(&self) -> Ended {
        poll_fn(|cx| self.poll_outcome(cx.waker())).await
    }

    /// Waits for the outcome; `None` if the deadline comes first.
    ///
    /// Even a caller without any time waits for the first replies, up to the vote timeout. So it
    /// gets a lock that is free.
    ///
    /// An async function would need more room, and there may be many waiters.
    pub(crate) fn outcome_until(
        &self,
        deadline: Option<Moment>,
    ) -> impl Future<Output = Option<Ended>> {
        let mut sleep = deadline.map(|at| self.engine.sleep_until(at));
        let mut is_late = false;
        poll_fn(move |cx| {
            let engine = &self.engine;
            if let Poll::Ready(ended) = self.poll_outcome(cx.waker()) {
                return Poll::Ready(Some(ended));
            }
            loop {
                let Some(sleep) = &mut sleep else { return Poll::Pending };
                if is_late && !self.is_pending() {
                    return Poll::Ready(self.give_up());
                }
                ready!(Pin::new(&mut *sleep).poll(cx));
                let replies_by = self.first_replies_by();
                if is_late || engine.now() >= replies_by || replies_by == FOREVER {
                    return Poll::Ready(self.give_up());
                }
                is_late = true;
                *sleep = engine.sleep_until(replies_by);
            }
        })
    }

    /// Records that the caller's time has run out.
    fn give_up(&self) -> Option<Ended> {
        let late = if self.is_short() { Late::Short } else { Late::Busy };
        if let Some(record) = self.engine.lock().calls.get_mut(&self.id) {
            record.late = Some(late);
        }
        None
    }

    fn poll_outcome(&self, waker: &Waker) -> Poll<Ended> {
        let mut shared = self.engine.lock();
        if let Some(ended) = shared.machine.take_outcome(self.id) {
            self.set_progress(Progress::Taken);
            if matches!(ended, Ended::Round(RoundKind::Release, RoundOutcome::Agreed)) {
                // There is nothing to report.
                self.close(&mut shared);
            }
            return Poll::Ready(ended);
        }
        let before = shared.listen(self.id, waker);
        drop(shared);
        // Dropping a waker runs code of others, so it happens without the mutex.
        drop(before);
        Poll::Pending
    }

    /// Waits until every node has answered or the vote timeout has passed.
    pub(crate) async fn settled(&self, terms: Terms) {
        let mut sleep = self.engine.sleep_until(terms.give_up_at(self.started_at));
        poll_fn(|cx| {
            let is_settled = |machine: &client::Client<Names>| {
                machine.call(self.id).is_none_or(|call| !call.is_open()).then_some(())
            };
            match self.poll_until(cx.waker(), is_settled) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => Pin::new(&mut sleep).poll(cx),
            }
        })
        .await;
    }

    /// Waits until every node has answered, or until `until`. Returns whether the nodes know the
    /// owner of the lease only by its keys, and not as a waiter.
    pub(crate) async fn has_left_only_keys(&self, lease: LeaseId, until: Moment) -> bool {
        let mut sleep = self.engine.sleep_until(until);
        poll_fn(|cx| {
            match self.poll_until(cx.waker(), |machine| machine.has_only_keys(lease, self.id)) {
                Poll::Ready(has_only_keys) => Poll::Ready(has_only_keys),
                Poll::Pending => Pin::new(&mut sleep).poll(cx).map(|()| false),
            }
        })
        .await
    }

    /// Waits for something that replies after the outcome may bring.
    fn poll_until<T>(
        &self,
        waker: &Waker,
        read: impl FnOnce(&client::Client<Names>) -> Option<T>,
    ) -> Poll<T> {
        let mut shared = self.engine.lock();
        if let Some(seen) = read(&shared.machine) {
            return Poll::Ready(seen);
        }
        let before = shared.listen(self.id, waker);
        if let Some(record) = shared.calls.get_mut(&self.id) {
            record.wakes_at_replies = true;
        }
        drop(shared);
        drop(before);
        Poll::Pending
    }

    /// Whether a node has not answered the last request of an acquire. From now on every reply
    /// wakes the caller.
    fn is_pending(&self) -> bool {
        let mut shared = self.engine.lock();
        if let Some(record) = shared.calls.get_mut(&self.id) {
            record.wakes_at_replies = true;
        }
        let waiter = shared.machine.call(self.id).and_then(client::Call::waiter);
        waiter.is_some_and(|waiter| waiter.machine().is_pending())
    }

    /// Until when a caller without time waits for the first replies: the usual vote timeout, even
    /// if a longer one is configured.
    fn first_replies_by(&self) -> Moment {
        let shared = self.engine.lock();
        let waiter = shared.machine.call(self.id).and_then(client::Call::waiter);
        let Some(terms) = waiter.map(|waiter| waiter.want().terms) else { return self.started_at };
        self.started_at.saturating_add(first_replies_timeout(&self.engine, terms))
    }
}
