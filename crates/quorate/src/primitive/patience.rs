//! How long a caller waits for nodes that do not answer.

use quorate_core::{moment::Moment, quorum::majority};

use super::acquire::{Got, Silence};
use crate::{
    engine::Engine,
    error::{LockError, NodeAnswer, NodeError, NodeReport},
};

/// Whether a caller that waits until `deadline` asks again after this.
pub(super) fn asks_again<T>(engine: &Engine, got: &Got<T>, deadline: Option<Moment>) -> bool {
    let is_in_time = || deadline.is_none_or(|at| engine.now() < at);
    match got {
        // The lock was acquired, but expired before its caller could run.
        Got::Silence(silence) if is_won(&silence.nodes) && is_in_time() => true,
        Got::Silence(_) => deadline.is_none() && has_quarantine(&engine.reports()),
        Got::Held(_) | Got::Contended => false,
    }
}

/// Denied access has its own error.
pub(super) fn deny<T>(got: Got<T>) -> Result<Got<T>, LockError> {
    match got {
        Got::Silence(Silence { lock, nodes }) if is_denied(&nodes) => {
            Err(LockError::Denied { lock: lock.to_string(), nodes })
        }
        got => Ok(got),
    }
}

/// True if a majority has granted the lock.
fn is_won(nodes: &[NodeReport]) -> bool {
    let granted = nodes.iter().filter(|report| report.answer == NodeAnswer::Granted);
    granted.count() >= majority(nodes.len())
}

/// True if there will be a majority when the quarantine ends: a caller without a deadline waits for
/// that.
fn has_quarantine(nodes: &[NodeReport]) -> bool {
    let has_quarantine = |report: &&NodeReport| {
        matches!(&report.answer, NodeAnswer::NodeError(NodeError::Quarantined { .. }))
    };
    let quarantined = nodes.iter().filter(has_quarantine).count();
    let attached = nodes.iter().filter(|report| report.answer == NodeAnswer::Attached).count();
    quarantined > 0 && quarantined + attached >= majority(nodes.len())
}

/// True if too many nodes deny access for a majority, whatever the others answer.
fn is_denied(nodes: &[NodeReport]) -> bool {
    let denials = nodes.iter().filter(|report| match &report.answer {
        NodeAnswer::NodeError(node_error) => node_error.is_denial(),
        NodeAnswer::Attached
        | NodeAnswer::Granted
        | NodeAnswer::Refused
        | NodeAnswer::NotAwaited
        | NodeAnswer::Ready(_) => false,
    });
    let denials = denials.count();
    nodes.len() - denials < majority(nodes.len())
}
