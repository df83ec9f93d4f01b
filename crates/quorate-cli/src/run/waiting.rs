//! What somebody at a terminal is told who waits for a lock.

use std::{convert::Infallible, future::pending, time::Duration};

use quorate::Client;

use crate::voice::Voice;

/// Tells who holds the lock, and how long that has been, for as long as it is polled.
pub(super) async fn tell(_client: &Client, name: &str, voice: &Voice) -> Infallible {
    if !voice.is_watched() {
        return pending().await;
    }
    tokio::time::sleep(SILENCE).await;
    voice.status(&format!("waiting for {name:?}"));
    pending().await
}

/// Who waits for no longer than this is told nothing.
const SILENCE: Duration = Duration::from_millis(300);
