//! Schedules for leases that are adopted, for stored fences, and for rejected grants.

use quorate_core::{
    acquire::Outcome,
    command::Command,
    fence::{FENCE_LIFETIME_MS, Fence},
    moment::Moment,
    mutant::Mutant,
    queue::FencedLease,
    renew::{self, Renew},
};

use super::{
    super::{
        Schedule, at,
        fixture::{ALL, BEGIN_US, Fixture, TTL_MS, TestClient},
        name, terms,
    },
    follows,
};

pub(in crate::directed) const SCHEDULES: &[(Mutant, Schedule)] = &[
    (Mutant::AdoptKeepsPosition, adopted_owner_leaves_the_queue),
    (Mutant::AdoptedHeals, adopted_lease_never_heals),
    (Mutant::BriefFence, fence_is_kept_for_a_day_after_its_grant),
    (Mutant::FenceNotKept, extension_keeps_the_fence),
    (Mutant::AlmostExpired, lease_that_was_waited_for_has_time_left),
    (Mutant::EndlessReject, waiter_accepts_a_grant_after_one_rejection),
];

/// A holds two nodes of three and waits on the third, where B is first. A adopts its own lease as
/// another owner, to hand it over. Then A's process is cut off, and B gives up.
///
/// Fails if the third node grants the lock to the former owner of A, which no client uses any more.
fn adopted_owner_leaves_the_queue() -> Result<(), String> {
    let mut fixture = Fixture::bare(0);
    let mut b = TestClient::start(&mut fixture, 2, 1, &[2], 0);
    b.come_up(&[1], 0);
    b.settle(&mut fixture, &[2], 0);
    let mut a = TestClient::start(&mut fixture, 1, 2, &ALL, 1);
    a.win(&mut fixture, &ALL, 2)?;
    let (old, new) = (a.owner(), a.place.owner(99));
    ALL.into_iter().for_each(|node| _ = a.adopt(&mut fixture, node, (&old, &new), 3));
    fixture.release(&[2], &b.owner(), 4);
    match fixture.has(2, &old, 5) {
        true => Err("the lock went to an owner that is no longer used".to_owned()),
        false => Ok(()),
    }
}

/// A hands its lease over. One process releases it, and another one, which knows nothing of that,
/// renews it.
///
/// Fails if the released lease is valid again.
fn adopted_lease_never_heals() -> Result<(), String> {
    let mut fixture = Fixture::bare(0);
    let mut a = TestClient::start(&mut fixture, 1, 1, &ALL, 0);
    let (left, fence) = (a.place.owner(99), a.win(&mut fixture, &ALL, 1)?);
    ALL.into_iter().for_each(|node| _ = a.adopt(&mut fixture, node, (&a.owner(), &left), 2));
    fixture.release(&ALL, &left, 3);

    let c = TestClient::start(&mut fixture, 3, 3, &[], 4);
    let entry = FencedLease::adopted(fence).extend(name(), left, TTL_MS);
    // A process that did not win the lease does not know its end.
    let mut machine = Renew::start(terms(TTL_MS), 3, Moment::from_nanos(u64::MAX), at(5));
    for node in ALL {
        machine.handle_vote(node, c.extend(&mut fixture, node, &entry, 5), at(6));
    }
    match machine.outcome() {
        Some(renew::Outcome::Extended { .. }) => Err("a released lease is extended".to_owned()),
        _ => Ok(()),
    }
}

/// A holds the lock and releases it. 23 hours later the clocks of all nodes are set back, and B
/// comes.
///
/// Fails if B has a smaller fence than A: no clock may be needed within a day of the grant.
fn fence_is_kept_for_a_day_after_its_grant() -> Result<(), String> {
    let mut fixture = Fixture::bare(BEGIN_US);
    let mut a = TestClient::start(&mut fixture, 1, BEGIN_US, &ALL, 0);
    a.settle(&mut fixture, &ALL, 1);
    fixture.release(&ALL, &a.owner(), 2);
    next_fence_follows(&mut fixture, a.held()?, 23 * HOUR_MS)
}

/// A holds the lock for more than a day and renews it, the last time within the last hour. It
/// releases the lock, the clocks of all nodes are set back, and B comes.
///
/// Fails if B has a smaller fence than A: within a day of an extension no clock may be needed.
fn extension_keeps_the_fence() -> Result<(), String> {
    let mut fixture = Fixture::bare(BEGIN_US);
    let mut a = TestClient::start(&mut fixture, 1, BEGIN_US, &ALL, 0);
    let fence = a.win(&mut fixture, &ALL, 1)?;
    for ms in [50, 13 * HOUR_MS, FENCE_LIFETIME_MS - HOUR_MS] {
        a.attach(&mut fixture, ms);
        let entry = FencedLease::acquired(fence).extend(name(), a.owner(), 14 * HOUR_MS);
        ALL.into_iter().for_each(|node| _ = a.extend(&mut fixture, node, &entry, ms));
    }
    fixture.release(&ALL, &a.owner(), FENCE_LIFETIME_MS + 1);
    next_fence_follows(&mut fixture, fence, FENCE_LIFETIME_MS + 2)
}

/// The clocks of all nodes are set back at `ms`, and another holder comes.
fn next_fence_follows(fixture: &mut Fixture, before: Fence, ms: u64) -> Result<(), String> {
    ALL.into_iter()
        .for_each(|node| _ = fixture.apply(node, ms, &Command::ReadKey { name: name() }));
    fixture.begin_us -= 2 * FENCE_LIFETIME_MS * 1_000;
    let ticket = fixture.time(ms).as_micros();
    let mut next = TestClient::start(fixture, 2, ticket, &ALL, ms);
    follows(before, next.win(fixture, &ALL, ms)?)
}

/// A waits for B and stands still until shortly before the end of its ttl. Then B releases the
/// lock, and the nodes grant it to A.
///
/// Fails if A holds a lease that ends before it can be renewed.
fn lease_that_was_waited_for_has_time_left() -> Result<(), String> {
    let mut fixture = Fixture::bare(0);
    let mut b = TestClient::start(&mut fixture, 2, 1, &ALL, 0);
    b.settle(&mut fixture, &ALL, 0);
    let mut a = TestClient::start(&mut fixture, 1, 2, &ALL, 0);
    a.settle(&mut fixture, &ALL, 1);
    let late = TTL_MS - 10;
    fixture.release(&ALL, &b.owner(), late);
    ALL.into_iter().try_for_each(|node| a.listen(&mut fixture, node, late))?;
    a.settle(&mut fixture, &ALL, late);
    match a.machine.outcome() {
        Some(Outcome::Held { valid_until, .. }) => {
            let left = valid_until.saturating_since(at(late)).as_millis();
            let is_enough = left >= u128::from(TTL_MS / 4);
            is_enough.then_some(()).ok_or_else(|| format!("{left} ms of {TTL_MS} ms are left"))
        }
        other => Err(format!("an attempt ended as {other:?}, not with the lock")),
    }
}

/// B holds the lock with a large fence and A waits. All nodes lose their data and grant the lock to
/// A, with smaller fences than A has seen there.
///
/// Fails if A rejects every grant, so that no client holds the lock.
fn waiter_accepts_a_grant_after_one_rejection() -> Result<(), String> {
    let mut fixture = Fixture::bare(BEGIN_US);
    let mut b = TestClient::start(&mut fixture, 2, BEGIN_US + 5_000_000, &ALL, 0);
    b.settle(&mut fixture, &ALL, 0);
    let mut a = TestClient::start(&mut fixture, 1, BEGIN_US, &ALL, 1);
    a.settle(&mut fixture, &ALL, 2);
    fixture.stores.iter_mut().for_each(|store| store.clear());
    ALL.into_iter().for_each(|node| a.machine.handle_down(node));
    a.attach(&mut fixture, 3);
    a.come_up(&ALL, 3);
    // A node grants, A rejects, and the node grants again: A must accept that grant.
    for ms in 4..8 {
        a.settle(&mut fixture, &ALL, ms);
        ALL.into_iter().for_each(|node| _ = a.listen(&mut fixture, node, ms));
    }
    a.held().map(drop).map_err(|_| "a waiter rejects every grant".to_owned())
}

const HOUR_MS: u64 = FENCE_LIFETIME_MS / 24;
