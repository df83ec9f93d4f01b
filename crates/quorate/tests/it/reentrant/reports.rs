//! Reports about a lock with entries, and what remains on the nodes.

use super::{enter, entry, release, reported, wait_until_entered, waiting, won};
use crate::conformance::fixture::{Fixture, on_servers, take};

in_line_on_every_engine! {
    [1, 2, 3, 5] => reports_list_all_entries_with_their_identity,
        text_of_a_report_counts_the_entries;
}

async fn reports_list_all_entries_with_their_identity(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guards = [enter(&alice, "x").await, enter(&bob, "x").await, enter(&bob, "x").await];
    let waiter = waiting(fixture, &bob, entry(&bob, "y"), 1).await;
    wait_until_entered(fixture, &alice, 3).await;
    let report = reported(fixture, &alice, |report| report.waiting_total == 1).await;
    let holder = report.holder.clone().expect("a holder");
    let mut whos: Vec<&str> = report.shared_with.iter().map(|it| &*it.who).collect();
    whos.push(&holder.who);
    whos.sort_unstable();
    assert_eq!(whos, ["alice", "bob", "bob"]);
    assert!(report.is_held(), "{report:?}");
    for it in report.shared_with.iter().chain([&holder]) {
        assert_eq!(it.identity.as_deref(), Some("x"), "{report:?}");
        assert!(!it.is_shared && !it.is_foreign, "{report:?}");
        assert!(it.fence.is_some() && it.held_for.is_some() && it.expires_in.is_some());
    }
    let list = alice.locks("").all().await.expect("every node answers");
    assert_eq!(list.locks.len(), 1);
    assert_eq!(list.locks[0].name, "a");
    assert_eq!(list.locks[0].shared_with.len(), 2);
    let holder = list.locks[0].holder.clone().expect("a holder");
    assert_eq!(holder.identity.as_deref(), Some("x"));
    for guard in guards {
        release(guard).await;
    }
    let next = won(waiter).await;
    let report = reported(fixture, &bob, |report| report.waiting_total == 0).await;
    assert_eq!(report.holder.expect("y").identity.as_deref(), Some("y"));
    release(next).await;
    fixture.wait_until_empty(fixture.all());
}

async fn text_of_a_report_counts_the_entries(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let mut guards = vec![enter(&client, "job \"7\"").await];
    wait_until_entered(fixture, &client, 1).await;
    let alone = client.inspect("a").await.expect("every node answers");
    assert!(!alone.to_string().contains("shared"), "{alone}");
    for times in 2..5 {
        guards.push(enter(&client, "job \"7\"").await);
        wait_until_entered(fixture, &client, times).await;
        let report = client.inspect("a").await.expect("every node answers").to_string();
        let wanted = format!("entered {times} times by \"job \\\"7\\\"\"");
        assert!(report.contains(&wanted) && !report.contains("shared"), "{report}");
    }
    for guard in guards {
        release(guard).await;
    }
    fixture.wait_until_empty(fixture.all());
    // No other kind of holder has an identity.
    let guard = take(client.mutex("a")).await;
    let report = client.inspect("a").await.expect("every node answers");
    assert_eq!(report.holder.expect("alice").identity, None);
    release(guard).await;
    let reader = client.rwlock("a").read().await.expect("it is free");
    let report = client.inspect("a").await.expect("every node answers");
    assert_eq!(report.holder.expect("alice").identity, None);
    release(reader.into_guard()).await;
}

#[test]
fn only_the_fence_of_the_last_grant_is_left_on_a_server() {
    on_servers(&[1, 3], async |fixture: &Fixture| {
        let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
        let guards = [enter(&alice, "x").await, enter(&bob, "x").await];
        let waiter = waiting(fixture, &bob, entry(&bob, "y"), 1).await;
        for guard in guards {
            release(guard).await;
        }
        release(won(waiter).await).await;
        fixture.wait_until_empty(fixture.all());
        for server in fixture.servers() {
            let of_clients = [&b"quorate:s:"[..], b"quorate:w:", b"quorate:node"];
            let mut keys = server.keys();
            keys.retain(|key| !of_clients.iter().any(|kind| key.starts_with(kind)));
            assert_eq!(keys, [b"quorate:f:{a}"]);
        }
    });
}
