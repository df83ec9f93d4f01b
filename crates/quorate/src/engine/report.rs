//! What errors and reports say about each node: what is true when they are made.

use quorate_core::quorum::Vote;

use crate::{
    error::{NodeAnswer, NodeError},
    node::Node,
};

/// An error that came in place of an answer, and the connection on which it came.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub(super) node_error: NodeError,
    connection: u64,
}

impl Heard {
    /// `connection` is the node's number for it: as the answer comes in, or, for one that `send`
    /// gives itself, before the call. A node that comes up meanwhile has another one.
    pub(super) const fn new(node_error: NodeError, connection: u64) -> Self {
        Self { node_error, connection }
    }

    /// Whether the node has not been connected anew since.
    pub(super) fn is_current(&self, node: &dyn Node) -> bool {
        node.node_error().is_some() || self.connection == node.connection()
    }

    /// What to say of a node of which nothing else is known.
    pub(super) fn now(&self, node: &dyn Node) -> NodeError {
        // One that came up since has not answered in time, whatever it was that kept it from that.
        node_error_now(node, Some(self)).unwrap_or(NodeError::TimedOut)
    }
}

/// What is wrong with a node now, if anything is. All errors and reports go by this rule:
///
/// 1. While the node cannot be asked, the link knows best why: its error is as old as its last try
///    to connect, and counts down what is left of a guard. What an attempt heard before may be
///    over by now: the node was not connected yet, refused connections, or was guarded for longer.
/// 2. While it can be asked, the error of the last answer counts, if it came on this connection:
///    it is the server's own word, such as out of memory, no permission, or loading its data.
/// 3. An error from before this connection counts no more: the node is well, for all we know.
pub(super) fn node_error_now(node: &dyn Node, heard: Option<&Heard>) -> Option<NodeError> {
    let current = |heard: &&Heard| heard.connection == node.connection();
    node.node_error().or_else(|| heard.filter(current).map(|heard| heard.node_error.clone()))
}

/// What an attempt reports of a node. Its vote is its answer to this attempt, and says more than
/// any error: pass it for as long as it stands. `silence` is for a node that is well and has not
/// answered.
pub(super) fn answer_now(
    node: &dyn Node,
    vote: Option<Vote>,
    heard: Option<&Heard>,
    silence: NodeAnswer,
) -> NodeAnswer {
    match vote {
        Some(Vote::Grant) => NodeAnswer::Granted,
        Some(Vote::Refuse) => NodeAnswer::Refused,
        Some(Vote::Unknown) | None => match node_error_now(node, heard) {
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
            let heard = Heard::new(NodeError::OutOfMemory, connection);
            assert_eq!(node_error_now(&down, Some(&heard)), Some(NodeError::ConnectionRefused));
            assert!(heard.is_current(&down));
        }
        assert_eq!(node_error_now(&down, None), Some(NodeError::ConnectionRefused));
    }

    #[test]
    fn error_counts_on_its_own_connection_only() {
        let up = Fake(None, 5);
        let old = Heard::new(NodeError::Connecting, 4);
        let current = Heard::new(NodeError::OutOfMemory, 5);
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
