//! The state of each node in errors and reports, as of the time when they are made.

use quorate_core::quorum::Vote;

use crate::{
    error::{NodeAnswer, NodeError},
    node::Node,
};

/// An error in place of a reply, and the connection on which it occurred.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) node_error: NodeError,
    connection: u64,
}

impl Failure {
    /// `connection` is the node's number of the connection when the error occurred. For an error
    /// that `send` returns, it is the number before the call. A node that comes up has a new
    /// number.
    pub(super) const fn new(node_error: NodeError, connection: u64) -> Self {
        Self { node_error, connection }
    }

    /// Whether the node has not been reconnected since.
    pub(super) fn is_current(&self, node: &dyn Node) -> bool {
        node.node_error().is_some() || self.connection == node.connection()
    }

    /// The error to report if nothing else is known about the node.
    pub(super) fn now(&self, node: &dyn Node) -> NodeError {
        // A node that came up since then has not replied in time, for whatever reason.
        node_error_now(node, Some(self)).unwrap_or(NodeError::TimedOut)
    }
}

/// The present error of a node, if any. All errors and reports follow these rules:
///
/// 1. While the node cannot be reached, the error of the link counts. It is from the last attempt
///    to connect and contains the remaining quarantine time. An earlier error of a command may be
///    outdated.
/// 2. While the node can be reached, the error of the last command counts if it occurred on this
///    connection. Then it comes from the server itself, for example out of memory, no permission,
///    or loading its data.
/// 3. An error from before this connection does not count. As far as the client knows, the node
///    works.
pub(super) fn node_error_now(node: &dyn Node, failure: Option<&Failure>) -> Option<NodeError> {
    let current = |failure: &&Failure| failure.connection == node.connection();
    node.node_error().or_else(|| failure.filter(current).map(|failure| failure.node_error.clone()))
}

/// The answer of a node to report for a call. Pass the vote of the node while it is valid: it takes
/// precedence over errors. `silence` is the answer for a node that works and has not replied.
pub(super) fn answer_now(
    node: &dyn Node,
    vote: Option<Vote>,
    failure: Option<&Failure>,
    silence: NodeAnswer,
) -> NodeAnswer {
    match vote {
        Some(Vote::Grant) => NodeAnswer::Granted,
        Some(Vote::Refuse) => NodeAnswer::Refused,
        Some(Vote::Unknown) | None => match node_error_now(node, failure) {
            Some(node_error) => NodeAnswer::NodeError(node_error),
            None => silence,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quorate_core::moment::Moment;

    use super::*;
    use crate::node::{Pull, Pulled, Request, Sent, Work};

    #[derive(Debug)]
    struct Fake(Option<NodeError>, u64);

    impl Node for Fake {
        fn send(&self, _request: Request, _now: Moment) -> Sent {
            Sent::Answered(Err(NodeError::Overloaded))
        }

        fn pull(&self, _work: &mut dyn Work, _how: Pull, _now: Moment) -> Pulled {
            Pulled::Answered
        }

        fn flush(&self) {}

        fn label(&self) -> &'static str {
            "fake"
        }

        fn node_error(&self) -> Option<NodeError> {
            self.0.clone()
        }

        fn connection(&self) -> u64 {
            self.1
        }

        fn round_trip(&self) -> Duration {
            Duration::ZERO
        }

        fn is_busy(&self) -> bool {
            false
        }
    }

    #[test]
    fn link_that_is_down_knows_best() {
        let down = Fake(Some(NodeError::ConnectionRefused), 4);
        for connection in [3, 4] {
            let failure = Failure::new(NodeError::OutOfMemory, connection);
            assert_eq!(node_error_now(&down, Some(&failure)), Some(NodeError::ConnectionRefused));
            assert!(failure.is_current(&down));
        }
        assert_eq!(node_error_now(&down, None), Some(NodeError::ConnectionRefused));
    }

    #[test]
    fn error_counts_on_its_own_connection_only() {
        let up = Fake(None, 5);
        let old = Failure::new(NodeError::Connecting, 4);
        let current = Failure::new(NodeError::OutOfMemory, 5);
        assert_eq!(node_error_now(&up, Some(&current)), Some(NodeError::OutOfMemory));
        assert_eq!(node_error_now(&up, Some(&old)), None);
        assert!(current.is_current(&up) && !old.is_current(&up));
        assert_eq!((old.now(&up), current.now(&up)), (NodeError::TimedOut, NodeError::OutOfMemory));
        let report = |vote| answer_now(&up, vote, Some(&old), NodeAnswer::Attached);
        assert_eq!(report(None), NodeAnswer::Attached);
        assert_eq!(report(Some(Vote::Unknown)), NodeAnswer::Attached);
        assert_eq!(report(Some(Vote::Refuse)), NodeAnswer::Refused);
    }
}
