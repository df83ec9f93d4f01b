//! Which entries wait, and in which order they are granted.

use std::time::Instant;

use quorate::Mutex;

use super::{Waiter, enter, entry, is_taken, release, reported, wait_until_entered, waiting, won};
use crate::conformance::fixture::{Fixture, LONG, PATIENCE, take};

in_line_on_every_engine! {
    [1, 2, 3, 5] => two_identities_take_turns,
        entry_passes_all_waiters_for_its_identity,
        waiting_entries_are_granted_together,
        identities_are_served_in_the_order_of_their_first_waiters,
        entry_that_gives_up_unblocks_the_next_waiter,
        waiter_before_an_entered_identity_is_granted_next;
    [1, 3] => more_entries_than_a_node_examines_are_granted_together;
}

async fn two_identities_take_turns(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let mut held = enter(&alice, "x").await;
    for turn in 0..8 {
        let (client, identity) = if turn % 2 == 0 { (&bob, "y") } else { (&alice, "x") };
        let nested = enter(if turn % 2 == 0 { &alice } else { &bob }, ["x", "y"][turn % 2]).await;
        let waiter = waiting(fixture, client, entry(client, identity), 1).await;
        release(held).await;
        nested.verify().await.expect("it is held");
        assert!(!waiter.is_finished(), "the nested one has it");
        release(nested).await;
        held = won(waiter).await;
    }
    release(held).await;
    fixture.wait_until_empty(fixture.all());
}

async fn entry_passes_all_waiters_for_its_identity(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let outer = enter(&alice, "x").await;
    let mut waiters = Vec::new();
    for total in 1..=12 {
        let mutex: Mutex = match total % 3 {
            0 => bob.mutex("a"),
            1 => entry(&bob, "y"),
            _ => entry(&bob, &format!("z{total}")),
        };
        waiters.push(waiting(fixture, &bob, mutex, total).await);
    }
    for client in [&alice, &bob] {
        let started = Instant::now();
        let inner = entry(client, "x").try_lock().await.expect("every node answers");
        let inner = inner.expect("its identity has it");
        let waited = entry(client, "x").lock().await.expect("its identity has it");
        assert!(started.elapsed() < super::SOON, "{:?}", started.elapsed());
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        release(inner).await;
        release(waited).await;
    }
    assert_eq!(
        reported(fixture, &alice, |_| true).await.waiting_total,
        12,
        "no waiter has lost its place"
    );
    release(outer).await;
    // The first is of an identity that waits four times.
    for total in [1, 4, 7, 10] {
        assert!(!waiters.is_empty(), "{total} waits");
    }
    let mut guards = Vec::new();
    for at in [9, 6, 3, 0] {
        guards.push(won(waiters.remove(at)).await);
    }
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()), "y has it");
    for guard in guards {
        release(guard).await;
    }
    for waiter in waiters {
        release(won(waiter).await).await;
    }
    fixture.wait_until_empty(fixture.all());
}

async fn waiting_entries_are_granted_together(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guard = take(alice.mutex("a")).await;
    let mut waiters = Vec::new();
    for total in 1..=6 {
        let client = if total % 2 == 0 { &alice } else { &bob };
        waiters.push(waiting(fixture, client, entry(client, "x"), total).await);
    }
    release(guard).await;
    let mut guards = Vec::new();
    for waiter in waiters {
        guards.push(won(waiter).await);
    }
    wait_until_entered(fixture, &alice, 6).await;
    for guard in &guards {
        guard.verify().await.expect("all of them have it");
        assert_eq!(guard.fence(), guards[0].fence());
    }
    assert!(is_taken(alice.mutex("a")).await);
    for guard in guards {
        release(guard).await;
    }
    fixture.wait_until_empty(fixture.all());
}

/// All by one client: two clients' estimates of the nodes' time may differ by a round trip.
async fn identities_are_served_in_the_order_of_their_first_waiters(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let guard = take(client.mutex("a")).await;
    let mut waiters: Vec<(usize, Waiter)> = Vec::new();
    let queue = ["x", "", "y", "x", "z", "y", "", "x"];
    for (at, identity) in queue.into_iter().enumerate() {
        let mutex = if identity.is_empty() { client.mutex("a") } else { entry(&client, identity) };
        waiters.push((at, waiting(fixture, &client, mutex, at as u64 + 1).await));
    }
    release(guard).await;
    let turns: [&[usize]; 5] = [&[0, 3, 7], &[1], &[2, 5], &[4], &[6]];
    for turn in turns {
        let mut guards = Vec::new();
        for place in turn {
            let at = waiters.iter().position(|(at, _)| at == place).expect("it waits");
            guards.push(won(waiters.remove(at).1).await);
        }
        assert!(waiters.iter().all(|(_, waiter)| !waiter.is_finished()), "the turn of {turn:?}");
        for guard in guards {
            guard.verify().await.expect("it is held");
            release(guard).await;
        }
    }
    assert!(waiters.is_empty());
    fixture.wait_until_empty(fixture.all());
}

async fn entry_that_gives_up_unblocks_the_next_waiter(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let guard = take(client.mutex("a")).await;
    let first = waiting(fixture, &client, entry(&client, "x"), 1).await;
    let second = waiting(fixture, &client, entry(&client, "x"), 2).await;
    let other = waiting(fixture, &client, entry(&client, "y"), 3).await;
    first.abort();
    reported(fixture, &client, |report| report.waiting_total == 2).await;
    second.abort();
    reported(fixture, &client, |report| report.waiting_total == 1).await;
    release(guard).await;
    release(won(other).await).await;
    fixture.wait_until_empty(fixture.all());
}

/// It has waited first, so later entries must not pass it forever.
async fn waiter_before_an_entered_identity_is_granted_next(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let mut held = enter(&client, "x").await;
    let waiter = waiting(fixture, &client, client.mutex("a"), 1).await;
    for _ in 0..5 {
        let next = enter(&client, "x").await;
        release(held).await;
        held = next;
    }
    release(held).await;
    let held = won(waiter).await;
    assert!(is_taken(entry(&client, "x")).await);
    release(held).await;
    fixture.wait_until_empty(fixture.all());
}

async fn more_entries_than_a_node_examines_are_granted_together(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let guard = take(client.mutex("a")).await;
    let ttl = LONG / 10;
    let waiters: Vec<Waiter> = (0..MANY)
        .map(|_| {
            let mutex = entry(&client, "x").ttl(ttl);
            tokio::spawn(async move { mutex.lock().await })
        })
        .collect();
    reported(fixture, &client, |report| report.waiting_total == MANY).await;
    release(guard).await;
    let mut guards = Vec::new();
    for waiter in waiters {
        let won = tokio::time::timeout(PATIENCE, waiter).await.expect("it is granted");
        guards.push(won.expect("no panic").expect("its identity has it"));
    }
    for guard in &guards {
        guard.check().expect("all of them have it");
    }
    assert!(is_taken(client.mutex("a")).await);
    for guard in guards {
        release(guard).await;
    }
    fixture.wait_until_empty(fixture.all());
}

const MANY: u64 = 150;
