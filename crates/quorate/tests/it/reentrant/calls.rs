//! All calls on an entry work as on any lock.

use std::time::Duration;

use quorate::{
    DetachedLease, LeaseTag, blocking,
    error::{LeaseError, LockError, LostReason, WithError},
};

use super::{enter, entry, is_taken, release, reported, wait_until_entered, waiting, won};
use crate::conformance::fixture::{Fixture, LONG, PATIENCE, take};

in_line_on_every_engine! {
    [1, 3] => dropped_entry_is_released,
        timeout_names_the_holder,
        ended_wait_leaves_nothing,
        work_is_done_inside_of_entries,
        entry_is_extended_and_verified,
        entry_is_handed_over_and_keeps_its_identity,
        handed_over_entry_is_renewed_and_released_by_others,
        tagged_entry_is_found_and_keeps_its_identity,
        threads_without_a_runtime_enter;
}

async fn dropped_entry_is_released(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let outer = enter(&alice, "x").await;
    let inner = enter(&bob, "x").await;
    let waiter = waiting(fixture, &bob, bob.mutex("a"), 1).await;
    drop(inner);
    wait_until_entered(fixture, &alice, 1).await;
    assert!(!waiter.is_finished(), "the outer one has it");
    // On a thread without a runtime: a guard can be dropped anywhere.
    std::thread::spawn(move || drop(outer)).join().expect("a drop does not panic");
    release(won(waiter).await).await;
    fixture.wait_until_empty(fixture.all());
}

async fn timeout_names_the_holder(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("billing/db1/4711").await, fixture.client("bob").await);
    let _outer = enter(&alice, "x").await;
    let _inner = enter(&alice, "x").await;
    for mutex in [bob.mutex("a"), entry(&bob, "y"), entry(&alice, "y")] {
        let error = mutex.lock_timeout(Duration::from_millis(30)).await.expect_err("x has it");
        let LockError::Timeout { holder: Some(holder), .. } = error else { panic!("{error}") };
        assert_eq!(holder.who, "billing/db1/4711");
        reported(fixture, &bob, |report| report.waiting_total == 0).await;
    }
    let labelled = take(entry(&bob, "x").who("step 3")).await;
    let report = reported(fixture, &bob, |report| report.shared_with.len() == 2).await;
    assert!(report.shared_with.iter().any(|it| it.who == "step 3"), "{report:?}");
    release(labelled).await;
}

async fn ended_wait_leaves_nothing(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let guard = take(alice.mutex("a")).await;
    for wait in [0, 1, 5, 50].map(Duration::from_millis) {
        let waited = entry(&bob, "x").lock_timeout(wait).await;
        assert!(waited.is_err(), "{waited:?}");
    }
    let waiter = waiting(fixture, &bob, entry(&bob, "x"), 1).await;
    waiter.abort();
    reported(fixture, &alice, |report| report.waiting_total == 0).await;
    release(guard).await;
    fixture.wait_until_empty(fixture.all());
}

async fn work_is_done_inside_of_entries(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let job = entry(&client, "x");
    let sum = job.with(async |outer| {
        let inner = job.with(async |inner| {
            assert!(is_taken(client.mutex("a")).await);
            inner.check().expect("it is held");
            1
        });
        let inner = inner.await.expect("its identity has it");
        outer.check().expect("it is held");
        assert!(is_taken(client.mutex("a")).await, "the outer one has it");
        inner + 1
    });
    assert_eq!(sum.await.expect("it is free"), 2);
    fixture.wait_until_empty(fixture.all());
    let brief = job.clone().max_hold(Duration::from_millis(20));
    let outer = enter(&client, "x").await;
    let late = brief.with(async |_| std::future::pending::<()>().await).await;
    let Err(WithError::Lost(lost)) = late else { panic!("{late:?}") };
    assert_eq!(lost.reason, LostReason::MaxHold);
    outer.verify().await.expect("that was another entry");
    release(outer).await;
    fixture.wait_until_empty(fixture.all());
}

async fn entry_is_extended_and_verified(fixture: &Fixture) {
    let client = fixture.client("alice").await;
    let guards = [enter(&client, "x").await, enter(&client, "x").await];
    guards[0].extend(2 * LONG).await.expect("a majority has it");
    assert!(guards[0].remaining() > LONG && guards[1].remaining() < LONG);
    for guard in guards {
        guard.verify().await.expect("a majority has it");
        release(guard).await;
    }
    fixture.wait_until_empty(fixture.all());
}

async fn entry_is_handed_over_and_keeps_its_identity(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let outer = enter(&alice, "job 7").await;
    let inner = enter(&alice, "job 7").await;
    let fence = inner.fence();
    let lease = inner.detach().await.unwrap().expose_secret();
    let lease: DetachedLease = lease.parse().expect("it is one");
    assert_eq!(lease.fence(), fence);
    let adopted = bob.adopt(&lease).await.expect("it is there");
    assert!(matches!(bob.adopt(&lease).await, Err(LeaseError::Lost(_))), "once");
    assert_eq!(adopted.fence(), fence);
    adopted.extend(LONG).await.expect("a majority has it");
    release(outer).await;
    adopted.verify().await.expect("bob has it");
    assert!(is_taken(alice.mutex("a")).await);
    assert!(is_taken(entry(&bob, "job 8")).await);
    let report = reported(fixture, &bob, |report| report.shared_with.is_empty()).await;
    let holder = report.holder.expect("bob");
    assert_eq!((holder.identity.as_deref(), &*holder.who), (Some("job 7"), "bob"));
    let joined = enter(&alice, "job 7").await;
    assert!(joined.fence() >= fence);
    release(adopted).await;
    assert!(is_taken(bob.mutex("a")).await);
    release(joined).await;
    fixture.wait_until_empty(fixture.all());
}

async fn handed_over_entry_is_renewed_and_released_by_others(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let lease = enter(&alice, "x").await.detach().await.unwrap();
    // In the meantime only its identity can enter.
    assert!(is_taken(bob.mutex("a")).await);
    let inner = enter(&bob, "x").await;
    assert!(bob.renew_lease(&lease).await.expect("it is there") > LONG / 2);
    bob.release_lease(&lease).await.expect("it is there");
    assert!(bob.renew_lease(&lease).await.is_err(), "it has ended");
    inner.verify().await.expect("that was another entry");
    assert!(is_taken(alice.mutex("a")).await);
    release(inner).await;
    fixture.wait_until_empty(fixture.all());
}

async fn tagged_entry_is_found_and_keeps_its_identity(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let outer = enter(&bob, "é!:r%61").await;
    let lease = take(entry(&alice, "é!:r%61").who("a@b~c!d:r")).await.detach().await.unwrap();
    let tag = LeaseTag::new([0xa5; LeaseTag::LEN]);
    let tagged = alice.tag_lease(&lease, tag).await.expect("every node answers");
    let found = bob.tagged_leases(["a"]).await.expect("every node answers");
    assert_eq!((found.len(), found[0].tag, &found[0].lease), (1, tag, &tagged));
    release(outer).await;
    bob.renew_lease(&found[0].lease).await.expect("it is still held");
    let report = reported(fixture, &bob, |report| report.shared_with.is_empty()).await;
    let holder = report.holder.expect("it is held");
    assert_eq!(holder.identity.as_deref(), Some("é!:r%61"));
    assert_eq!(holder.who, "a@b~c!d:r");
    assert!(is_taken(bob.mutex("a")).await);
    release(enter(&bob, "é!:r%61").await).await;
    bob.release_lease(&found[0].lease).await.expect("it was held");
    assert_eq!(bob.tagged_leases(["a"]).await.expect("every node answers"), []);
    fixture.wait_until_empty(fixture.all());
}

async fn threads_without_a_runtime_enter(fixture: &Fixture) {
    let bob = fixture.client("bob").await;
    let client = fixture.connect(fixture.builder().identity("job 7")).await;
    let threads = std::thread::spawn(move || {
        let client = blocking::Client::try_from(client).expect("it has an engine of its own");
        assert_eq!(client.identity(), "job 7");
        let job = client.mutex("a").reentrant(client.identity());
        let outer = job.lock_timeout(PATIENCE).expect("it is free");
        let inner = job.try_lock().expect("every node answers").expect("its identity has it");
        outer.verify().expect("it is held");
        assert!(inner.fence() >= outer.fence());
        outer.release().expect("it was held");
        assert!(client.mutex("a").try_lock().expect("every node answers").is_none());
        let nested = std::thread::scope(|scope| {
            scope.spawn(|| job.with(|guard| guard.check()).expect("its identity has it")).join()
        });
        nested.expect("no panic").expect("it is held");
        inner.release().expect("it was held");
    });
    let joined = tokio::task::spawn_blocking(move || threads.join()).await;
    joined.expect("no panic").expect("no panic");
    release(take(bob.mutex("a")).await).await;
    fixture.wait_until_empty(fixture.all());
}
