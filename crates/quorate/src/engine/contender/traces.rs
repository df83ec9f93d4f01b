//! Whether nodes know a holder by more than its keys.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Poll, Waker},
};

use quorate_core::moment::Moment;

use super::Contender;
use crate::engine::Sleep;

impl Contender {
    /// Waits until every node has answered, or until `until`. Returns whether nodes know the owner
    /// by its keys alone.
    pub(crate) async fn has_left_only_keys(&self, until: Moment) -> bool {
        let mut sleep = Sleep::until(&self.engine, until);
        poll_fn(|cx| match self.poll_traces(cx.waker()) {
            Poll::Ready(are_none) => Poll::Ready(are_none),
            Poll::Pending => Pin::new(&mut sleep).poll(cx).map(|()| false),
        })
        .await
    }

    fn poll_traces(&self, waker: &Waker) -> Poll<bool> {
        let mut state = self.lock();
        if !state.waiter.machine().traces().are_settled() {
            state.waker = Some(waker.clone());
            return Poll::Pending;
        }
        Poll::Ready(state.waiter.machine().traces().are_none())
    }
}
