//! Several futures at once.

use std::{future::poll_fn, task::Poll};

/// Waits for all of them. What they return is in their order.
pub(super) async fn join<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut open: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|cx| {
        for (future, output) in open.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                *output = Some(value);
            }
        }
        match open.iter().all(|(_, output)| output.is_some()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    open.into_iter().filter_map(|(_, output)| output).collect()
}

/// Waits for the first of them.
pub(super) async fn first<F: Future + Unpin>(futures: impl IntoIterator<Item = F>) -> F::Output {
    let mut open: Vec<F> = futures.into_iter().collect();
    poll_fn(|cx| {
        let mut ready = open.iter_mut().map(|future| std::pin::Pin::new(future).poll(cx));
        ready.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}
