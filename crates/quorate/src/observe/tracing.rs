//! Events as spans and events of the `tracing` crate.
//!
//! A round to all nodes is a span `quorate.acquire`, `quorate.extend`, `quorate.verify` or
//! `quorate.release` with the lock's name and its outcome, and a child span `quorate.node` for each
//! answer. Changes of leases and nodes are events. A loss and a node that goes down are warnings,
//! unless the client is shut down.
//!
//! # Examples
//!
//! ```
//! use quorate::{Client, memory::MemoryNodes, observe::tracing::Tracing};
//!
//! let nodes = MemoryNodes::new(3);
//! let client = Client::builder().memory(&nodes).observer(Tracing::new()).build()?;
//! # Ok::<(), quorate::error::ConfigError>(())
//! ```

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tracing::{Span, debug, debug_span, field::Empty, info, warn};

use super::{Action, Event, Observer};
use crate::error::{LostReason, NodeError};

/// Reports events to the subscriber of the `tracing` crate.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use quorate::{Client, memory::MemoryNodes, observe::tracing::Tracing};
/// # let nodes = MemoryNodes::new(1);
/// // The program's subscriber sees a span `quorate.acquire` and a span `quorate.release`.
/// let client = Client::builder().memory(&nodes).observer(Tracing::new()).build()?;
/// client.mutex("orders:42").lock().await?.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct Tracing {
    /// The rounds that have not ended.
    open: Mutex<HashMap<u64, Span>>,
}

impl Tracing {
    /// Uses the subscriber that is current when an event happens.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::observe::tracing::Tracing;
    ///
    /// let settings = quorate::Client::builder().observer(Tracing::new()); // one for each client
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Span>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Tracing {
    fn observe(&self, event: &Event<'_>) {
        match event {
            Event::Started { round, action, name, kind } => {
                self.open().insert(*round, span(*action, name, kind.as_str()));
            }
            Event::Answered { round, node, answer, took, .. } => {
                // An answer after the end of its round belongs to no span.
                if let Some(parent) = self.open().get(round) {
                    let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                    debug_span!(parent: parent, "quorate.node", node, ?answer, took_us)
                        .in_scope(|| {});
                }
            }
            Event::Ended { round, outcome, took, .. } => {
                if let Some(span) = self.open().remove(round) {
                    span.record("outcome", outcome.as_str());
                    span.record("took_us", u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
                }
            }
            Event::WaitStarted { name, kind } => {
                debug!(lock = name, kind = kind.as_str(), "waiting");
            }
            Event::WaitEnded { name, kind, waited } => {
                debug!(lock = name, kind = kind.as_str(), ?waited, "waited");
            }
            Event::Held { name, kind } => debug!(lock = name, kind = kind.as_str(), "held"),
            Event::LetGo { name, kind, held_for } => {
                debug!(lock = name, kind = kind.as_str(), ?held_for, "let go");
            }
            Event::Renewed { name, kind, outcome, margin } => {
                let (kind, outcome) = (kind.as_str(), outcome.as_str());
                debug!(lock = name, kind, outcome, ?margin, "renewed");
            }
            Event::AtRisk { name, kind } => {
                warn!(lock = name, kind = kind.as_str(), "lock is at risk");
            }
            Event::Lost { name, kind, reason: LostReason::ShutDown } => {
                info!(lock = name, kind = kind.as_str(), "lock is released: the client shuts down");
            }
            Event::Lost { name, kind, reason } => {
                warn!(lock = name, kind = kind.as_str(), %reason, "lock is lost");
            }
            Event::NodeUp { node } => info!(node, "node is attached"),
            Event::NodeDown { node, node_error: NodeError::ShutDown } => {
                info!(node, "node is detached: the client shuts down");
            }
            Event::NodeDown { node, node_error } => warn!(node, %node_error, "node is down"),
        }
    }
}

fn span(action: Action, lock: &str, kind: &str) -> Span {
    let (outcome, took_us) = (Empty, Empty);
    match action {
        Action::Acquire => debug_span!("quorate.acquire", lock, kind, outcome, took_us),
        Action::Extend => debug_span!("quorate.extend", lock, kind, outcome, took_us),
        Action::Verify => debug_span!("quorate.verify", lock, kind, outcome, took_us),
        Action::Release => debug_span!("quorate.release", lock, kind, outcome, took_us),
    }
}
