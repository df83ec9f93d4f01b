//! Where nodes say that nothing is outstanding any more.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Tells an engine that wants to end when a node may have nothing outstanding any more.
#[derive(Debug, Default)]
pub(crate) struct IdleSignal {
    is_awaited: AtomicBool,
    told: Notify,
}

impl IdleSignal {
    /// From now on somebody waits for it.
    pub(crate) fn expect(&self) {
        self.is_awaited.store(true, Ordering::SeqCst);
    }

    pub(crate) fn tell(&self) {
        if self.is_awaited.load(Ordering::SeqCst) {
            self.told.notify_one();
        }
    }

    /// Waits until a node has said so.
    pub(crate) async fn told(&self) {
        self.told.notified().await;
    }
}
