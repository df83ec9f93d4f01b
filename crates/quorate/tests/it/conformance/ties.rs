//! Even numbers of nodes, on which there may be a tie without a majority.

use std::time::Duration;

use quorate::{Warning, error::LockError};

use super::fixture::{Fixture, holder};

on_every_engine! {
    [1, 2, 3, 4, 5] => only_even_numbers_of_nodes_are_warned_about;
    [2, 4] => tie_grants_nothing_and_leaves_nothing_behind,
        waiter_acquires_when_a_tie_ends;
}

async fn only_even_numbers_of_nodes_are_warned_about(fixture: &Fixture) {
    let warnings = fixture.client("alice").await.warnings();
    let nodes = fixture.len();
    if nodes.is_multiple_of(2) {
        assert_eq!(warnings, [Warning::EvenNodes { nodes }]);
        let expected = format!("{nodes} nodes tolerate {} failures", nodes / 2 - 1);
        assert!(warnings[0].to_string().contains(&expected), "{}", warnings[0]);
    } else {
        assert_eq!(warnings, []);
    }
}

/// Another owner holds half of the nodes, so the other half is no majority.
async fn tie_grants_nothing_and_leaves_nothing_behind(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let half = fixture.len() / 2;
    (0..half).for_each(|node| fixture.plant(node, "a", b"another program"));

    let tried = client.mutex("a").try_lock().await.expect("every node answers");
    assert!(tried.is_none(), "half is no majority");
    fixture.wait_until_empty(half..fixture.len());

    assert_eq!(holder(&client, "a").await.who, "another program");
    let waited = client.mutex("a").lock_timeout(Duration::from_millis(30)).await;
    assert!(matches!(waited, Err(LockError::Timeout { .. })), "{waited:?}");
    fixture.wait_until_empty(half..fixture.len());
    fixture.wait_until_only("a", 0..half);
}

async fn waiter_acquires_when_a_tie_ends(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let half = fixture.len() / 2;
    (0..half).for_each(|node| fixture.plant(node, "a", b"another program"));
    let mutex = client.mutex("a");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    assert!(client.mutex("a").try_lock().await.expect("every node answers").is_none());
    assert!(!waiting.is_finished(), "half is no majority");

    // One node more than half is enough.
    fixture.forget(0);
    let guard = waiting.await.expect("no panic").expect("a majority is free");
    guard.verify().await.expect("it is held");
    guard.release().await.expect("it was held");
    fixture.wait_until_empty((0..fixture.len()).filter(|node| !(1..half).contains(node)));
    fixture.wait_until_only("a", 1..half);
}
