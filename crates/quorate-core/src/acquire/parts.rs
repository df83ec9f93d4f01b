//! Access to the internals of an acquire, for tools that explore all of its states.

use std::hash::Hash;

use super::{Acquire, NodeAction, NodeCall};
use crate::{fence::Fence, moment::Moment};

impl Acquire {
    /// The state of each node, and the rest. Two machines with equal parts are equal up to the
    /// numbers of the nodes. The parts leave out constants, due times (see `poll_output`), and data
    /// that matters only when the lease is detached.
    pub fn parts(&self) -> (impl Iterator<Item = impl Hash>, impl Hash) {
        let Self {
            terms: _,
            wait: _,
            rule: _,
            retry: _,
            nodes,
            up,
            incarnation,
            is_contending,
            is_member: _,
            is_cut_off,
            started_at: _,
            heartbeat_at: _,
            poll_at: _,
            no_quorum_since: _,
            to_send,
            outcome,
            split_polls: _,
            backoffs: _,
            side_effects: _,
        } = self;
        (nodes.iter(), (up, u64::from(*incarnation), is_contending, is_cut_off, to_send, outcome))
    }

    /// Whether a reply to this call can still have an effect.
    pub(crate) fn expects_reply(&self, call: NodeCall) -> bool {
        self.outcome.is_none()
            && call.incarnation == self.incarnation
            && call.action != NodeAction::Release
    }

    /// The grants that count: the node, the fence, and the earliest time since when it holds.
    pub fn grants(&self) -> impl Iterator<Item = (usize, Fence, Moment)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter_map(|(node, state)| state.grant.map(|grant| (node, grant.fence, grant.since)))
    }
}
