//! A signal that a node has no outstanding request.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Notifies an engine that shuts down when a node may have no outstanding request.
#[derive(Debug, Default)]
pub(crate) struct IdleSignal {
    is_awaited: AtomicBool,
    notified: Notify,
}

impl IdleSignal {
    /// Enables notifications.
    pub(crate) fn expect(&self) {
        self.is_awaited.store(true, Ordering::SeqCst);
    }

    pub(crate) fn notify(&self) {
        if self.is_awaited.load(Ordering::SeqCst) {
            self.notified.notify_one();
        }
    }

    /// Waits for a notification of a node.
    pub(crate) async fn notified(&self) {
        self.notified.notified().await;
    }
}
