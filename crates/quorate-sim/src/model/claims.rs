//! What must hold in every state, and what must be seen in some state.

use quorate_core::{acquire::NodeAction, quorum::majority};

use super::{
    fair,
    link::Message,
    member::Doing,
    product::ProductModel,
    property::{Claim, Kind},
    settings::{Beginning, Expected, Settings},
    state::{Fault, State},
};

/// Rows that break the bounds of the promises must violate this one.
pub const ONE_HOLDER: &str = "at most one client holds a valid lease";
/// Exclusion depends on this.
pub const BACKED: &str = "a valid lease is backed by a majority of the nodes";
/// A waiter counts only grants that still exist.
pub const KEPT_GRANTS: &str = "a node keeps every grant that its waiter counts";
/// No two holders have the same fence.
pub const UNIQUE: &str = "no two holders have the same fence";
/// Fences increase.
pub const IN_ORDER: &str = "a holder's fence is larger than the fences of earlier holders";
/// Every key is released in the end.
pub const NO_LEAK: &str = "a client that has left leaves no key behind";
/// Some schedule leads to a holder.
pub const PROGRESS: &str = "a client gets the lock if nothing more goes wrong";

pub(super) const CLAIMS: [Claim<ProductModel>; 23] = [
    Claim {
        name: ONE_HOLDER,
        kind: Kind::Always,
        applies: |settings| is_classic(settings) || remembers(settings),
        is_true: |model, state| {
            let holders = holders(state);
            holders.len() <= 1 || are_together(model, state, &holders)
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
        is_true: |model, state| {
            (0..state.nodes.len()).all(|node| is_accounted_for(model, state, node))
        },
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
        name: "no lease is won or extended after its own end",
        kind: Kind::Always,
        applies: |_| true,
        is_true: |_, state| !state.clients.iter().any(|client| client.notes.is_dated_late),
    },
    Claim {
        name: "no renewal creates a key",
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
        applies: |settings| is_queue(settings) && is_safe(settings) && exclusive(settings) >= 2,
        is_true: |_, state| state.fences.len() >= 2,
    },
    Claim {
        name: "two clients hold the lock together",
        kind: Kind::Sometimes,
        applies: |settings| {
            is_safe(settings) && settings.sharing.len().max(settings.entries.len()) >= 2
        },
        is_true: |_, state| holders(state).len() >= 2,
    },
    Claim {
        name: "a writer holds the lock after a reader",
        kind: Kind::Sometimes,
        applies: |settings| is_safe(settings) && !settings.sharing.is_empty(),
        is_true: |model, state| {
            let had = |client: &usize| state.clients[*client].is_done();
            holders(state).iter().any(|it| !model.settings.is_shared(*it))
                && model.settings.sharing.iter().any(had)
        },
    },
    Claim {
        name: "a writer waits while a writer that became a reader holds the lock",
        kind: Kind::Sometimes,
        applies: |settings| {
            is_safe(settings) && !settings.downgrades.is_empty() && exclusive(settings) >= 2
        },
        is_true: |model, state| {
            let mut clients = state.clients.iter().enumerate();
            has_downgraded_holder(state)
                && clients.any(|(number, it)| it.is_acquire() && !model.settings.is_shared(number))
        },
    },
    Claim {
        name: "a reader joins a writer that became a reader",
        kind: Kind::Sometimes,
        applies: |settings| {
            is_safe(settings) && !settings.downgrades.is_empty() && !settings.sharing.is_empty()
        },
        is_true: |_, state| has_downgraded_holder(state) && holders(state).len() >= 2,
    },
    Claim {
        name: "fences differ and one of them is confirmed",
        kind: Kind::Sometimes,
        applies: |settings| {
            let is_split = settings.nodes >= 2 && exclusive(settings) >= 1;
            let is_queued = settings.beginning == Beginning::Queued;
            is_queue(settings) && is_safe(settings) && is_split && !is_queued
        },
        is_true: |_, state| state.links.iter().any(|link| link.answers.iter().any(is_confirmation)),
    },
    Claim {
        name: "a holder restores a lost key",
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
        name: "a client holds the lock",
        kind: Kind::Sometimes,
        applies: |_| true,
        is_true: |_, state| !holders(state).is_empty(),
    },
    Claim {
        name: "contention occurs and is undone",
        kind: Kind::Sometimes,
        applies: |settings| is_classic(settings) && is_safe(settings),
        is_true: |_, state| {
            let clients = state.clients.iter().enumerate();
            let mut beaten = clients.filter(|(_, it)| it.notes.was_beaten);
            beaten.any(|(client, it)| it.is_idle() && has_nothing(state, client))
        },
    },
    Claim {
        name: "a lease expires and another client holds the lock",
        kind: Kind::Sometimes,
        applies: |settings| is_classic(settings) && is_safe(settings),
        is_true: |_, state| {
            let now = state.client_now();
            let has_ended = state.clients.iter().any(|it| it.is_holding() && !it.holds(now));
            has_ended && !holders(state).is_empty()
        },
    },
    Claim {
        name: "a renewal extends a lease",
        kind: Kind::Sometimes,
        applies: |settings| is_safe(settings) && settings.renewals > 0 && settings.clocks.is_some(),
        is_true: |_, state| {
            holders(state).into_iter().any(|client| state.clients[client].notes.has_grown)
        },
    },
    Claim {
        name: "another client holds the lock after a holder crashed",
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

/// True if all of these clients may hold the lock at the same time.
fn are_together(model: &ProductModel, state: &State, clients: &[usize]) -> bool {
    clients.iter().all(|it| model.is_reader(state, *it))
        || clients.iter().all(|it| model.settings.is_entry(*it))
}

/// True if an exclusive holder has become a reader, and the nodes have confirmed it.
fn has_downgraded_holder(state: &State) -> bool {
    let mut clients = state.clients.iter();
    clients.any(|it| it.notes.is_reader && matches!(it.doing, Doing::Holding(_)))
}

/// How many clients ask for an exclusive lock.
fn exclusive(settings: &Settings) -> usize {
    settings.attempts.len() - settings.sharing.len()
}

/// True if nodes keep every grant until it expires.
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

fn is_confirmation(message: &Message) -> bool {
    let Message::Reply(request, _) = message else { return false };
    matches!(request.action(), Some(NodeAction::Confirm(_)))
}

fn is_backed(state: &State, client: usize) -> bool {
    let keys = state.nodes.iter().flat_map(|node| &node.keys);
    let ours = keys.filter(|key| state.clients[client].uses(&key.owner));
    ours.count() >= majority(state.nodes.len())
}

/// True if each node keeps the key until the waiter's own end of the grant, and its fence is not
/// smaller than the granted one.
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

/// True if every key on a node is accounted for: its client asks or holds under that owner, or a
/// message about it is in flight or will be sent again. The keys of a crashed client expire. In
/// classic mode, a request from before a break may run after the release; then its key expires.
fn is_accounted_for(model: &ProductModel, state: &State, node: usize) -> bool {
    state.nodes[node].keys.iter().all(|key| {
        let client = &state.clients[key.client];
        let link = state.link(key.client, node);
        client.is_dead()
            || client.uses(&key.owner)
            || !link.is_quiet()
            || client.owes(node, state.client_now())
            || model.settings.is_classic() && link.is_remade()
    })
}

/// True if no node has a key of the client, and none is in flight.
fn has_nothing(state: &State, client: usize) -> bool {
    state.nodes.iter().enumerate().all(|(node, it)| {
        it.keys.iter().all(|key| key.client != client) && state.link(client, node).is_quiet()
    })
}
