//! The state of a model of attempts and three nodes.

use std::hash::{Hash, Hasher};

/// Everything. What is about one node is in its column, so that nodes can be renumbered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct State {
    pub(super) nodes: [Node; NODES],
    pub(super) attempts: [Attempt; ATTEMPTS_MAX],
    pub(super) vanishings: u8,
    pub(super) has_forgotten: bool,
    /// The fences that holders had.
    pub(super) taken: Vec<u8>,
    pub(super) fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct Node {
    /// The attempt whose key is there.
    pub(super) key: Option<u8>,
    pub(super) fence: u8,
    /// The attempts that must be over before it votes again, as bits.
    pub(super) waits_for: Option<u8>,
    pub(super) asks: [AcquireRequest; ATTEMPTS_MAX],
    pub(super) confirms: [Confirm; ATTEMPTS_MAX],
}

/// The request of an attempt to set the key of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum AcquireRequest {
    Unsent,
    OnItsWay,
    /// It ran, and the reply is on its way.
    Granted(u8),
    Received(u8),
    Refused,
}

/// The request of an attempt to store its fence.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum Confirm {
    Unsent,
    OnItsWay,
    /// It ran; the node says that it has stored the fence.
    Stored,
    /// It ran; the node has another's key or this fence.
    Refused(u8),
    Received,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Attempt {
    pub(super) phase: Phase,
    pub(super) proposal: u8,
    /// The largest fence of any attempt when it began.
    pub(super) floor: u8,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Phase {
    Unborn,
    Asking,
    Confirming(u8),
    Held(u8),
    Over,
}

/// What can be wrong with a fence.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Fault {
    Twice,
    Backwards,
}

impl State {
    pub(super) fn new(fences: [u8; NODES], proposals: [u8; ATTEMPTS_MAX], vanishings: u8) -> Self {
        let node = |fence| Node {
            key: None,
            fence,
            waits_for: None,
            asks: [AcquireRequest::Unsent; ATTEMPTS_MAX],
            confirms: [Confirm::Unsent; ATTEMPTS_MAX],
        };
        let attempt = |proposal| Attempt { phase: Phase::Unborn, proposal, floor: 0 };
        Self {
            nodes: fences.map(node),
            attempts: proposals.map(attempt),
            vanishings,
            has_forgotten: false,
            taken: Vec::new(),
            fault: None,
        }
    }

    /// The attempt holds the lock with this fence.
    pub(super) fn hold(&mut self, attempt: usize, fence: u8) {
        if self.taken.contains(&fence) {
            self.fault = Some(Fault::Twice);
        } else if fence <= self.attempts[attempt].floor {
            self.fault = Some(Fault::Backwards);
        }
        self.taken.push(fence);
        self.taken.sort_unstable();
        self.attempts[attempt].phase = Phase::Held(fence);
        for node in &mut self.nodes {
            node.confirms[attempt] = Confirm::Unsent;
        }
    }

    /// The attempt asks all nodes to store this fence.
    pub(super) fn confirm(&mut self, attempt: usize, fence: u8) {
        self.attempts[attempt].phase = Phase::Confirming(fence);
        for node in &mut self.nodes {
            node.confirms[attempt] = Confirm::OnItsWay;
        }
    }

    pub(super) fn end(&mut self, attempt: usize) {
        self.attempts[attempt].phase = Phase::Over;
        for node in &mut self.nodes {
            node.confirms[attempt] = Confirm::Unsent;
            // No attempt reads the answer any more.
            if matches!(
                node.asks[attempt],
                AcquireRequest::Granted(_) | AcquireRequest::Received(_)
            ) {
                node.asks[attempt] = AcquireRequest::Refused;
            }
        }
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { nodes, attempts, vanishings, has_forgotten, taken, fault } = self;
        let mut nodes = *nodes;
        nodes.sort_unstable();
        (nodes, attempts, vanishings, has_forgotten, taken, fault).hash(state);
    }
}

pub(super) const NODES: usize = 3;
pub(super) const QUORUM: usize = 2;
pub(super) const ATTEMPTS_MAX: usize = 3;
