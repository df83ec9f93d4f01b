//! The watchdog of a client whose nodes do not answer.

use std::time::Duration;

use quorate_core::{
    backoff::Jitter,
    client::{
        Config,
        watchdog::{Acquired, LeaseId, Renewal, Watchdog},
    },
    command::{ClientId, Command, Reply},
    fence::Fence,
    lease::LostReason,
    moment::Moment,
    mutant::Mutant,
    queue::{Extended, FencedLease, Position},
    quorum::NodeSet,
    renew::Outcome,
};

use super::{Schedule, at, name, owner, terms};

pub(super) const SCHEDULES: &[(Mutant, Schedule)] = &[
    (Mutant::ShutdownForgetsLost, shutdown_releases_what_was_lost),
    (Mutant::ExtensionIgnored, confirmed_extension_counts),
    (Mutant::EntryFenceStays, an_entry_is_renewed_with_the_fence_of_its_identity),
    (Mutant::NoRenewalRetry, renewal_without_an_answer_is_tried_again),
];

/// The nodes are silent while a lease is renewed.
///
/// Fails if the watchdog does not retry while the lease is held.
fn renewal_without_an_answer_is_tried_again() -> Result<(), String> {
    let (mut watchdog, _) = watchdog_with_a_lease();
    let mut sent = 0;
    while let Some(due) = watchdog.poll_timeout().filter(|due| *due < at(1_000)) {
        watchdog.handle_timeout(Duration::from_nanos(due.as_nanos()), &|ttl| ttl / 10, due);
        sent += std::iter::from_fn(|| watchdog.poll_transmit()).count();
    }
    match sent {
        0 | 1 => Err(format!("the watchdog sent only {sent} renewals in the whole ttl")),
        _ => Ok(()),
    }
}

/// A lease is lost, and the client shuts down before its guard is dropped.
///
/// Fails if the client does not release it: nodes may still have its keys.
fn shutdown_releases_what_was_lost() -> Result<(), String> {
    let (mut watchdog, lease) = watchdog_with_a_lease();
    watchdog.lose(lease, LostReason::Gone);
    match watchdog.lose_all(LostReason::ShutDown).len() {
        1 => Ok(()),
        released => Err(format!("the shutdown released {released} leases, not one")),
    }
}

/// The nodes confirm an extension.
///
/// Fails if the lease ends when it would have ended without it.
fn confirmed_extension_counts() -> Result<(), String> {
    let (mut watchdog, lease) = watchdog_with_a_lease();
    let begun = watchdog.begin_extension(lease, terms(5_000), at(500));
    let extending = begun.map_err(|reason| format!("the lease is lost: {reason:?}"))?;
    let outcome = Outcome::Extended { valid_until: at(5_000) };
    watchdog.handle_extension_ended(lease, extending, outcome, at(500), at(510));
    watchdog.check(lease, at(3_000)).map_err(|reason| format!("the lease is lost: {reason:?}"))
}

/// A majority of the nodes has a larger fence for an entry than its own: that of a later entry of
/// its identity.
///
/// Fails if it is renewed with its own fence. Then it could not restore a lost key where the later
/// entry was granted and released.
fn an_entry_is_renewed_with_the_fence_of_its_identity() -> Result<(), String> {
    let client = ClientId::from_random([0; 20]);
    let owner = Position { ticket: 1, ttl_ms: 1_000, client }.reentrant_owner(1, "x");
    let fenced = Some(FencedLease::acquired(Fence::new(1)));
    let (mut watchdog, _) = watchdog_with(|acquired| Acquired { owner, fenced, ..acquired });
    let mut fences = Vec::new();
    while let Some(due) = watchdog.poll_timeout().filter(|_| fences.len() < 2) {
        watchdog.handle_timeout(Duration::from_nanos(due.as_nanos()), &|ttl| ttl / 10, due);
        let Some((batch, Command::Extend { entries, .. })) = watchdog.poll_transmit() else {
            continue;
        };
        fences.push(entries[0].fence);
        for (node, fence) in [(0, 7), (1, 8)] {
            let reply = Reply::ExtendedLeases([Extended::Renewed(Fence::new(fence))].into());
            watchdog.handle_answer(batch, node, Some(&reply), due);
        }
    }
    match fences[..] {
        [_, second] if second == Fence::new(7) => Ok(()),
        _ => Err(format!("the entry is renewed with {fences:?}")),
    }
}

fn watchdog_with_a_lease() -> (Watchdog, LeaseId) {
    watchdog_with(|acquired| acquired)
}

fn watchdog_with(change: impl FnOnce(Acquired) -> Acquired) -> (Watchdog, LeaseId) {
    let (client, max_ttl) = (ClientId::from_random([0; 20]), Duration::from_secs(60));
    let config = Config { client, nodes: 3, has_sessions: false, max_ttl };
    let mut watchdog = Watchdog::new(&config, Jitter::new(1));
    let acquired = Acquired {
        name: name(),
        owner: owner(),
        terms: terms(1_000),
        fenced: None,
        untaken: NodeSet::EMPTY,
        renewal: Renewal::On,
        valid_until: at(1_000),
        hold_until: Moment::from_nanos(u64::MAX),
        granted_at: at(0),
    };
    let lease = watchdog.keep(change(acquired), at(0));
    (watchdog, lease)
}
