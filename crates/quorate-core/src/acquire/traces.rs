//! What nodes may know of an owner besides its keys.

use super::NodeAction;
use crate::command::Reply;

/// What nodes may know of an owner besides its keys: places in the queue, and questions that are
/// still on their way to them.
///
/// A holder without such traces gets nothing later, so its lease can go to another process as it
/// is.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Traces {
    /// Questions that no node has answered yet.
    unanswered: u32,
    /// A node refused, failed or was asked to wait: the owner may be queued there, or what was sent
    /// may still arrive.
    may_last: bool,
}

impl Traces {
    /// True if every node that was asked granted at once.
    #[must_use]
    pub fn are_none(&self) -> bool {
        mutate!(DetachQueued => return true);
        self.unanswered == 0 && !self.may_last
    }

    /// True if no answer can change what is known: it is in, or something else is wrong already.
    #[must_use]
    pub fn are_settled(&self) -> bool {
        self.unanswered == 0 || self.may_last || self.are_none()
    }

    pub(super) const fn handle_call(&mut self, action: NodeAction) {
        match action {
            NodeAction::Acquire { is_known: false, .. } => {
                self.unanswered = self.unanswered.saturating_add(1);
            }
            // A confirmation changes nothing where the key is not the owner's.
            NodeAction::Confirm(_) => {}
            NodeAction::Acquire { is_known: true, .. }
            | NodeAction::Yield(_)
            | NodeAction::Reject(_)
            | NodeAction::Release => self.may_last = true,
        }
    }

    pub(super) const fn handle_reply(&mut self, action: NodeAction, reply: Option<&Reply>) {
        if !matches!(action, NodeAction::Acquire { .. }) {
            return;
        }
        self.unanswered = self.unanswered.saturating_sub(1);
        if !matches!(reply, Some(Reply::Granted { .. })) {
            self.may_last = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::Fence;

    const ASK: NodeAction = NodeAction::Acquire { is_waiting: true, is_known: false };
    const AGAIN: NodeAction = NodeAction::Acquire { is_waiting: true, is_known: true };

    fn granted() -> Reply {
        Reply::Granted { fence: Fence::new(7), is_earlier: false }
    }

    #[test]
    fn an_owner_that_all_nodes_granted_at_once_leaves_only_keys() {
        let mut traces = Traces::default();
        (0..2).for_each(|_| traces.handle_call(ASK));
        traces.handle_reply(ASK, Some(&granted()));
        assert!(!traces.are_none() && !traces.are_settled(), "one has not answered");
        traces.handle_call(NodeAction::Confirm(Fence::new(7)));
        traces.handle_reply(ASK, Some(&granted()));
        assert!(traces.are_none() && traces.are_settled());
    }

    #[test]
    fn a_refusal_an_error_and_all_that_is_said_later_may_leave_more() {
        let queued = Reply::Queued {
            fence: Fence::ZERO,
            expires_in_ms: None,
            rank: None,
            is_foreign: false,
        };
        for reply in [None, Some(&Reply::Stale), Some(&queued)] {
            let mut traces = Traces::default();
            traces.handle_call(ASK);
            traces.handle_reply(ASK, reply);
            assert!(!traces.are_none() && traces.are_settled(), "{reply:?}");
        }
        for action in [
            AGAIN,
            NodeAction::Yield(Fence::ZERO),
            NodeAction::Reject(Fence::ZERO),
            NodeAction::Release,
        ] {
            let mut traces = Traces::default();
            traces.handle_call(action);
            assert!(!traces.are_none() && traces.are_settled(), "{action:?}");
        }
    }
}
