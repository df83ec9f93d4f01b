//! Writers that become readers: no other writer holds the lock in between, and waiting readers
//! acquire it.

use std::time::Instant;

use quorate::{
    error::{
        DowngradeError,
        LostReason::{Expired, MaxHold, ShutDown},
    },
    memory::Behaviour::{Answer, Fail, Hang},
};

use super::together::{Wants, lock, read, reported, wait_until_gone, waiting, won};
use crate::{
    conformance::fixture::{
        Fixture, LONG, PATIENCE, SHORT, on_memory_in_classic_mode, on_servers_in_classic_mode,
    },
    faults::fixture::{ProxyFixture, connect_to_all},
    links::executor::block_on,
    watchdog::fixture::{NAME, PausedFixture, TICK, TTL, is_taken, pass, promised_until},
};

in_line_on_every_engine! {
    [1, 2, 3, 5] => downgraded_writer_shares_with_other_readers,
        waiting_writer_does_not_acquire_during_a_downgrade,
        waiting_readers_are_granted_up_to_the_next_writer,
        downgraded_writer_is_reported_as_a_reader,
        dropped_call_leaves_nothing;
    [1, 3] => downgraded_writer_is_still_renewed,
        downgraded_writer_can_be_handed_over;
}

async fn downgraded_writer_shares_with_other_readers(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let writer = lock(&alice).write().await.expect("it is free");
    let owner = writer.owner_id();
    assert!(writer.fence().is_some());
    let reader = writer.downgrade().await.expect("a majority has it");
    assert!(reader.owner_id() != owner && reader.owner_id().expose_secret().ends_with(":s"));
    assert_eq!(reader.name(), "a");
    assert!(reader.remaining() > LONG / 2 && reader.remaining() < LONG, "of its own ttl");
    reader.verify().await.expect("it has it");
    let later = read(&bob).await;
    assert!(lock(&bob).try_write().await.expect("every node answers").is_none());
    reader.release().await.expect("it was held");
    assert!(
        lock(&bob).try_write().await.expect("every node answers").is_none(),
        "one reader still holds it"
    );
    later.release().await.expect("it was held");
    lock(&bob).write().await.expect("nobody reads").release().await.expect("it was held");
    wait_until_gone(fixture);
}

async fn waiting_writer_does_not_acquire_during_a_downgrade(fixture: &Fixture) {
    let alice = fixture.client("alice").await;
    let writer = lock(&alice).write().await.expect("it is free");
    let before = writer.fence();
    let next = waiting(fixture, &alice, Wants::Write, 1).await;
    let behind = waiting(fixture, &alice, Wants::Read, 2).await;
    let reader = writer.downgrade().await.expect("a majority has it");
    // The nodes answer this request after the downgrade.
    reported(fixture, &alice, |report| report.holder.as_ref().is_some_and(|it| it.is_shared)).await;
    reader.verify().await.expect("it has it");
    assert!(!next.is_finished(), "a reader holds it");
    assert!(!behind.is_finished(), "a writer is queued before it");
    reader.release().await.expect("no other client held it");
    let next = won(next).await;
    assert!(next.fence() > before, "those of writers grow");
    assert!(!behind.is_finished(), "a writer holds it");
    next.release().await.expect("it was held");
    drop(won(behind).await);
    wait_until_gone(fixture);
}

async fn waiting_readers_are_granted_up_to_the_next_writer(fixture: &Fixture) {
    let alice = fixture.client("alice").await;
    let writer = lock(&alice).write().await.expect("it is free");
    let first = waiting(fixture, &alice, Wants::Read, 1).await;
    let second = waiting(fixture, &alice, Wants::Read, 2).await;
    let next = waiting(fixture, &alice, Wants::Write, 3).await;
    let last = waiting(fixture, &alice, Wants::Read, 4).await;
    let started = Instant::now();
    let reader = writer.downgrade().await.expect("a majority has it");
    let together = [won(first).await, won(second).await, reader.into_guard()];
    assert!(started.elapsed() < LONG / 3, "they need not ask again");
    for reader in &together {
        reader.verify().await.expect("all of them have it");
    }
    assert!(!next.is_finished() && !last.is_finished(), "they have it");
    for reader in together {
        reader.release().await.expect("it was held");
    }
    won(next).await.release().await.expect("it was held");
    drop(won(last).await);
    wait_until_gone(fixture);
}

async fn downgraded_writer_is_reported_as_a_reader(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let writer = lock(&alice).who("the importer").write().await.expect("it is free");
    reported(fixture, &bob, |report| report.votes == fixture.len()).await;
    let reader = writer.downgrade().await.expect("a majority has it");
    let is_shared = reported(fixture, &bob, |report| {
        report.votes == fixture.len() && report.holder.as_ref().is_some_and(|it| it.is_shared)
    });
    let holder = is_shared.await.holder.expect("a holder");
    assert_eq!((&*holder.who, holder.fence), ("the importer", None));
    assert!(holder.held_for.is_some() && holder.expires_in.is_some());
    reader.release().await.expect("it was held");
}

async fn dropped_call_leaves_nothing(fixture: &Fixture) {
    let alice = fixture.client("alice").await;
    let writer = lock(&alice).write().await.expect("it is free");
    drop(writer.downgrade().await.expect("a majority has it"));
    wait_until_gone(fixture);
    // In flight to the nodes, or not even begun.
    for polls in [0, 1] {
        let writer = lock(&alice).write().await.expect("it is free");
        let mut call = Box::pin(writer.downgrade());
        for _ in 0..polls {
            drop(crate::cancellation::fixture::poll(call.as_mut()));
        }
        drop(call);
        wait_until_gone(fixture);
    }
}

async fn downgraded_writer_is_still_renewed(fixture: &Fixture) {
    let alice = fixture.client("alice").await;
    let ttl = SHORT * 2;
    let reader = lock(&alice).ttl(ttl).write().await.expect("it is free").downgrade().await;
    let reader = reader.expect("a majority has it");
    let started = Instant::now();
    while started.elapsed() < ttl * 3 {
        read(&alice).await.release().await.expect("it was held");
    }
    reader.check().expect("it is renewed");
    reader.extend(LONG).await.expect("a majority has it");
    reader.release().await.expect("it was held");
    let writer = lock(&alice).ttl(ttl).no_renew().write().await.expect("nobody reads");
    let reader = writer.downgrade().await.expect("a majority has it");
    let lost = tokio::time::timeout(PATIENCE, reader.lost()).await.expect("it is not renewed");
    assert_eq!(lost.reason, Expired);
}

async fn downgraded_writer_can_be_handed_over(fixture: &Fixture) {
    let (alice, bob) = (fixture.client("alice").await, fixture.client("bob").await);
    let writer = lock(&alice).write().await.expect("it is free");
    let lease = writer.downgrade().await.expect("a majority has it").detach().await.unwrap();
    assert_eq!(lease.fence(), None);
    let reader = bob.adopt(&lease).await.expect("it is there");
    let other = read(&alice).await;
    reader.release().await.expect("it was held");
    other.release().await.expect("it was held");
    wait_until_gone(fixture);
}

#[test]
fn downgrade_in_classic_mode_fails_and_releases_the_lock() {
    let body = async |fixture: &Fixture| {
        let client = fixture.client("alice").await;
        let writer = lock(&client).write().await.expect("it is free");
        let error = writer.downgrade().await.expect_err("not in this mode");
        assert_eq!(error, DowngradeError::NotShared { lock: "a".into() });
        assert!(error.to_string().contains("classic mode"), "{error}");
        wait_until_gone(fixture);
    };
    on_memory_in_classic_mode(&[1, 3], body);
    on_servers_in_classic_mode(&[1, 3], body);
}

#[tokio::test(start_paused = true)]
async fn downgrade_succeeds_without_a_minority_that_stores_the_reader_later() {
    for away in [Fail, Hang] {
        let fixture = PausedFixture::new(3);
        let lock = fixture.client.rwlock(NAME);
        let writer = lock.write().await.unwrap();
        fixture.behave(&[Answer, away, Answer]);
        let reader = writer.downgrade().await.unwrap();
        let other = lock.read().await.unwrap();
        assert!(lock.try_write().await.unwrap().is_none(), "{away:?}");
        fixture.behave(&[Answer; 3]);
        pass(TTL).await;
        reader.check().unwrap();
        assert_eq!(fixture.holding(), 3, "{away:?}");
        reader.release().await.unwrap();
        other.release().await.unwrap();
        assert_eq!(fixture.holding(), 0, "{away:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn downgrade_waits_for_a_majority_until_the_lease_expires() {
    let fixture = PausedFixture::new(3);
    let lock = fixture.client.rwlock(NAME);
    let writer = lock.write().await.unwrap();
    fixture.behave(&[Fail, Fail, Answer]);
    let call = tokio::spawn(writer.downgrade());
    pass(TTL / 2).await;
    fixture.behave(&[Answer; 3]);
    let reader = call.await.unwrap().unwrap();
    assert!(lock.try_read().await.unwrap().is_some());

    reader.release().await.unwrap();
    let writer = lock.write().await.unwrap();
    let watcher = tokio::spawn(writer.lost());
    fixture.behave(&[Fail, Fail, Answer]);
    let error = writer.downgrade().await.unwrap_err();
    assert!(matches!(&error, DowngradeError::Lost(lost) if lost.reason == Expired), "{error}");
    assert_eq!(watcher.await.unwrap().reason, Expired, "so does the watcher");
    fixture.behave(&[Answer; 3]);
    pass(TICK).await;
    assert_eq!(fixture.holding(), 0);
}

#[tokio::test(start_paused = true)]
async fn downgrade_without_a_majority_fails_and_leaves_nothing() {
    let fixture = PausedFixture::new(3);
    let lock = fixture.client.rwlock(NAME);
    let writer = lock.write().await.unwrap();
    let next = tokio::spawn(async move { lock.write().await });
    pass(TICK).await;
    fixture.behave(&[Hang, Hang, Answer]);
    let error = writer.downgrade().await.unwrap_err();
    let DowngradeError::NoQuorum { nodes, .. } = error else { panic!("{error}") };
    assert_eq!(nodes.len(), 3);
    assert!(!next.is_finished(), "two nodes have received nothing");
    fixture.behave(&[Answer; 3]);
    pass(TICK).await;
    next.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(fixture.holding(), 0);
}

/// Two of three nodes have lost the key, and no other client holds it.
#[tokio::test(start_paused = true)]
async fn writer_lost_on_a_majority_does_not_become_a_reader() {
    let fixture = PausedFixture::new(3);
    let writer = fixture.client.rwlock(NAME).write().await.unwrap();
    fixture.nodes.forget(0);
    fixture.nodes.forget(1);
    let error = writer.downgrade().await.unwrap_err();
    assert!(matches!(&error, DowngradeError::NoQuorum { .. }), "{error}");
    pass(TICK).await;
    assert_eq!(fixture.holding(), 0);
}

/// The reader's time counts from when the nodes were asked, and the writer's limit is its own.
#[tokio::test(start_paused = true)]
async fn reader_has_a_new_ttl_and_the_limit_of_the_writer() {
    let fixture = PausedFixture::new(3);
    let lock = fixture.client.rwlock(NAME).no_renew();
    let writer = lock.write().await.unwrap();
    pass(TTL / 2).await;
    let asked = tokio::time::Instant::now();
    let reader = writer.downgrade().await.unwrap();
    let left = promised_until(asked, TTL).duration_since(tokio::time::Instant::now());
    assert_eq!(reader.remaining(), left);
    reader.release().await.unwrap();

    let writer = fixture.client.rwlock(NAME).max_hold(TTL * 2).write().await.unwrap();
    pass(TTL).await;
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(reader.lost().await.reason, MaxHold);
    assert!(asked.elapsed() < TTL * 3, "of the writer's limit, not a new one");
}

/// The loss token of the writer reports nothing about the reader, which has its own.
#[tokio::test(start_paused = true)]
async fn loss_of_the_reader_is_reported() {
    let fixture = PausedFixture::new(3);
    let writer = fixture.client.rwlock(NAME).write().await.unwrap();
    let of_writer = writer.lost();
    let of_writer = tokio::spawn(of_writer);
    let reader = writer.downgrade().await.unwrap();
    fixture.behave(&[Fail; 3]);
    assert_eq!(reader.lost().await.reason, Expired);
    assert!(!of_writer.is_finished(), "that was released");
    of_writer.abort();
}

#[tokio::test(start_paused = true)]
async fn observers_get_the_end_of_one_guard_and_the_start_of_another() {
    let fixture = PausedFixture::new(3);
    let balance =
        |fixture: &PausedFixture| [fixture.journal.count("held"), fixture.journal.count("let go")];
    let writer = fixture.client.rwlock(NAME).write().await.unwrap();
    assert_eq!(balance(&fixture), [1, 0]);
    let rounds = fixture.started();
    let reader = writer.downgrade().await.unwrap();
    assert_eq!((balance(&fixture), fixture.started()), ([2, 1], rounds + 1), "in one round");
    reader.release().await.unwrap();
    let writer = fixture.client.rwlock(NAME).write().await.unwrap();
    fixture.behave(&[Hang; 3]);
    writer.downgrade().await.unwrap_err();
    assert_eq!(balance(&fixture), [3, 3]);
    assert_eq!(fixture.journal.count("lost"), 0, "the writer has ended");
}

#[tokio::test(start_paused = true)]
async fn expired_writer_does_not_become_a_reader() {
    let fixture = PausedFixture::new(3);
    let over = fixture.client.rwlock(NAME).no_renew().write().await.unwrap();
    pass(TTL).await;
    let error = over.downgrade().await.unwrap_err();
    assert!(matches!(&error, DowngradeError::Lost(lost) if lost.reason == Expired), "{error}");
    let writer = fixture.client.rwlock(NAME).write().await.unwrap();
    let _ = fixture.client.clone().shutdown(TTL).await;
    let error = writer.downgrade().await.unwrap_err();
    let is_told = match &error {
        DowngradeError::Lost(lost) => lost.reason == ShutDown,
        other => *other == DowngradeError::ShutDown,
    };
    assert!(is_told, "{error}");
    assert_eq!(fixture.holding(), 0);
    assert!(!is_taken(&fixture.other().mutex(NAME)).await);
}

/// Real servers, most of which go down with the request in flight.
#[test]
fn downgrade_fails_and_leaves_nothing_when_servers_go_away() {
    use quorate_testkit::Fault;
    let fixture = ProxyFixture::start(3);
    let client = connect_to_all(fixture.through_proxies().vote_timeout(SHORT));
    let writer = block_on(client.rwlock(NAME).write()).unwrap();
    fixture.set(&[0, 1], Fault::BlackHole);
    let error = block_on(writer.downgrade()).unwrap_err();
    assert!(matches!(&error, DowngradeError::NoQuorum { .. }), "{error}");
    fixture.repair(&[0, 1]);
    fixture.wait_until_empty("it is released");
}

#[test]
fn blocking_writer_becomes_a_reader() {
    let client = quorate::blocking::Client::memory();
    let writer = client.rwlock("a").write().unwrap();
    assert!(writer.fence().is_some());
    let reader = writer.downgrade().unwrap();
    assert!(client.rwlock("a").try_read().unwrap().is_some());
    assert!(client.rwlock("a").try_write().unwrap().is_none());
    reader.release().unwrap();
    let writer = client.rwlock("a").try_write().unwrap().expect("nobody reads");
    writer.into_guard().release().unwrap();
}
