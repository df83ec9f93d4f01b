//! What can happen among attempts and three nodes, under given rules.

use quorate_core::fence::{Fence, bump};
use stateright::{Model, Path, Property};

use super::{
    settings::{Decide, Forget, Settings, Store},
    state::{AcquireRequest, Confirm, Fault, Phase, QUORUM, State},
};
use crate::model::{
    claims::{IN_ORDER, UNIQUE},
    property::{self, Checked, Claim, Found, Kind},
};

/// The rules of one model, for the checker.
#[derive(Debug)]
pub(super) struct FenceModel {
    settings: Settings,
    found: Found,
}

/// One step. Attempts and nodes are numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// An attempt begins.
    Start(usize),
    /// A node runs the request to set the key.
    SetKey(usize, usize),
    /// The attempt receives the reply that it has the key.
    ReceiveGrant(usize, usize),
    /// The attempt has waited for long enough, and acts on what it has.
    Decide(usize),
    /// A node runs the request to store the fence.
    Confirm(usize, usize),
    /// The attempt receives the reply.
    ReceiveConfirmation(usize, usize),
    /// The attempt gives up, or its lease has ended.
    End(usize),
    /// The key of an attempt that has ended is deleted.
    DeleteKey(usize, usize),
    /// A holder takes a lost key again.
    Heal(usize, usize),
    /// A key goes before its time.
    Vanish(usize),
    /// A node forgets everything.
    Forget(usize),
    /// A node that had forgotten votes again.
    Readmit(usize),
}

impl FenceModel {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, found: Found::default() }
    }

    fn apply(&self, state: &mut State, step: Step) {
        match step {
            Step::Start(attempt) => {
                state.attempts[attempt].phase = Phase::Asking;
                state.attempts[attempt].floor = state.taken.last().copied().unwrap_or(0);
                state
                    .nodes
                    .iter_mut()
                    .for_each(|node| node.asks[attempt] = AcquireRequest::OnItsWay);
            }
            Step::SetKey(attempt, node) => set_key(state, attempt, node),
            Step::ReceiveGrant(attempt, node) => {
                if let AcquireRequest::Granted(fence) = state.nodes[node].asks[attempt] {
                    state.nodes[node].asks[attempt] = AcquireRequest::Received(fence);
                }
            }
            Step::Decide(attempt) => self.decide(state, attempt),
            Step::Confirm(attempt, node) => self.confirm(state, attempt, node),
            Step::ReceiveConfirmation(attempt, node) => receive_confirmation(state, attempt, node),
            Step::End(attempt) => state.end(attempt),
            Step::DeleteKey(_, node) => state.nodes[node].key = None,
            Step::Heal(attempt, node) => {
                if let Phase::Held(fence) = state.attempts[attempt].phase {
                    state.nodes[node].key = Some(number(attempt));
                    state.nodes[node].fence = fence;
                }
            }
            Step::Vanish(node) => {
                state.vanishings -= 1;
                state.nodes[node].key = None;
            }
            Step::Forget(node) => self.forget(state, node),
            Step::Readmit(node) => {
                state.nodes[node].waits_for = None;
                if self.settings.forget == Forget::WaitsAndAsks {
                    let largest = state.nodes.iter().map(|node| node.fence).max().unwrap_or(0);
                    state.nodes[node].fence = largest;
                }
            }
        }
    }

    fn decide(&self, state: &mut State, attempt: usize) {
        let received = received(state, attempt);
        let count = |fence: u8| received.iter().filter(|it| **it == fence).count();
        let largest = received.iter().copied().max().unwrap_or(0);
        let agreed = match self.settings.decide {
            Decide::AnyMajority => received.iter().copied().find(|fence| count(*fence) >= QUORUM),
            Decide::Largest => Some(largest).filter(|largest| count(*largest) >= QUORUM),
        };
        match agreed {
            Some(fence) => state.hold(attempt, fence),
            None => state.confirm(attempt, largest),
        }
    }

    fn confirm(&self, state: &mut State, attempt: usize, node: usize) {
        let Phase::Confirming(fence) = state.attempts[attempt].phase else { return };
        let node = &mut state.nodes[node];
        let is_owned = node.key == Some(number(attempt));
        let is_past = node.fence > fence;
        let is_stored = node.waits_for.is_none()
            && match self.settings.store {
                Store::Always => true,
                Store::IfOwned => is_owned,
                Store::IfNotPast => !is_past,
                Store::Both => is_owned && !is_past,
            };
        node.confirms[attempt] = match is_stored {
            true => Confirm::Stored,
            false => Confirm::Refused(node.fence),
        };
        if is_stored {
            node.fence = node.fence.max(fence);
        }
    }

    fn forget(&self, state: &mut State, node: usize) {
        state.has_forgotten = true;
        let is_under_way = |phase| !matches!(phase, Phase::Unborn | Phase::Over);
        let attempts = state.attempts.iter().enumerate();
        let under_way = attempts.filter(|(_, it)| is_under_way(it.phase));
        let waits_for = under_way.fold(0, |bits, (attempt, _)| bits | 1 << attempt);
        let node = &mut state.nodes[node];
        (node.key, node.fence) = (None, 0);
        node.waits_for = match self.settings.forget {
            Forget::Never | Forget::VotesAtOnce => None,
            Forget::Waits | Forget::WaitsAndAsks => Some(waits_for),
        };
    }

    fn attempt_steps(&self, state: &State, attempt: usize, steps: &mut Vec<Step>) {
        let phase = state.attempts[attempt].phase;
        match phase {
            Phase::Unborn => steps.push(Step::Start(attempt)),
            Phase::Asking => {
                if received(state, attempt).len() >= QUORUM {
                    steps.push(Step::Decide(attempt));
                }
                steps.push(Step::End(attempt));
            }
            Phase::Confirming(_) | Phase::Held(_) => steps.push(Step::End(attempt)),
            Phase::Over => {}
        }
        let may_take = phase == Phase::Asking || self.settings.is_late;
        for (number_of, node) in state.nodes.iter().enumerate() {
            let votes = node.waits_for.is_none();
            if node.asks[attempt] == AcquireRequest::OnItsWay && may_take && votes {
                steps.push(Step::SetKey(attempt, number_of));
            }
            if matches!(node.asks[attempt], AcquireRequest::Granted(_)) && phase == Phase::Asking {
                steps.push(Step::ReceiveGrant(attempt, number_of));
            }
            match node.confirms[attempt] {
                Confirm::OnItsWay => steps.push(Step::Confirm(attempt, number_of)),
                Confirm::Stored | Confirm::Refused(_) => {
                    steps.push(Step::ReceiveConfirmation(attempt, number_of));
                }
                Confirm::Unsent | Confirm::Received => {}
            }
            if phase == Phase::Over && node.key == Some(number(attempt)) {
                steps.push(Step::DeleteKey(attempt, number_of));
            }
            if let Phase::Held(fence) = phase
                && self.settings.heals
                && node.key.is_none()
                && node.fence <= fence
                && votes
            {
                steps.push(Step::Heal(attempt, number_of));
            }
        }
    }
}

/// A node runs the request to set its key; as in the product, every grant has a new fence.
fn set_key(state: &mut State, attempt: usize, node: usize) {
    let proposal = state.attempts[attempt].proposal;
    let is_received = state.attempts[attempt].phase == Phase::Asking;
    let node = &mut state.nodes[node];
    if node.key.is_some() {
        node.asks[attempt] = AcquireRequest::Refused;
        return;
    }
    let stored = Fence::new(node.fence.into());
    let fence = bump(proposal.into(), Some(stored), 0..=u64::MAX).get();
    node.key = Some(number(attempt));
    node.fence = u8::try_from(fence).unwrap_or(u8::MAX);
    node.asks[attempt] =
        if is_received { AcquireRequest::Granted(node.fence) } else { AcquireRequest::Refused };
}

fn receive_confirmation(state: &mut State, attempt: usize, node: usize) {
    let Phase::Confirming(fence) = state.attempts[attempt].phase else { return };
    let was = std::mem::replace(&mut state.nodes[node].confirms[attempt], Confirm::Unsent);
    match was {
        Confirm::Stored => {
            state.nodes[node].confirms[attempt] = Confirm::Received;
            let is_received = |confirms: &[Confirm]| confirms[attempt] == Confirm::Received;
            let stored = state.nodes.iter().filter(|node| is_received(&node.confirms)).count();
            if stored >= QUORUM {
                state.hold(attempt, fence);
            }
        }
        Confirm::Refused(larger) if larger > fence => state.confirm(attempt, larger),
        Confirm::Refused(_) | Confirm::Unsent | Confirm::OnItsWay | Confirm::Received => {}
    }
}

/// The fences that an attempt has received of.
fn received(state: &State, attempt: usize) -> Vec<u8> {
    let received = state.nodes.iter().filter_map(|node| match node.asks[attempt] {
        AcquireRequest::Received(fence) => Some(fence),
        AcquireRequest::Unsent
        | AcquireRequest::OnItsWay
        | AcquireRequest::Granted(_)
        | AcquireRequest::Refused => None,
    });
    received.collect()
}

const fn number(attempt: usize) -> u8 {
    attempt as u8
}

impl Model for FenceModel {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let Settings { fences, proposals, vanishings, .. } = &self.settings;
        let pairs = fences.iter().flat_map(|fences| proposals.iter().map(move |it| (fences, it)));
        pairs.map(|(fences, proposals)| State::new(*fences, *proposals, *vanishings)).collect()
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for attempt in 0..self.settings.attempts {
            self.attempt_steps(state, attempt, steps);
        }
        for (number_of, node) in state.nodes.iter().enumerate() {
            if state.vanishings > 0 && node.key.is_some() {
                steps.push(Step::Vanish(number_of));
            }
            if self.settings.forget != Forget::Never && !state.has_forgotten {
                steps.push(Step::Forget(number_of));
            }
            if let Some(waits_for) = node.waits_for {
                let is_over = |attempt: usize| state.attempts[attempt].phase == Phase::Over;
                let attempts = 0..self.settings.attempts;
                if attempts.into_iter().all(|it| waits_for >> it & 1 == 0 || is_over(it)) {
                    steps.push(Step::Readmit(number_of));
                }
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        self.apply(&mut state, step);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        property::properties(self)
    }
}

impl Checked for FenceModel {
    type Settings = Settings;

    const CLAIMS: &'static [Claim<Self>] = &[
        Claim {
            name: UNIQUE,
            kind: Kind::Always,
            applies: |_| true,
            is_true: |_, state| state.fault != Some(Fault::Twice),
        },
        Claim {
            name: IN_ORDER,
            kind: Kind::Always,
            applies: |_| true,
            is_true: |_, state| state.fault != Some(Fault::Backwards),
        },
        Claim {
            name: "every attempt holds the lock once",
            kind: Kind::Sometimes,
            applies: |_| true,
            is_true: |model, state| state.taken.len() == model.settings.attempts,
        },
    ];

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn found(&self) -> &Found {
        &self.found
    }

    fn lines(&self, path: &Path<State, Step>) -> Vec<String> {
        let steps = path.clone().into_vec();
        let mut lines = Vec::new();
        let mut did = "the initial state".to_owned();
        for (state, step) in steps {
            lines.push(format!("{:>3}. {did:<20} {}", lines.len(), shown(&state)));
            did = step.map_or_else(String::new, |step| format!("{step:?}"));
        }
        lines
    }
}

fn shown(state: &State) -> String {
    let letter = |attempt: u8| char::from(b'A' + attempt);
    let nodes = state.nodes.iter().enumerate().map(|(number, node)| {
        let key = node.key.map_or('-', letter);
        format!("n{number}[{key} f{}]", node.fence)
    });
    let attempts = state.attempts.iter().zip(0..).map(|(attempt, number)| {
        format!("{}:{:?}{:?}", letter(number), attempt.phase, received(state, number.into()))
    });
    nodes.chain(attempts).collect::<Vec<_>>().join(" ")
}
