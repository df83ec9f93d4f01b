//! Events as counters, gauges and histograms of the `metrics` crate.
//!
//! | name | kind | labels |
//! |---|---|---|
//! | `quorate_acquire_total` | counter | `kind`, `outcome` |
//! | `quorate_acquire_duration_seconds` | histogram | `kind` |
//! | `quorate_wait_duration_seconds` | histogram | `kind` |
//! | `quorate_hold_duration_seconds` | histogram | `kind` |
//! | `quorate_held_locks`, `quorate_waiters` | gauge | `kind` |
//! | `quorate_renew_total` | counter | `kind`, `outcome` |
//! | `quorate_renew_margin_seconds` | histogram | `kind` |
//! | `quorate_lost_total` | counter | `kind`, `reason` |
//! | `quorate_release_total` | counter | `kind`, `outcome` |
//! | `quorate_node_up` | gauge | `node` |
//! | `quorate_node_request_duration_seconds` | histogram | `node`, `op` |
//! | `quorate_node_errors_total` | counter | `node`, `kind` |
//!
//! The `kind` of a lock is one of `mutex`, `reentrant`, `set`, `read`, `write`, `permit` and
//! `permit_queue`: see [`LockKind`](super::LockKind). The `kind` of a node error is
//! [`NodeError::kind`](crate::error::NodeError::kind).
//!
//! Names of locks are not labels, since there may be millions of them.
//!
//! # Examples
//!
//! ```
//! use quorate::{Client, memory::MemoryNodes, observe::metrics::Metrics};
//!
//! let nodes = MemoryNodes::new(3);
//! let client = Client::builder().memory(&nodes).observer(Metrics::new()).build()?;
//! # Ok::<(), quorate::error::ConfigError>(())
//! ```

use metrics::{counter, gauge, histogram};

use super::{Action, Event, Observer, Outcome};
use crate::error::NodeAnswer;

/// Reports events to the recorder of the `metrics` crate.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use quorate::{Client, memory::MemoryNodes, observe::metrics::Metrics};
/// # let nodes = MemoryNodes::new(1);
/// // An exporter's recorder is installed once, anywhere in the program.
/// let client = Client::builder().memory(&nodes).observer(Metrics::new()).build()?;
/// client.mutex("orders:42").lock().await?.release().await?; // increments quorate_acquire_total
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Metrics;

impl Metrics {
    /// Uses the recorder that is installed when an event happens.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorate::observe::metrics::Metrics;
    ///
    /// const METRICS: Metrics = Metrics::new(); // it has no state of its own
    /// let settings = quorate::Client::builder().observer(METRICS);
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Observer for Metrics {
    fn observe(&self, event: &Event<'_>) {
        match event {
            Event::Started { .. } | Event::AtRisk { .. } => {}
            Event::Answered { action, node, answer, took, .. } => {
                let (node, op) = ((*node).to_owned(), action.as_str());
                let labels = [("node", node.clone()), ("op", op.to_owned())];
                histogram!("quorate_node_request_duration_seconds", &labels).record(*took);
                if let NodeAnswer::NodeError(node_error) = answer {
                    let kind = node_error.kind();
                    counter!("quorate_node_errors_total", "node" => node, "kind" => kind)
                        .increment(1);
                }
            }
            Event::Ended { action, kind, outcome, took, .. } => {
                ended(*action, kind.as_str(), *outcome, *took);
            }
            Event::WaitStarted { kind, .. } => {
                gauge!("quorate_waiters", "kind" => kind.as_str()).increment(1);
            }
            Event::WaitEnded { kind, waited, .. } => {
                let kind = kind.as_str();
                gauge!("quorate_waiters", "kind" => kind).decrement(1);
                histogram!("quorate_wait_duration_seconds", "kind" => kind).record(*waited);
            }
            Event::Held { kind, .. } => {
                gauge!("quorate_held_locks", "kind" => kind.as_str()).increment(1);
            }
            Event::LetGo { kind, held_for, .. } => {
                let kind = kind.as_str();
                gauge!("quorate_held_locks", "kind" => kind).decrement(1);
                histogram!("quorate_hold_duration_seconds", "kind" => kind).record(*held_for);
            }
            Event::Renewed { kind, outcome, margin, .. } => {
                let (kind, outcome) = (kind.as_str(), outcome.as_str());
                counter!("quorate_renew_total", "kind" => kind, "outcome" => outcome).increment(1);
                histogram!("quorate_renew_margin_seconds", "kind" => kind).record(*margin);
            }
            Event::Lost { kind, reason, .. } => {
                let (kind, reason) = (kind.as_str(), reason.as_str());
                counter!("quorate_lost_total", "kind" => kind, "reason" => reason).increment(1);
            }
            Event::NodeUp { node } => {
                gauge!("quorate_node_up", "node" => (*node).to_owned()).set(1);
            }
            Event::NodeDown { node, .. } => {
                gauge!("quorate_node_up", "node" => (*node).to_owned()).set(0);
            }
        }
    }
}

fn ended(action: Action, kind: &'static str, outcome: Outcome, took: std::time::Duration) {
    match action {
        Action::Acquire => {
            let outcome = match outcome {
                Outcome::Done => "acquired",
                other => other.as_str(),
            };
            counter!("quorate_acquire_total", "kind" => kind, "outcome" => outcome).increment(1);
            histogram!("quorate_acquire_duration_seconds", "kind" => kind).record(took);
        }
        Action::Release => {
            let outcome = outcome.as_str();
            counter!("quorate_release_total", "kind" => kind, "outcome" => outcome).increment(1);
        }
        Action::Extend | Action::Verify => {}
    }
}
