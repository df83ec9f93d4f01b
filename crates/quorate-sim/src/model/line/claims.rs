//! What must hold in every state of a world in line, and what must be seen in some state.

use quorate_core::{contend::Saying, quorum::majority};

use super::{
    client::Doing,
    fair,
    link::{Heard, What},
    settings::Settings,
    state::{Fault, State},
    world::World,
};
use crate::model::{
    claims::ONE_HOLDER,
    judge::{Claim, Kind},
    settings::Expected,
};

/// The lease of a holder rests on keys.
pub const BACKED: &str = "a valid lease is backed by a majority of the nodes";
/// What a waiter counts on is so.
pub const KEPT_GRANTS: &str = "a grant that is counted is kept by its node";
/// No two holders have the same fence.
pub const UNIQUE: &str = "no two holders have the same fence";
/// Fences grow.
pub const IN_ORDER: &str = "a holder's fence is larger than those before it";
/// Nobody leaves anything behind.
pub const NO_LEAK: &str = "no key is left behind by one who has gone";
/// There is a way out.
pub const PROGRESS: &str = "somebody gets the lock if nothing more goes wrong";

pub(super) const CLAIMS: [Claim<World>; 12] = [
    Claim {
        name: ONE_HOLDER,
        kind: Kind::Always,
        applies: remembers,
        is_true: |world, state| {
            let holders = holders(state);
            holders.len() <= 1 || holders.iter().all(|it| world.settings.is_shared(*it))
        },
    },
    Claim {
        name: BACKED,
        kind: Kind::Always,
        applies: remembers,
        is_true: |_, state| (0..state.clients.len()).all(|client| is_backed(state, client)),
    },
    Claim {
        name: KEPT_GRANTS,
        kind: Kind::Always,
        applies: remembers,
        is_true: |world, state| {
            (0..state.clients.len()).all(|client| are_kept(world, state, client))
        },
    },
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
        name: NO_LEAK,
        kind: Kind::Always,
        applies: |_| true,
        is_true: |_, state| (0..state.nodes.len()).all(|node| is_minded(state, node)),
    },
    Claim {
        name: PROGRESS,
        kind: Kind::Always,
        applies: |settings| settings.has_progress,
        is_true: fair::ends_well,
    },
    Claim {
        name: "the lock goes from one client to the next",
        kind: Kind::Sometimes,
        applies: |settings| is_safe(settings) && alone(settings) >= 2,
        is_true: |_, state| state.fences.len() >= 2,
    },
    Claim {
        name: "two hold the lock together",
        kind: Kind::Sometimes,
        applies: |settings| is_safe(settings) && settings.sharing.len() >= 2,
        is_true: |_, state| holders(state).len() >= 2,
    },
    Claim {
        name: "one has the lock alone after another who shared it",
        kind: Kind::Sometimes,
        applies: |settings| is_safe(settings) && !settings.sharing.is_empty(),
        is_true: |world, state| {
            let had = |client: &usize| state.clients[*client].is_done();
            holders(state).iter().any(|it| !world.settings.is_shared(*it))
                && world.settings.sharing.iter().any(had)
        },
    },
    Claim {
        name: "fences differ and one of them is confirmed",
        kind: Kind::Sometimes,
        applies: |settings| is_safe(settings) && settings.nodes >= 2 && alone(settings) >= 1,
        is_true: |_, state| {
            let is_confirm =
                |heard: &Heard| matches!(heard, Heard::Reply(it, _) if is_confirm(&it.what));
            state.links.iter().any(|link| link.answers.iter().any(is_confirm))
        },
    },
    Claim {
        name: "a holder takes a lost key again",
        kind: Kind::Sometimes,
        applies: |settings| is_safe(settings) && settings.renewals > 0 && settings.vanishings > 0,
        is_true: |_, state| {
            state.left.vanishings == 0
                && state.clients.iter().enumerate().any(|(number, client)| {
                    let keys = state.nodes.iter().flat_map(|node| &node.keys);
                    let ours = keys.filter(|key| key.client == number);
                    client.is_holding() && ours.count() == state.nodes.len()
                })
        },
    },
];

/// Those who hold the lock.
fn holders(state: &State) -> Vec<usize> {
    let now = state.client_now();
    (0..state.clients.len()).filter(|client| state.clients[*client].holds(now)).collect()
}

/// How many want the lock alone.
fn alone(settings: &Settings) -> usize {
    settings.attempts.len() - settings.sharing.len()
}

/// Nodes keep what they granted for as long as they said.
fn remembers(settings: &Settings) -> bool {
    settings.vanishings == 0
}

fn is_safe(settings: &Settings) -> bool {
    settings.expected == Expected::Safe
}

const fn is_confirm(what: &What) -> bool {
    matches!(what, What::Say(Saying::Confirm(_)))
}

fn is_backed(state: &State, client: usize) -> bool {
    let it = &state.clients[client];
    if !it.holds(state.client_now()) {
        return true;
    }
    let keys = state.nodes.iter().flat_map(|node| &node.keys);
    let ours = keys.filter(|key| key.client == client && Some(key.mark) == it.mark());
    ours.count() >= majority(state.nodes.len())
}

/// The node has the key, with this fence or a larger one, for as long as the waiter believes.
fn are_kept(world: &World, state: &State, client: usize) -> bool {
    let it = &state.clients[client];
    let Doing::Waiting(waiter) = &it.doing else { return true };
    let now = state.client_now();
    waiter.machine.grants().all(|(node, fence, since)| {
        let node = &state.nodes[node];
        let age_ms = now.saturating_since(since).as_millis() as u64;
        let is_dead = world.terms.valid_until(since) <= now;
        is_dead
            || node.fence >= fence
                && node.keys.iter().any(|key| {
                    let is_ours = key.client == client && Some(key.mark) == it.mark();
                    is_ours && key.left_ms + age_ms >= world.terms.ttl_ms()
                })
    })
}

/// True if every key on a node is somebody's business: its client waits or holds under that owner,
/// or something about it is still to be said. Who died minds nothing.
fn is_minded(state: &State, node: usize) -> bool {
    state.nodes[node].keys.iter().all(|key| {
        let client = &state.clients[key.client];
        let link = state.link(key.client, node);
        let is_quiet =
            link.requests.is_empty() && link.answers.is_empty() && link.pushes.is_empty();
        client.is_dead() || client.mark() == Some(key.mark) || !is_quiet || !link.owed.is_empty()
    })
}
