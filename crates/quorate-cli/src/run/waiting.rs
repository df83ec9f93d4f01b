//! What somebody is told who waits for a lock: at a terminal at once, elsewhere afterwards.

use std::{cell::RefCell, convert::Infallible, future::pending, time::Duration};

use quorate::{Client, inspect::LockReport};

use crate::{time, voice::Voice};

/// Keeps an eye on who has the lock while it is waited for.
#[derive(Debug, Default)]
pub(super) struct Watch {
    holder: RefCell<Option<String>>,
}

impl Watch {
    /// Who was last seen to have the lock.
    pub(super) fn holder(self) -> Option<String> {
        self.holder.into_inner()
    }

    /// Looks, and tells somebody at a terminal, for as long as it is polled.
    pub(super) async fn tell(&self, client: &Client, name: &str, voice: &Voice) -> Infallible {
        if !voice.is_watched() && !voice.is_verbose() {
            return pending().await;
        }
        tokio::time::sleep(SILENCE).await;
        loop {
            if let Ok(report) = client.inspect(name).await {
                voice.status(&line(&report));
                let holder = report.holder.filter(|holder| !holder.is_this_client);
                if let Some(holder) = holder {
                    self.holder.replace(Some(holder.who));
                }
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

fn line(report: &LockReport) -> String {
    let mut line = format!("waiting for {:?}", report.name);
    if let Some(holder) = &report.holder {
        line.push_str(&format!(", held by {}", holder.who));
        if let Some(held_for) = holder.held_for {
            line.push_str(&format!(" for {}", time::shown(held_for)));
        }
    }
    match report.place_of_this_client() {
        Some(0) => line.push_str("; we are next"),
        Some(before) => line.push_str(&format!("; {before} are before us")),
        None => {}
    }
    line
}

/// Who waits for no longer than this is told nothing.
const SILENCE: Duration = Duration::from_millis(300);

const LOOK_AGAIN: Duration = Duration::from_secs(1);
