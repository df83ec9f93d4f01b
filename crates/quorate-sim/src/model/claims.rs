//! What must hold in every state, and what must be seen in some state.

use quorate_core::{acquire::NodeAction, quorum::majority};

use super::{
    fair,
    link::Heard,
    product::ProductModel,
    property::{Claim, Kind},
    settings::{Expected, Settings},
    state::{Fault, State},
};

/// Also what a model must break that is worse than what is promised.
pub const ONE_HOLDER: &str = "at most one client holds a valid lease";
/// The lease of a holder rests on keys.
pub const BACKED: &str = "a valid lease is backed by a majority of the nodes";
/// What a waiter counts on is so.
pub const KEPT_GRANTS: &str = "a grant that is counted is kept by its node";
/// No two holders have the same fence.
pub const UNIQUE: &str = "no two holders have the same fence";
/// Fences grow.
pub const IN_ORDER: &str = "a holder's fence is larger than those before it";
/// Nothing is left behind.
pub const NO_LEAK: &str = "a client that has gone leaves no key behind";
/// There is a way out.
pub const PROGRESS: &str = "somebody gets the lock if nothing more goes wrong";

pub(super) const CLAIMS: [Claim<ProductModel>; 21] = [
    Claim {
        name: ONE_HOLDER,
        kind: Kind::Always,
        applies: |settings| is_classic(settings) || remembers(settings),
        is_true: |model, state| {
            let holders = holders(state);
            holders.len() <= 1 || model.settings.are_together(&holders)
        },
    },
    Claim {
        name: BACKED,
        kind: Kind::Always,
        applies: |settings| {
            if is_classic(settings) { is_safe(settings) } else { remembers(settings) }
        },
        is_true: |_, state| holders(state).into_iter().all(|client| is_backed(state, client)),
    },
    Claim {
        name: KEPT_GRANTS,
        kind: Kind::Always,
        applies: remembers,
        is_true: |model, state| {
            (0..state.clients.len()).all(|client| are_kept(model, state, client))
        },
    },
    Claim {
        name: UNIQUE,
        kind: Kind::Always,
        applies: is_queue,
        is_true: |_, state| state.fault != Some(Fault::Twice),
    },
    Claim {
        name: IN_ORDER,
        kind: Kind::Always,
        applies: is_queue,
        is_true: |_, state| state.fault != Some(Fault::Backwards),
    },
    Claim {
        name: NO_LEAK,
        kind: Kind::Always,
        applies: |_| true,
        is_true: |model, state| (0..state.nodes.len()).all(|node| is_minded(model, state, node)),
    },
    Claim {
        name: PROGRESS,
        kind: Kind::Always,
        applies: |settings| settings.has_progress,
        is_true: fair::ends_well,
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
        is_true: |_, state| !state.clients.iter().any(|client| client.notes.is_dated_late),
    },
    Claim {
        name: "no renewal makes a key",
        kind: Kind::Always,
        applies: |settings| is_classic(settings) && settings.renewals > 0,
        is_true: |_, state| !state.nodes.iter().any(|node| node.is_forged),
    },
    Claim {
        name: "no key outlives its ttl",
        kind: Kind::Always,
        applies: |_| true,
        is_true: |model, state| {
            let mut keys = state.nodes.iter().flat_map(|node| &node.keys);
            keys.all(|key| key.left_ms <= model.ttl_ms())
        },
    },
    Claim {
        name: "the lock goes from one client to the next",
        kind: Kind::Sometimes,
        applies: |settings| is_queue(settings) && is_safe(settings) && alone(settings) >= 2,
        is_true: |_, state| state.fences.len() >= 2,
    },
    Claim {
        name: "two hold the lock together",
        kind: Kind::Sometimes,
        applies: |settings| {
            is_safe(settings) && settings.sharing.len().max(settings.entries.len()) >= 2
        },
        is_true: |_, state| holders(state).len() >= 2,
    },
    Claim {
        name: "one has the lock alone after another who shared it",
        kind: Kind::Sometimes,
        applies: |settings| is_safe(settings) && !settings.sharing.is_empty(),
        is_true: |model, state| {
            let had = |client: &usize| state.clients[*client].is_done();
            holders(state).iter().any(|it| !model.settings.is_shared(*it))
                && model.settings.sharing.iter().any(had)
        },
    },
    Claim {
        name: "fences differ and one of them is confirmed",
        kind: Kind::Sometimes,
        applies: |settings| {
            let is_split = settings.nodes >= 2 && alone(settings) >= 1;
            is_queue(settings) && is_safe(settings) && is_split
        },
        is_true: |_, state| state.links.iter().any(|link| link.answers.iter().any(is_confirmation)),
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
    Claim {
        name: "somebody holds the lock",
        kind: Kind::Sometimes,
        applies: |_| true,
        is_true: |_, state| !holders(state).is_empty(),
    },
    Claim {
        name: "contention is seen and undone",
        kind: Kind::Sometimes,
        applies: |settings| is_classic(settings) && is_safe(settings),
        is_true: |_, state| {
            let clients = state.clients.iter().enumerate();
            let mut beaten = clients.filter(|(_, it)| it.notes.was_beaten);
            beaten.any(|(client, it)| it.is_idle() && has_nothing(state, client))
        },
    },
    Claim {
        name: "a lease ends by itself and another client follows",
        kind: Kind::Sometimes,
        applies: |settings| is_classic(settings) && is_safe(settings),
        is_true: |_, state| {
            let now = state.client_now();
            let has_ended = state.clients.iter().any(|it| it.is_holding() && !it.holds(now));
            has_ended && !holders(state).is_empty()
        },
    },
    Claim {
        name: "a renewal makes a lease last longer",
        kind: Kind::Sometimes,
        applies: |settings| is_safe(settings) && settings.renewals > 0 && settings.clocks.is_some(),
        is_true: |_, state| {
            holders(state).into_iter().any(|client| state.clients[client].notes.has_grown)
        },
    },
    Claim {
        name: "a client that died as the holder is followed by another",
        kind: Kind::Sometimes,
        applies: |settings| is_classic(settings) && is_safe(settings) && settings.deaths > 0,
        is_true: |_, state| {
            let is_followed = state.clients.iter().any(|client| client.notes.died_as_holder);
            is_followed && !holders(state).is_empty()
        },
    },
];

/// The clients that hold the lock.
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
    is_queue(settings) && settings.vanishings == 0
}

fn is_safe(settings: &Settings) -> bool {
    settings.expected == Expected::Safe
}

fn is_classic(settings: &Settings) -> bool {
    settings.is_classic()
}

fn is_queue(settings: &Settings) -> bool {
    !settings.is_classic()
}

fn is_confirmation(heard: &Heard) -> bool {
    let Heard::Reply(request, _) = heard else { return false };
    matches!(request.action(), Some(NodeAction::Confirm(_)))
}

fn is_backed(state: &State, client: usize) -> bool {
    let owner = state.clients[client].owner();
    let keys = state.nodes.iter().flat_map(|node| &node.keys);
    keys.filter(|key| Some(&key.owner) == owner).count() >= majority(state.nodes.len())
}

/// The node has the key, with this fence or a larger one, for as long as the waiter believes.
fn are_kept(model: &ProductModel, state: &State, client: usize) -> bool {
    let it = &state.clients[client];
    let Some(waiter) = it.waiter().filter(|waiter| waiter.outcome().is_none()) else { return true };
    let now = state.client_now();
    waiter.grants().all(|(node, fence, since)| {
        let node = &state.nodes[node];
        let age_ms = now.saturating_since(since).as_millis() as u64;
        let is_over = model.settings.terms().valid_until(since) <= now;
        let is_kept = node
            .keys
            .iter()
            .any(|key| Some(&key.owner) == it.owner() && key.left_ms + age_ms >= model.ttl_ms());
        is_over || node.fence >= fence && is_kept
    })
}

/// True if every key on a node is somebody's business: its client asks or holds under that owner,
/// or something about it is on the way or to be sent again. A dead client minds nothing. In
/// classic mode, what was sent before a break may run behind the release; then the ttl ends it.
fn is_minded(model: &ProductModel, state: &State, node: usize) -> bool {
    state.nodes[node].keys.iter().all(|key| {
        let client = &state.clients[key.client];
        let link = state.link(key.client, node);
        client.is_dead()
            || client.owner() == Some(&key.owner)
            || !link.is_quiet()
            || client.owes(node, state.client_now())
            || model.settings.is_classic() && link.is_remade()
    })
}

/// True if no node has a key of the client, and none is on its way.
fn has_nothing(state: &State, client: usize) -> bool {
    state.nodes.iter().enumerate().all(|(node, it)| {
        it.keys.iter().all(|key| key.client != client) && state.link(client, node).is_quiet()
    })
}
