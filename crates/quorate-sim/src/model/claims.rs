//! What must hold in every state, and what must be seen in some state.

use quorate_core::quorum::majority;

use super::{
    judge::{Claim, Kind},
    settings::Expected,
    state::State,
    world::World,
};

/// Also what a world must break that is worse than what is promised.
pub const ONE_HOLDER: &str = "at most one client holds a valid lease";

pub(super) const CLAIMS: [Claim<World>; 12] = [
    Claim {
        name: ONE_HOLDER,
        kind: Kind::Always,
        applies: |_| true,
        is_true: |_, state| holders(state).count() <= 1,
    },
    Claim {
        name: "a valid lease is backed by a majority of the nodes",
        kind: Kind::Always,
        applies: |settings| settings.expected == Expected::Safe,
        is_true: |_, state| holders(state).all(|client| is_backed(state, client)),
    },
    Claim {
        name: "a lease that has ended is never valid again",
        kind: Kind::Always,
        applies: |settings| settings.renewals > 0,
        is_true: |_, state| {
            !state.clients.iter().any(|client| client.is_revived(state.client_now()))
        },
    },
    Claim {
        name: "nothing is won or extended when nothing of the lease is left",
        kind: Kind::Always,
        applies: |_| true,
        is_true: |_, state| !state.clients.iter().any(|client| client.is_dated_late()),
    },
    Claim {
        name: "no renewal makes a key",
        kind: Kind::Always,
        applies: |settings| settings.renewals > 0,
        is_true: |_, state| !state.nodes.iter().any(|node| node.is_forged()),
    },
    Claim {
        name: "no attempt and no release leaves a key behind",
        kind: Kind::Always,
        applies: |_| true,
        is_true: |_, state| (0..state.nodes.len()).all(|node| is_minded(state, node)),
    },
    Claim {
        name: "no key outlives its ttl",
        kind: Kind::Always,
        applies: |_| true,
        is_true: |world, state| {
            let keys = state.nodes.iter().filter_map(|node| node.key());
            keys.into_iter().all(|key| key.left_ms <= world.ttl_ms())
        },
    },
    Claim {
        name: "somebody holds the lock",
        kind: Kind::Sometimes,
        applies: |_| true,
        is_true: |_, state| holders(state).next().is_some(),
    },
    Claim {
        name: "contention is seen and undone",
        kind: Kind::Sometimes,
        applies: |settings| settings.expected == Expected::Safe,
        is_true: |_, state| {
            let beaten = state.clients.iter().enumerate().filter(|(_, it)| it.was_beaten());
            beaten.into_iter().any(|(client, it)| !it.is_busy() && has_nothing(state, client))
        },
    },
    Claim {
        name: "a lease ends by itself and another client follows",
        kind: Kind::Sometimes,
        applies: |settings| settings.expected == Expected::Safe,
        is_true: |_, state| {
            let now = state.client_now();
            let has_ended = |client: usize| {
                let client = &state.clients[client];
                client.held_attempt().is_some() && !client.holds(now)
            };
            holders(state).next().is_some() && (0..state.clients.len()).any(has_ended)
        },
    },
    Claim {
        name: "a renewal makes a lease last longer",
        kind: Kind::Sometimes,
        applies: |settings| settings.renewals > 0 && settings.expected == Expected::Safe,
        is_true: |_, state| holders(state).any(|client| state.clients[client].has_grown()),
    },
    Claim {
        name: "a client that crashed as the holder is followed by another",
        kind: Kind::Sometimes,
        applies: |settings| settings.crashes > 0 && settings.expected == Expected::Safe,
        is_true: |_, state| {
            holders(state).next().is_some()
                && state.clients.iter().any(|client| client.crashed_as_holder())
        },
    },
];

fn holders(state: &State) -> impl Iterator<Item = usize> {
    let now = state.client_now();
    (0..state.clients.len()).filter(move |client| state.clients[*client].holds(now))
}

fn is_backed(state: &State, client: usize) -> bool {
    let attempt = state.clients[client].held_attempt();
    let keys = state.nodes.iter().filter_map(|node| node.key());
    let ours = keys.filter(|key| usize::from(key.client) == client && Some(key.attempt) == attempt);
    ours.count() >= majority(state.nodes.len())
}

/// True if the key on a node, if there is one, is somebody's business: its client holds it, tries
/// to, or has something on the way to the node. A client that crashed minds nothing, and after a
/// break what was sent before may run behind the undo; then the ttl ends it.
fn is_minded(state: &State, node: usize) -> bool {
    state.nodes[node].key().is_none_or(|key| {
        let client = &state.clients[usize::from(key.client)];
        let link = state.link(key.client, node);
        client.has_crashed()
            || client.minds(key.attempt)
            || !link.requests.is_empty()
            || link.is_remade
    })
}

/// True if no node has a key of the client, and none is on its way.
fn has_nothing(state: &State, client: usize) -> bool {
    let number = u8::try_from(client).unwrap_or(u8::MAX);
    state.nodes.iter().enumerate().all(|(node, it)| {
        it.key().is_none_or(|key| key.client != number) && state.link(number, node).is_idle()
    })
}
