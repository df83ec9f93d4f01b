//! Entries of one identity, in one client and in several.

use super::{
    assert_others_are_excluded, enter, enter_everywhere, entry, release, reported,
    wait_until_entered,
};
use crate::conformance::fixture::Fixture;

in_line_on_every_engine! {
    [1, 2, 3, 5] => entries_nest_in_one_client,
        entries_nest_across_clients,
        outer_entry_may_be_released_first,
        entry_of_every_depth_excludes_others,
        identity_of_a_client_is_unique_unless_configured,
        locks_of_other_names_are_other_locks;
}

async fn entries_nest_in_one_client(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let outer = enter_everywhere(fixture, &client, "x").await;
    let middle = enter(&client, "x").await;
    let inner = entry(&client, "x").try_lock().await.expect("every node answers");
    let inner = inner.expect("its identity has it");
    let last = entry(&client, "x").lock().await.expect("its identity has it");
    for guard in [&middle, &inner, &last] {
        guard.verify().await.expect("it is held");
        assert_eq!(guard.fence(), outer.fence());
        assert_ne!(guard.owner_id(), outer.owner_id());
    }
    for guard in [last, inner, middle, outer] {
        assert_others_are_excluded(&client).await;
        release(guard).await;
    }
    fixture.wait_until_empty(fixture.all());
}

async fn entries_nest_across_clients(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let outer = enter_everywhere(fixture, &alice, "x").await;
    let inner = enter(&bob, "x").await;
    let back = enter(&alice, "x").await;
    for guard in [&outer, &inner, &back] {
        guard.verify().await.expect("it is held");
        assert_eq!(guard.fence(), outer.fence());
    }
    for guard in [back, inner, outer] {
        assert_others_are_excluded(&alice).await;
        assert_others_are_excluded(&bob).await;
        release(guard).await;
    }
    fixture.wait_until_empty(fixture.all());
}

async fn outer_entry_may_be_released_first(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let outer = enter_everywhere(fixture, &alice, "x").await;
    let fence = outer.fence();
    let inner = enter(&bob, "x").await;
    release(outer).await;
    inner.verify().await.expect("it is held");
    assert_others_are_excluded(&alice).await;
    let next = enter(&alice, "x").await;
    assert_eq!(next.fence(), fence);
    release(inner).await;
    next.verify().await.expect("it is held");
    assert_others_are_excluded(&bob).await;
    release(next).await;
    fixture.wait_until_empty(fixture.all());
}

async fn entry_of_every_depth_excludes_others(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let mut guards = Vec::new();
    for depth in 1..=DEPTH {
        guards.push(enter(&client, "x").await);
        wait_until_entered(fixture, &client, depth).await;
    }
    // In an order that is neither that of the entries nor its reverse.
    while !guards.is_empty() {
        assert_others_are_excluded(&client).await;
        release(guards.swap_remove(guards.len() / 2)).await;
    }
    fixture.wait_until_empty(fixture.all());
    enter(&client, "another").await.verify().await.expect("it is free");
}

async fn identity_of_a_client_is_unique_unless_configured(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    assert_ne!(alice.identity(), bob.identity());
    let _outer = enter(&alice, alice.identity()).await;
    let _inner = enter(&alice.clone(), alice.identity()).await;
    assert!(super::is_taken(entry(&bob, bob.identity())).await);
    let _child = enter(&bob, alice.identity()).await;
    let named = fixture.connect(fixture.builder().identity("job 7")).await;
    assert_eq!(named.identity(), "job 7");
    let report = reported(fixture, &named, |report| report.shared_with.len() == 2).await;
    assert_eq!(report.holder.expect("alice").identity.as_deref(), Some(alice.identity()));
}

async fn locks_of_other_names_are_other_locks(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let held = enter(&client, "x").await;
    let other = client.mutex("b").reentrant("x").lock().await.expect("it is free");
    drop(client.mutex("c").reentrant("y").lock().await.expect("it is free"));
    release(held).await;
    other.verify().await.expect("it is another lock");
    assert!(super::is_taken(client.mutex("b")).await);
    drop(enter(&client, "y").await);
}

const DEPTH: usize = 7;
