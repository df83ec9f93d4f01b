//! Nodes that lose their data.

use quorate::{
    Client,
    error::NodeAnswer,
    memory::{Behaviour, MemoryNodes},
};
use quorate_testkit::eventually;

use super::fixture::{Fixture, LONG, PATIENCE, holder, take};
use crate::mode::Mode;

on_every_engine! {
    [3, 4, 5] => minority_that_lost_its_data_grants_no_majority,
        holder_restores_its_key_on_a_minority_in_the_default_mode,
        minority_that_restarts_empty_takes_part_again;
}

async fn minority_that_lost_its_data_grants_no_majority(fixture: &Fixture) {
    let fixture = &fixture.unprotected();
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guard = take(alice.mutex("a")).await;
    fixture.wait_until_only("a", fixture.all());
    let forgetful = 0..fixture.tolerated();
    forgetful.clone().for_each(|node| fixture.restart_empty(node));

    guard.verify().await.expect("a majority has it");
    assert!(bob.mutex("a").try_lock().await.expect("a majority answers").is_none());
    for client in [&alice, &bob] {
        let is_back = || client.node_status().iter().all(|it| it.answer == NodeAnswer::Attached);
        eventually("every node is attached again", PATIENCE, is_back);
    }
    // Now bob's request does reach the empty nodes, and must not stay there.
    assert!(bob.mutex("a").try_lock().await.expect("every node answers").is_none());
    fixture.wait_until_empty(forgetful.clone());
    assert_eq!(holder(&bob, "a").await.who, "alice");
    guard.verify().await.expect("a majority has it");
    guard.extend(LONG).await.expect("and extends it");
    // Bob was granted it there meanwhile, so alice is not given it again in any mode.
    fixture.wait_until_empty(forgetful);
    guard.release().await.expect("it was held");
    fixture.wait_until_empty(fixture.all());
}

async fn holder_restores_its_key_on_a_minority_in_the_default_mode(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let guard = take(client.mutex("a")).await;
    fixture.wait_until_only("a", fixture.all());
    let forgetful = 0..fixture.tolerated();
    forgetful.clone().for_each(|node| fixture.forget(node));
    match fixture.mode() {
        Mode::Queue => fixture.extend_until_healed(&guard).await,
        Mode::Classic => {
            guard.extend(LONG).await.expect("a majority has it");
            fixture.wait_until_empty(forgetful);
        }
    }
    guard.verify().await.expect("it is held");
    guard.release().await.expect("it was held");
    fixture.wait_until_empty(fixture.all());
}

async fn minority_that_restarts_empty_takes_part_again(fixture: &Fixture) {
    let fixture = &fixture.unprotected();
    let client = fixture.client("alice").await;
    (0..fixture.tolerated()).for_each(|node| fixture.restart_empty(node));
    let is_back = || client.node_status().iter().all(|it| it.answer == NodeAnswer::Attached);
    eventually("every node is attached again", PATIENCE, is_back);
    let guard = take(client.mutex("a")).await;
    fixture.wait_until_only("a", fixture.all());
    guard.release().await.expect("it was held");
    fixture.wait_until_empty(fixture.all());
}

/// What is not guaranteed: one node of three that forgets is enough to break exclusion if another
/// node was away when the lock was acquired.
#[tokio::test(flavor = "multi_thread")]
async fn one_node_that_loses_its_data_breaks_exclusion_if_another_never_had_the_key() {
    let nodes = MemoryNodes::new(3);
    let client = || Client::builder().memory(&nodes).ttl(LONG).build().expect("valid");
    let (alice, bob) = (client(), client());
    nodes.set(2, Behaviour::Fail);
    let guard = alice.mutex("a").lock().await.expect("a majority answers");
    nodes.set(2, Behaviour::Answer);
    assert!(nodes.names(2).is_empty(), "only the next extension stores the lock there");
    nodes.forget(1);
    let second = bob.mutex("a").lock_timeout(PATIENCE).await.expect("two nodes know of no holder");
    guard.check().expect("it does not know this yet");
    assert!(guard.fence() < second.fence(), "the resource can distinguish them");
    assert!(guard.verify().await.is_err(), "it notices as soon as it asks");
}
