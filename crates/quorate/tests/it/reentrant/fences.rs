//! The fence of an entry: no smaller than that of any held entry, whatever data nodes have lost.

use quorate::{
    Client,
    fence::Fence,
    memory::{Behaviour, MemoryNodes},
};
use quorate_testkit::{Server, eventually, redis::cmd};

use super::{enter, enter_everywhere, entry, release, wait_until_entered, waiting, won};
use crate::{
    conformance::fixture::{Fixture, PATIENCE, take},
    faults::fixture::ProxyFixture,
};

in_line_on_every_engine! {
    [1, 2, 3, 5] => one_tenure_has_one_fence_and_the_next_a_larger_one;
    [3, 5] => nodes_that_lose_data_make_no_fence_smaller,
        lost_entry_is_restored_beside_later_ones;
}

async fn one_tenure_has_one_fence_and_the_next_a_larger_one(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let mut last: Option<Fence> = None;
    for round in 0..8 {
        let (client, identity) = ([&alice, &bob][round % 2], ["x", "x", "y"][round % 3]);
        let outer = enter_everywhere(fixture, client, identity).await;
        let fence = outer.fence();
        assert!(last < fence, "{last:?} and then {fence:?}");
        let mut held = outer;
        // It is one tenure, although no entry lasts for all of it.
        for _ in 0..4 {
            let next = enter(&alice, identity).await;
            assert_eq!(next.fence(), fence);
            wait_until_entered(fixture, &bob, 2).await;
            release(held).await;
            wait_until_entered(fixture, &bob, 1).await;
            held = next;
        }
        let waiter = waiting(fixture, &bob, bob.mutex("a"), 1).await;
        release(held).await;
        let other = won(waiter).await;
        assert!(fence < other.fence(), "{fence:?} and then {:?}", other.fence());
        last = other.fence();
        release(other).await;
        fixture.wait_until_empty(fixture.all());
    }
}

async fn nodes_that_lose_data_make_no_fence_smaller(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let mut last: Option<Fence> = None;
    for round in 0..6 {
        let outer = enter_everywhere(fixture, &alice, "x").await;
        assert!(last < outer.fence(), "{last:?} and then {:?}", outer.fence());
        for lost in 0..fixture.tolerated() {
            fixture.forget((round + lost) % fixture.len());
        }
        let inner = enter(&bob, "x").await;
        assert!(inner.fence() >= outer.fence(), "{:?} in {:?}", inner.fence(), outer.fence());
        let innermost = enter(&alice, "x").await;
        assert!(innermost.fence() >= inner.fence());
        let most = innermost.fence();
        // The nodes that lost data store all of them again, and reject none for its fence.
        for guard in [&outer, &inner, &innermost] {
            guard.extend(crate::conformance::fixture::LONG).await.expect("a majority has it");
        }
        release(outer).await;
        release(innermost).await;
        assert!(super::is_taken(alice.mutex("a")).await);
        release(inner).await;
        let other = take(bob.mutex("a")).await;
        assert!(most < other.fence(), "{most:?} and then {:?}", other.fence());
        last = other.fence();
        release(other).await;
        fixture.wait_until_empty(fixture.all());
    }
}

async fn lost_entry_is_restored_beside_later_ones(fixture: &Fixture) {
    if fixture.tolerated() == 0 {
        return;
    }
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let outer = enter_everywhere(fixture, &alice, "x").await;
    fixture.forget(0);
    let inner = enter(&bob, "x").await;
    let started = std::time::Instant::now();
    loop {
        outer.extend(crate::conformance::fixture::LONG).await.expect("a majority has it");
        inner.extend(crate::conformance::fixture::LONG).await.expect("a majority has it");
        let report = bob.inspect("a").await.expect("every node answers");
        // A report says on how many nodes the first of them is.
        let entries = |server: &Server| cmd("HLEN").arg("a").query::<u64>(&mut server.connection());
        let are_both = |server| entries(server) == Ok(2);
        let are_told = report.votes == fixture.len() && report.shared_with.len() == 1;
        if are_told && fixture.servers().iter().all(are_both) {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{report:?}");
    }
    // Another node may fail now.
    fixture.forget(1);
    for guard in [&outer, &inner] {
        guard.verify().await.expect("it is held");
    }
    assert!(super::is_taken(entry(&bob, "y")).await);
    release(outer).await;
    release(inner).await;
    fixture.wait_until_empty(fixture.all());
}

/// Each time others are away: every two majorities have a node in common.
#[tokio::test]
async fn nodes_that_are_away_make_no_fence_smaller() {
    for count in [3, 5] {
        let nodes = MemoryNodes::new(count);
        let client = || Client::builder().memory(&nodes).build().expect("valid");
        let (alice, bob) = (client(), client());
        let mut last: Option<Fence> = None;
        for round in 0..2 * count {
            let away = |first: usize, how: Behaviour| {
                (0..count).for_each(|node| nodes.set(node, Behaviour::Answer));
                (0..count / 2).for_each(|node| nodes.set((first + node) % count, how));
            };
            let how = if round % 2 == 0 { Behaviour::Fail } else { Behaviour::Hang };
            away(round, how);
            let outer = enter(&alice, "x").await;
            assert!(last < outer.fence(), "{last:?} and then {:?}", outer.fence());
            away(round + 1, how);
            let inner = enter(&bob, "x").await;
            assert!(inner.fence() >= outer.fence(), "{:?} in {:?}", inner.fence(), outer.fence());
            away(round + 2, how);
            let innermost = enter(&alice, "x").await;
            assert!(innermost.fence() >= inner.fence());
            last = innermost.fence();
            (0..count).for_each(|node| nodes.set(node, Behaviour::Answer));
            for guard in [outer, inner, innermost] {
                release(guard).await;
            }
            let is_empty = || (0..count).all(|node| nodes.names(node).is_empty());
            eventually("no key is left", PATIENCE, is_empty);
        }
    }
}

#[tokio::test]
async fn server_that_is_killed_or_restarts_empty_makes_no_fence_smaller() {
    let fixture = ProxyFixture::start(3);
    let (alice, bob) = (fixture.connect(), fixture.connect());
    let outer = enter(&alice, "x").await;
    fixture.servers[0].kill();
    let inner = enter(&bob, "x").await;
    assert!(inner.fence() >= outer.fence());
    outer.verify().await.expect("two of three");
    fixture.servers[0].restart_empty();
    let innermost = enter(&alice, "x").await;
    assert!(innermost.fence() >= inner.fence());
    assert!(super::is_taken(bob.mutex("a")).await);
    let most = innermost.fence();
    for guard in [innermost, outer, inner] {
        release(guard).await;
    }
    let other = take(bob.mutex("a")).await;
    assert!(most < other.fence());
    release(other).await;
    fixture.wait_until_empty("after the last release");
}
