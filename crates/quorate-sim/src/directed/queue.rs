//! Schedules for waiters, on three nodes.

pub(super) mod leases;

use quorate_core::{
    acquire::Outcome,
    fence::{FENCE_LIFETIME_MS, Fence, SLACK_US},
    mutant::{self, Mutant},
    queue::{Extend, TICKET_MAX},
    renew::{self, Renew},
};

use super::{
    Schedule, Try, at,
    fixture::{ALL, BEGIN_US, Fixture, TTL_MS, TestClient},
    name, terms,
};

pub(super) const SCHEDULES: &[(Mutant, Schedule)] = &[
    (Mutant::EarlyPushIgnored, a_push_that_overtakes_the_reply_counts),
    (Mutant::YieldWithoutSession, a_yield_of_an_older_connection_is_not_executed),
    (Mutant::NoSession, an_acquire_of_an_older_connection_is_not_executed),
    (Mutant::ConfirmAnyFence, confirmation_counts_with_the_fence_that_is_stored),
    (Mutant::ConfirmHeals, a_confirmation_restores_no_lost_key),
    (Mutant::HealAnyFence, a_lease_that_is_not_the_newest_is_not_extended),
    (Mutant::DetachQueued, a_detached_lease_is_not_revived),
    (Mutant::NoClamp, fences_neither_decrease_nor_run_away),
    (Mutant::ExpiredGrantCounts, an_expired_grant_does_not_count_for_the_fence),
    (Mutant::SameOwnerAgain, a_late_release_does_not_affect_a_waiter_that_returned),
];

/// A holds the lock and B asks for it. The replies to B are delayed. A releases, and the pushes of
/// the nodes to B arrive before the replies.
///
/// Fails if B does not hold the lock as soon as both have arrived.
fn a_push_that_overtakes_the_reply_counts() -> Result<(), String> {
    let mut fixture = Fixture::bare(0);
    let mut a = TestClient::start(&mut fixture, 1, 1, &ALL, 0);
    a.win(&mut fixture, &ALL, 0)?;
    let mut b = TestClient::start(&mut fixture, 2, 2, &ALL, 1);
    let mut replies = Vec::new();
    for node in ALL {
        replies.push(b.reach(&mut fixture, node, 1)?);
    }
    fixture.release(&ALL, &a.owner(), 2);
    ALL.into_iter().try_for_each(|node| b.listen(&mut fixture, node, 3))?;
    replies.iter().for_each(|reply| b.receive(reply, 4));
    match b.held() {
        Ok(_) => Ok(()),
        Err(_) => Err("a waiter ignores pushes that overtook the replies".to_owned()),
    }
}

/// A has two grants with different fences and sends a confirmation to the one that is behind. That
/// node loses the key, grants it to B, who holds the lock, and gets it back. Then the confirmation
/// arrives.
///
/// Fails if A holds the lock with the fence of B.
fn a_confirmation_restores_no_lost_key() -> Result<(), String> {
    let mut fixture = Fixture::bare(0);
    let mut before = TestClient::start(&mut fixture, 9, 1, &ALL, 0);
    before.settle(&mut fixture, &[0], 1);
    fixture.release(&[0], &before.owner(), 1);

    let mut a = TestClient::start(&mut fixture, 1, 1, &ALL, 2);
    let mut b = TestClient::start(&mut fixture, 2, 2, &ALL, 2);
    a.settle(&mut fixture, &[1], 3);
    let from_2 = b.reach(&mut fixture, 2, 3)?;
    let from_0 = a.reach(&mut fixture, 0, 3)?;
    fixture.stores[1].forget(&name());
    let from_1 = b.reach(&mut fixture, 1, 4)?;
    a.receive(&from_0, 5);
    b.receive(&from_2, 5);
    b.receive(&from_1, 5);
    let held_by_b = b.held()?;
    fixture.release(&[1], &b.owner(), 6);

    differs(a.win(&mut fixture, &[0, 1], 7)?, held_by_b)
}

/// A has two grants with different fences. To the node that is behind it sends a heartbeat and a
/// confirmation of the larger fence. Before they arrive that node loses the key, and B holds the
/// lock and releases it. The heartbeat gets the key again, with a larger fence than B's.
///
/// Fails if A, who holds the lock after B, has a smaller fence.
fn confirmation_counts_with_the_fence_that_is_stored() -> Result<(), String> {
    let mut fixture = Fixture::bare(0);
    let mut before = TestClient::start(&mut fixture, 9, 1, &ALL, 0);
    before.settle(&mut fixture, &[1], 1);
    fixture.release(&[1], &before.owner(), 1);

    let mut a = TestClient::start(&mut fixture, 1, 1, &[0, 1], 2);
    a.settle(&mut fixture, &[0], 3);
    a.time_out(36);
    let from_1 = a.reach(&mut fixture, 1, 37)?;
    a.receive(&from_1, 37);
    fixture.stores[0].forget(&name());
    let mut c = TestClient::start(&mut fixture, 3, 2, &[0, 2], 38);
    c.settle(&mut fixture, &[0], 38);
    fixture.release(&[0], &c.owner(), 38);
    let mut b = TestClient::start(&mut fixture, 2, 3, &[0, 2], 39);
    let held_by_b = b.win(&mut fixture, &[0, 2], 40)?;
    fixture.release(&[0, 2], &b.owner(), 41);

    follows(held_by_b, a.win(&mut fixture, &[0, 1], 42)?)
}

/// A holds the lock. One of its keys is lost, and B comes, holds the lock and releases it. Then A
/// extends.
///
/// Fails if A's lease is extended after a later holder.
fn a_lease_that_is_not_the_newest_is_not_extended() -> Result<(), String> {
    let mut fixture = Fixture::bare(0);
    let mut a = TestClient::start(&mut fixture, 1, 1, &[0, 1], 0);
    let held_by_a = a.win(&mut fixture, &[0, 1], 1)?;
    fixture.stores[1].forget(&name());
    let mut b = TestClient::start(&mut fixture, 2, 2, &[1, 2], 2);
    let held_by_b = b.win(&mut fixture, &[1, 2], 3)?;
    fixture.release(&[1, 2], &b.owner(), 4);

    let mut machine = Renew::start(terms(TTL_MS), 3, terms(TTL_MS).valid_until(at(0)), at(5));
    for node in ALL {
        machine.handle_vote(node, a.extend(&mut fixture, node, &a.lease(held_by_a), 6), at(7));
    }
    match machine.outcome() {
        Some(renew::Outcome::Extended { .. }) => Err(format!(
            "the lease with fence {held_by_a} is extended after a holder with fence {held_by_b}"
        )),
        _ => Ok(()),
    }
}

/// A day after the last holder its fence is forgotten, and a client asks whose clock is behind.
/// Later a client asks whose clock is far ahead.
///
/// Fails if a fence is smaller than an earlier one, or far from the time of the nodes.
fn fences_neither_decrease_nor_run_away() -> Result<(), String> {
    let mut fixture = Fixture::bare(BEGIN_US);
    let mut hold = |number: u8, ticket: u64, ms: u64| {
        let mut party = TestClient::start(&mut fixture, number, ticket, &ALL, ms);
        let fence = party.win(&mut fixture, &ALL, ms)?;
        fixture.release(&ALL, &party.owner(), ms);
        Ok::<_, String>((fence, fixture.time(ms).as_micros()))
    };
    let (first, begin) = hold(1, BEGIN_US, 0)?;
    let (behind, _) = hold(2, begin - 1_000_000, FENCE_LIFETIME_MS + 1)?;
    let (ahead, now) = hold(3, TICKET_MAX, FENCE_LIFETIME_MS + 2)?;
    let mut wrong = Vec::new();
    if behind <= first {
        wrong.push("fences decrease when the last one is forgotten");
    }
    if ahead > Fence::new(now + SLACK_US) {
        wrong.push("a broken clock uses up the fences");
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

/// A is granted one node and pauses until the grant has expired. B gets that node and another,
/// holds the lock and releases it. Then A receives two valid grants, one of them with the fence of
/// the expired one.
///
/// Fails if A, which holds the lock after B, has a smaller fence.
fn an_expired_grant_does_not_count_for_the_fence() -> Result<(), String> {
    let mut fixture = Fixture::bare(0);
    let mut a = TestClient::start(&mut fixture, 1, 1, &[0, 1], 0);
    a.settle(&mut fixture, &[0], 1);
    // The node grants, and the connection breaks before its reply.
    a.reach(&mut fixture, 1, 1)?;
    a.machine.handle_down(1);
    a.machine.handle_up(1, at(95));
    // Its heartbeat is late, and its request to the first node is delayed.
    a.time_out(95);
    a.settle(&mut fixture, &[1], 98);

    let mut b = TestClient::start(&mut fixture, 2, 2, &ALL, 102);
    let held_by_b = b.win(&mut fixture, &[0, 2], 103)?;
    fixture.release(&[0, 2], &b.owner(), 104);

    a.come_up(&[2], 104);
    follows(held_by_b, a.win(&mut fixture, &[1, 2], 105)?)
}

/// A asks, and the connection breaks with the request in flight. On the next connection A asks
/// again and cancels. Then the first request arrives.
///
/// Fails if the lock then belongs to A.
fn an_acquire_of_an_older_connection_is_not_executed() -> Result<(), String> {
    let mut fixture = Fixture::bare(0);
    let mut a = TestClient::start(&mut fixture, 1, 1, &ALL, 0);
    let late = a.hold_up()?;
    a.attach_anew(&mut fixture, 2);
    for node in ALL {
        a.machine.handle_down(node);
        a.machine.handle_up(node, at(2));
    }
    a.machine.handle_abandon();
    a.pull(3);
    a.settle(&mut fixture, &ALL, 4);
    for node in ALL {
        fixture.apply(node, 5, &late);
        let now = fixture.time(6);
        if !fixture.stores[node].names(now).is_empty() {
            return Err("the lock belongs to a client that has left".to_owned());
        }
    }
    Ok(())
}

/// A is granted one node of three and asked to yield it. The connection breaks with the yield in
/// flight. Then A gets the two others, holds the lock, and its extension finds the first node
/// unchanged. Then the yield arrives.
///
/// Fails if the node, which A counts, goes to another client.
fn a_yield_of_an_older_connection_is_not_executed() -> Result<(), String> {
    let mut fixture = Fixture::bare(0);
    let mut before = TestClient::start(&mut fixture, 9, 1, &[1, 2], 0);
    before.settle(&mut fixture, &[1, 2], 0);
    let mut early = TestClient::start(&mut fixture, 2, 2, &[0], 0);
    let mut a = TestClient::start(&mut fixture, 1, 3, &ALL, 1);
    a.settle(&mut fixture, &ALL, 1);
    early.come_up(&[1], 1);
    early.settle(&mut fixture, &[0, 1], 2);
    a.listen(&mut fixture, 0, 3)?;
    let late = a.hold_up()?;
    a.attach_anew(&mut fixture, 4);
    // It is queued on the first node only.
    fixture.release(&[1], &early.owner(), 4);
    fixture.release(&[1, 2], &before.owner(), 5);
    [1, 2].into_iter().try_for_each(|node| a.listen(&mut fixture, node, 5))?;
    a.extend(&mut fixture, 0, &a.lease(a.held()?), 6);
    fixture.apply(0, 7, &late);
    match fixture.has(0, &a.owner(), 8) {
        true => Ok(()),
        false => Err("the node gave away a grant that its holder counts".to_owned()),
    }
}

/// A waits, is cut off from two nodes and withdraws; its release on the third node is delayed. The
/// holder releases, A returns and holds the lock by two nodes. Then the old release arrives at one
/// of them, and B asks.
///
/// Fails if B holds the lock as well.
fn a_late_release_does_not_affect_a_waiter_that_returned() -> Result<(), String> {
    let mut fixture = Fixture::bare(0);
    let mut before = TestClient::start(&mut fixture, 9, 1, &ALL, 0);
    before.settle(&mut fixture, &ALL, 0);
    let mut a = TestClient::start(&mut fixture, 1, 2, &ALL, 1);
    a.settle(&mut fixture, &ALL, 1);
    [1, 2].into_iter().for_each(|node| a.machine.handle_down(node));
    let withdrawn = a.owner();
    [35, 69].into_iter().for_each(|ms| a.time_out(ms));
    let late = a.hold_up()?;
    a.machine.handle_down(0);
    fixture.stores.iter_mut().for_each(|store| store.unsubscribe(a.place.client));
    fixture.release(&ALL, &before.owner(), 70);

    a.attach_anew(&mut fixture, 71);
    fixture.release(&[1], &withdrawn, 71);
    a.come_up(&[0, 1], 72);
    a.win(&mut fixture, &[0, 1], 73)?;
    fixture.apply(0, 74, &late);
    let mut b = TestClient::start(&mut fixture, 2, 3, &ALL, 75);
    match b.win(&mut fixture, &[0, 2], 76) {
        Ok(_) => Err("a late release lets a second client hold the lock".to_owned()),
        Err(_) => Ok(()),
    }
}

/// A holds the lock by two nodes, is queued behind B on the third, and detaches the lease. On one
/// of the two nodes it expires; B gets that node, holds the lock, and releases it. Then C adopts
/// the lease of A.
///
/// Fails if C holds the lock with the fence of A because the third node was granted to A.
fn a_detached_lease_is_not_revived() -> Result<(), String> {
    let mut fixture = Fixture::bare(0);
    let mut b = TestClient::start(&mut fixture, 2, 1, &[1, 2], 0);
    b.settle(&mut fixture, &[2], 0);
    let mut a = TestClient::start(&mut fixture, 1, 2, &ALL, 1);
    let fence = a.win(&mut fixture, &ALL, 2)?;
    let mut left = a.owner();
    if mutant::current() != Some(Mutant::DetachQueued) {
        left = a.place.owner(99);
        ALL.into_iter().for_each(|node| _ = a.adopt(&mut fixture, node, (&a.owner(), &left), 3));
    }
    let entry = Extend { owner: left.clone(), may_heal: false, ..a.lease(fence) };
    a.extend(&mut fixture, 0, &entry, 60);
    for ms in [50, 105] {
        b.time_out(ms);
        b.settle(&mut fixture, &[1, 2], ms);
    }
    let held_by_b = b.held()?;
    follows(fence, held_by_b)?;
    fixture.release(&[1, 2], &b.owner(), 110);

    let c = TestClient::start(&mut fixture, 3, 3, &[], 112);
    let mut taking = Try::start(terms(TTL_MS), 3, 112);
    for node in ALL {
        let vote = c.adopt(&mut fixture, node, (&left, &c.owner()), 113);
        taking.vote(node, vote, 114);
    }
    match taking.outcome() {
        Some(Outcome::Held { .. }) => follows(held_by_b, fence),
        _ => Ok(()),
    }
}

fn differs(one: Fence, other: Fence) -> Result<(), String> {
    if one == other { Err(format!("two holders have the fence {one}")) } else { Ok(()) }
}

pub(super) fn follows(before: Fence, after: Fence) -> Result<(), String> {
    match before < after {
        true => Ok(()),
        false => Err(format!("a holder with fence {after} follows a holder with fence {before}")),
    }
}
