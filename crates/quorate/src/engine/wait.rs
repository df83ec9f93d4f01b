//! Waiting for a lock until a deadline.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Poll, ready},
};

use quorate_core::moment::Moment;

use super::{
    Contender,
    contender::Ended,
    timers::{FOREVER, Sleep},
};

/// Waits for the outcome; `None` if the deadline comes first.
///
/// Even one who has no time at all waits for the first answers, for as long as a silent node is
/// waited for: a lock that is free is had.
pub(super) async fn until(contender: &Arc<Contender>, deadline: Option<Moment>) -> Option<Ended> {
    let engine = contender.engine();
    let mut sleep = deadline.map(|at| Sleep::until(engine, at));
    let mut is_late = false;
    poll_fn(|cx| {
        if let Poll::Ready(ended) = contender.poll_ended(cx.waker()) {
            return Poll::Ready(Some(ended));
        }
        loop {
            let Some(sleep) = &mut sleep else { return Poll::Pending };
            if is_late && !contender.is_asking() {
                return Poll::Ready(None);
            }
            ready!(Pin::new(&mut *sleep).poll(cx));
            let answers_by = contender.first_answers_by();
            if is_late || engine.now() >= answers_by || answers_by == FOREVER {
                return Poll::Ready(None);
            }
            is_late = true;
            *sleep = Sleep::until(engine, answers_by);
        }
    })
    .await
}
