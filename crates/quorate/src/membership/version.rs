//! A number that only grows, and tasks that wait for it to grow.
//!
//! It is a small `tokio::sync::watch` with one difference: tasks wake in the order in which they
//! began to wait, not at random. So one seed determines a whole simulated run.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::Notify;

/// The number.
#[derive(Debug, Default)]
pub(super) struct Version(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    number: AtomicU64,
    raised: Notify,
}

impl Version {
    /// Raises the number and wakes all watchers.
    pub(super) fn raise(&self) {
        self.0.number.fetch_add(1, Ordering::SeqCst);
        self.0.raised.notify_waiters();
    }

    /// Watches for every raise from now on.
    pub(super) fn watch(&self) -> Watch {
        Watch { shared: self.0.clone(), seen: self.0.number.load(Ordering::SeqCst) }
    }
}

/// One task's view of the number.
#[derive(Debug)]
pub(crate) struct Watch {
    shared: Arc<Shared>,
    seen: u64,
}

impl Watch {
    /// Waits until the number differs from the one at the last return.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no raise.
    pub(super) async fn changed(&mut self) {
        loop {
            // A raise between the load and the wait wakes this task: `notified` counts from its
            // call.
            let raised = self.shared.raised.notified();
            let number = self.shared.number.load(Ordering::SeqCst);
            if number != self.seen {
                self.seen = number;
                return;
            }
            raised.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn every_raise_since_the_watch_began_is_seen_once() {
        let version = Version::default();
        version.raise();
        let mut watch = version.watch();
        let waits = Duration::from_secs(1);
        assert!(timeout(waits, watch.changed()).await.is_err(), "it was raised before");
        version.raise();
        version.raise();
        watch.changed().await;
        assert!(timeout(waits, watch.changed()).await.is_err(), "both raises were seen");
        let raised = async {
            tokio::task::yield_now().await;
            version.raise();
        };
        tokio::join!(watch.changed(), raised);
    }
}
