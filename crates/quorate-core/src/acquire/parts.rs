//! A look into an attempt, for those who search all of its states.

use std::hash::Hash;

use super::{Acquire, NodeAction, NodeCall};
use crate::{fence::Fence, moment::Moment};

impl Acquire {
    /// What is known about each node, and the rest: two attempts are the same up to the numbers of
    /// the nodes if these are. What never changes is left out, and so is when something is due,
    /// which `poll_output` tells, and what only matters when the lease is handed over.
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
            beat_at: _,
            poll_at: _,
            short_since: _,
            to_send,
            outcome,
            looks: _,
            rests: _,
            traces: _,
        } = self;
        (nodes.iter(), (up, u64::from(*incarnation), is_contending, is_cut_off, to_send, outcome))
    }

    /// Whether the answer to this can still make a difference.
    pub(crate) fn awaits(&self, call: NodeCall) -> bool {
        self.outcome.is_none()
            && call.incarnation == self.incarnation
            && call.action != NodeAction::Release
    }

    /// The grants that are counted: of which node, with which fence, and since when at least.
    pub fn grants(&self) -> impl Iterator<Item = (usize, Fence, Moment)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter_map(|(node, state)| state.grant.map(|grant| (node, grant.fence, grant.since)))
    }
}
