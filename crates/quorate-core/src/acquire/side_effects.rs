//! What nodes may store for an owner besides its keys.

use super::NodeAction;
use crate::command::Reply;

/// What nodes may store for an owner besides its keys: queue positions, and requests in flight.
///
/// A holder without side effects is granted nothing later, so its lease can move to another process
/// unchanged.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct SideEffects {
    /// Requests without a reply.
    unanswered: u32,
    /// A node refused, failed or was asked again: the owner may be queued there, or a request may
    /// still arrive.
    may_remain: bool,
}

impl SideEffects {
    /// Whether every node that was asked granted immediately.
    #[must_use]
    pub fn are_none(&self) -> bool {
        mutate!(DetachQueued => return true);
        self.unanswered == 0 && !self.may_remain
    }

    /// Whether no reply can change [`are_none`](Self::are_none) any more.
    #[must_use]
    pub fn are_settled(&self) -> bool {
        self.unanswered == 0 || self.may_remain || self.are_none()
    }

    pub(super) const fn handle_call(&mut self, action: NodeAction) {
        match action {
            NodeAction::Acquire { is_known: false, .. } => {
                self.unanswered = self.unanswered.saturating_add(1);
            }
            // A confirmation changes nothing if the owner does not hold the key.
            NodeAction::Confirm(_) => {}
            NodeAction::Acquire { is_known: true, .. }
            | NodeAction::Yield(_)
            | NodeAction::Reject(_)
            | NodeAction::Release => self.may_remain = true,
        }
    }

    pub(super) const fn handle_reply(&mut self, action: NodeAction, reply: Option<&Reply>) {
        if !matches!(action, NodeAction::Acquire { .. }) {
            return;
        }
        self.unanswered = self.unanswered.saturating_sub(1);
        if !matches!(reply, Some(Reply::Granted { .. })) {
            self.may_remain = true;
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
    fn owner_granted_immediately_by_all_nodes_leaves_only_keys() {
        let mut side_effects = SideEffects::default();
        (0..2).for_each(|_| side_effects.handle_call(ASK));
        side_effects.handle_reply(ASK, Some(&granted()));
        assert!(!side_effects.are_none() && !side_effects.are_settled(), "a node has not answered");
        side_effects.handle_call(NodeAction::Confirm(Fence::new(7)));
        side_effects.handle_reply(ASK, Some(&granted()));
        assert!(side_effects.are_none() && side_effects.are_settled());
    }

    #[test]
    fn refusals_errors_and_later_calls_may_leave_side_effects() {
        let queued = Reply::Queued {
            fence: Fence::ZERO,
            expires_in_ms: None,
            rank: None,
            is_foreign: false,
        };
        for reply in [None, Some(&Reply::Stale), Some(&queued)] {
            let mut side_effects = SideEffects::default();
            side_effects.handle_call(ASK);
            side_effects.handle_reply(ASK, reply);
            assert!(!side_effects.are_none() && side_effects.are_settled(), "{reply:?}");
        }
        for action in [
            AGAIN,
            NodeAction::Yield(Fence::ZERO),
            NodeAction::Reject(Fence::ZERO),
            NodeAction::Release,
        ] {
            let mut side_effects = SideEffects::default();
            side_effects.handle_call(action);
            assert!(!side_effects.are_none() && side_effects.are_settled(), "{action:?}");
        }
    }
}
